"""Minidumps of a Windows program: PE images found by identity, stacks unwound by `.pdata`, frames named as in the
program that was linked without folding.

Both programs execute the same instructions, one after the other, at other addresses. So what the unfolded one executes
at a step says which function each frame of the folded one really is.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from icf.pe.image import PeImage
from icf.pe.keys import image_key, pdb_key
from tests.e2e.program import icf
from tests.support.icf_command import icf_command
from tests.support.minidumps import MadeMinidump
from tests.support.servers import http_folder
from tests.support.toolchain import lasting_folder
from tests.support.windows import SHOP, compile_dwarf, compile_windows, link_dwarf, link_windows
from tests.support.windows_steps import RIP, RSP, Step, steps_of

MOVED = 0x10000000  # what the loader adds to addresses; a multiple of 64 KiB
_STACK_BYTES = 1 << 16
_WINDOWS = 2
_ACCESS_VIOLATION = 0xC0000005


@cache
def programs(debug: str = "pdb") -> tuple[Path, Path]:
    """The program with folding, and its tables beside it; and without."""
    if debug != "pdb":
        compiled = compile_dwarf(SHOP, "-O1", "-gdwarf-5")
        launcher = (*icf_command(), "link", "--strict", "--") if debug == "dwarf, icf link" else ()
        folded = link_dwarf(lasting_folder(), compiled, "/build-id", name="shop", launcher=launcher)
        if not launcher:
            icf("pass", "-q", folded, "--objects", compiled)
        return folded, link_dwarf(lasting_folder(), compiled, "/build-id", icf=False, name="unfolded")
    compiled = compile_windows(SHOP)
    folded = link_windows(lasting_folder(), compiled, name="shop")
    icf("pass", "-q", folded, "--objects", compiled)
    return folded, link_windows(lasting_folder(), compiled, icf=False, name="unfolded")


@cache
def common_steps(debug: str = "pdb") -> list[tuple[Step, Step]]:
    folded, unfolded = map(steps_of, programs(debug))
    assert len(folded) == len(unfolded) > 150
    assert [len(each.frames) for each in folded] == [len(each.frames) for each in unfolded]
    return list(zip(folded, unfolded, strict=True))


def moved(step: Step, image: PeImage, thread: int) -> tuple[dict[int, int], bytes]:
    """The registers and the stack as if image and stack had been elsewhere: each thread has its own stack."""
    low, high = image.span
    sp = step.registers[RSP]

    def word(value: int) -> int:
        if sp <= value <= sp + len(step.stack):
            return value + thread * _STACK_BYTES
        return value + MOVED if low <= value < high else value

    words = [int.from_bytes(step.stack[at : at + 8], "little") for at in range(0, len(step.stack), 8)]
    registers = dict(enumerate(map(word, step.registers)))
    return registers, b"".join(pack("<Q", word(each)) for each in words)


def dump_of(path: Path, steps: list[Step], *, name: str = "") -> Path:
    """Write a minidump in which each thread is at one of the steps."""
    with PeImage.open(str(path)) as image:
        made = MadeMinidump(platform=_WINDOWS, signature=b"RSDS", timestamp=image.headers.timestamp, pid=77)
        codeview = image.codeview
        assert codeview is not None
        record = codeview.signature + pack("<I", codeview.age) + codeview.path.encode() + b"\0"
        size_bytes = image.headers.image_size_bytes
        made.modules = [(name or f"C:\\app\\{path.name}", record, image.base + MOVED, size_bytes)]
        for tid, step in enumerate(steps, 1):
            registers, stack = moved(step, image, tid)
            made.threads.append((tid, registers, registers[RSP], stack))
        made.parameters = (0, 0x18)  # a read, of that address
        made.exception = (1, _ACCESS_VIOLATION, made.threads[0][1][RIP], made.threads[0][1])
    dump = lasting_folder() / "app.dmp"
    dump.write_bytes(made.build())
    return dump


def stacks_of(dump: Path, folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in icf("stacks", "--minidump", dump, "--module-root", folder, "--json").splitlines()
    ]


@pytest.mark.parametrize("debug", ["pdb", "dwarf", "dwarf, icf link"])
def test_frames_are_those_of_the_unfolded_program(debug: str) -> None:
    (folded, unfolded), steps = programs(debug), common_steps(debug)
    found = stacks_of(dump_of(folded, [each for each, _ in steps]), folded.parent)
    truth = stacks_of(dump_of(unfolded, [each for _, each in steps]), unfolded.parent)
    named = merged = 0
    for ours, theirs, (step, _) in zip(found, truth, steps, strict=True):
        # the last one is the loader, which has called the entry point
        assert len(ours["frames"]) == len(theirs["frames"]) == len(step.frames) + 1
        for frame, true in zip(ours["frames"][:-1], theirs["frames"][:-1], strict=True):
            assert true["verdict"] == "unmerged"
            if frame["name"] is not None:
                assert frame["name"] == true["name"]
            else:
                assert true["linkage_name"] in frame["candidates"]
            merged += frame["verdict"] != "unmerged"
            named += frame["verdict"] != "unmerged" and frame["name"] is not None
    print(f"{named} of {merged} frames in merged functions are named")
    assert named / merged > 0.75  # the others were called through vtables


def test_the_crash_and_the_end_of_the_stack() -> None:
    folded, steps = programs()[0], common_steps()
    deepest = max((each for each, _ in steps), key=lambda each: len(each.frames))
    lines = icf("stacks", "--minidump", dump_of(folded, [deepest]), "--module-root", folded.parent).splitlines()
    assert lines[0] == "Thread 1 (LWP 1), EXCEPTION_ACCESS_VIOLATION at address 0x18:"
    assert any(" in mainCRTStartup () at " in line for line in lines)


def tree(path: Path, folder: Path) -> Path:
    """Copy an image and its PDB to a tree of a symbol server."""
    with PeImage.open(str(path)) as image:
        assert image.codeview is not None
        pdb, headers = pdb_key(image.codeview, str(path)), image.headers
        image_file = image_key(str(path), headers.timestamp, headers.image_size_bytes)
    for key, file in ((pdb, path.with_suffix(".pdb")), (image_file, path)):
        (folder / key).parent.mkdir(parents=True)
        shutil.copy(file, folder / key)
    return folder


@pytest.mark.parametrize("place", ["tree", "server"])
def test_images_are_found_by_identity(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folded, step = programs()[0], common_steps()[40][0]
    dump, store = dump_of(folded, [step]), tree(folded, tmp_path / "store")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    expected = [len(step.frames) + 1]
    if place == "tree":
        monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{store}")
        found = stacks_of(dump, tmp_path / "none")
    else:
        with http_folder(store) as url:
            monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{url}")
            found = stacks_of(dump, tmp_path / "none")
    assert [len(each["frames"]) for each in found] == expected
    assert found[0]["frames"][-2]["name"] == "mainCRTStartup"


def test_an_image_of_another_link_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folded, unfolded = programs()
    shutil.copy(unfolded, tmp_path / folded.name)
    dump = dump_of(folded, [common_steps()[40][0]])
    arguments = ("--module-root", tmp_path, "--cache-dir", tmp_path / "empty")
    text = icf("stacks", "--minidump", dump, *arguments, status=1)
    assert text.count("\n#") == 1  # its caller is not known without the image
    (line,) = [each for each in capsys.readouterr().err.splitlines() if str(tmp_path) in each]
    assert f"{tmp_path}/shop.exe: has " in line and ", not " in line


def test_a_list_of_modules_resolves_stacks(tmp_path: Path) -> None:
    folded, steps = programs()[0], [each for each, _ in common_steps()]
    icf("snapshot", "--minidump", dump_of(folded, steps[:1]), "-o", tmp_path / "modules.json")
    step = max(steps, key=lambda each: len(each.frames))
    stack = " ".join(hex(each.pc + MOVED) for each in step.frames)
    (tmp_path / "stacks").write_text(stack + "\n")
    arguments = ("--module-root", folded.parent, "--out", "json", tmp_path / "stacks")
    resolved = json.loads(icf("resolve", "--modules", tmp_path / "modules.json", *arguments))
    alone = " ".join(hex(each.pc) for each in step.frames)
    (tmp_path / "alone").write_text(alone + "\n")
    expected = json.loads(icf("resolve", "-e", folded, "--out", "json", tmp_path / "alone"))
    assert [each["name"] for each in resolved["frames"]] == [each["name"] for each in expected["frames"]]
    assert {each["verdict"] for each in resolved["frames"]} >= {"unmerged", "unique"}


def test_a_program_counter_in_no_image_is_followed_to_its_caller() -> None:
    folded, steps = programs()[0], [each for each, _ in common_steps()]
    step = next(each for each in steps if len(each.frames) == 3 and each.registers[RSP] % 16 == 8)  # it was called
    outside = Step((*step.registers[:RIP], 0), step.stack, step.frames)
    (thread,) = stacks_of(dump_of(folded, [outside]), folded.parent)
    assert thread["frames"][0]["verdict"] == "unknown"
    assert [int(each["address"], 16) - MOVED for each in thread["frames"][1:3]] == [each.pc for each in step.frames[1:]]
