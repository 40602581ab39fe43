"""`icf snapshot`: what each kind of input says of its modules, and that `--modules` reads it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from icf.cli import main
from icf.elf.image import Image
from icf.errors import IcfError
from icf.pe.debugdirectory import CODEVIEW, DebugEntry, pack_chunk, parse_chunk
from icf.remote import fetch
from tests.support import pe
from tests.support.minidumps import MadeMinidump
from tests.support.paths import ROOT
from tests.support.servers import debuginfod as run_debuginfod
from tests.support.toolchain import run, tool
from unwind.process.module_list import read_modules

MINIDUMPS, SHOP, PERF = ROOT / "testdata/minidumps", ROOT / "testdata/shop", ROOT / "testdata/perf"
PROGRAM = """
    #include <stdio.h>
    __attribute__((noinline)) void inner() { printf("%p\\n", __builtin_return_address(0)); fflush(stdout); getchar(); }
    __attribute__((noinline)) void outer() { inner(); puts(""); }
    int main() { outer(); return 0; }
"""


def snapshot(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    """The entries that a command writes."""
    capsys.readouterr()
    assert main(["snapshot", *map(str, arguments)]) == 0
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return entries


def note_of(path: Path) -> bytes:
    with Image.open(str(path)) as image:
        return bytes(image.contents(".note.gnu.build-id"))


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path, int]]:
    """A stripped program that waits, its debug file in `tree`, and an address in `outer`."""
    (tmp_path / "tree").mkdir()
    source, program = tmp_path / "waits.c", tmp_path / "waits"
    source.write_text(PROGRAM)
    flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-static-pie", "-Wl,--build-id"]
    run(tool("gcc"), *flags, source, "-o", program)
    run("objcopy", "--only-keep-debug", program, tmp_path / "tree/waits.debug")
    run("strip", program)
    run("objcopy", f"--add-gnu-debuglink={tmp_path}/tree/waits.debug", program)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, program, int(process.stdout.readline(), 16)
        process.kill()


def test_a_process_is_named_on_another_machine(
    started: tuple[subprocess.Popen[bytes], Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    process, program, address = started
    entries = snapshot(capsys, "--pid", process.pid)
    maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    for entry in entries:
        first = next(line for line in maps if line.endswith(entry["path"]))
        assert int(entry["load_address"], 16) == int(first.partition("-")[0], 16)
    own = next(entry for entry in entries if entry["path"] == str(program))
    assert base64.b64decode(own["build_id_note"]) == note_of(program)
    assert own["debuglink"]["name"] == "waits.debug"
    assert main(["snapshot", "--pid", str(process.pid), "-o", str(tmp_path / "modules.json")]) == 0

    # on another machine neither the program nor its debug file is there, but a server has both
    (tmp_path / "stacks").write_text(f"{address:#x}!\n")
    shutil.move(program, tmp_path / "tree/waits")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "client"))
    monkeypatch.setattr(fetch, "_failed", set())
    with run_debuginfod(tmp_path / "tree") as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        capsys.readouterr()
        main(["resolve", "--modules", str(tmp_path / "modules.json"), str(tmp_path / "stacks")])
        out = capsys.readouterr().out
    assert "outer" in out and "waits.c:4" in out


@pytest.mark.parametrize("writer", ["crashpad", "breakpad", "lldb"])
def test_a_minidump_of_linux(writer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = MINIDUMPS / f"{writer}.dmp"
    alone = {entry["path"]: entry for entry in snapshot(capsys, "--minidump", dump)}
    here = {entry["path"]: entry for entry in snapshot(capsys, "--minidump", dump, "--module-root", MINIDUMPS)}
    program = "/tmp/minidumps/crash"
    assert alone.keys() == here.keys()
    assert base64.b64decode(here[program]["build_id_note"]) == note_of(MINIDUMPS / "crash")
    assert alone[program]["build_id"] == here[program]["build_id"]
    if "load_address" in alone[program]:
        assert alone[program]["load_address"] == here[program]["load_address"]
    else:  # the program headers are not here; where the code was mapped says the same
        place, image_start = alone[program], int(here[program]["load_address"], 16)
        assert int(place["start"], 16) - int(place["offset"], 16) <= int(place["start"], 16) and image_start
    (tmp_path / "modules").write_text(json.dumps(list(alone.values())))
    assert len(read_modules(str(tmp_path / "modules"))) == len(alone)


def test_a_minidump_of_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = bytes(range(16)) + pack("<I", 2) + b"C:\\out\\app.pdb\0"
    modules = [
        ("C:\\app\\app.exe", record, 0x7FF600000000, 0x3000),
        ("C:\\app\\plain.dll", b"", 0x7FF700000000, 0x5000),
    ]
    made = MadeMinidump(platform=2, signature=b"RSDS", timestamp=0x62EE1B1F, modules=modules)
    (tmp_path / "app.dmp").write_bytes(made.build())
    app, plain = snapshot(capsys, "--minidump", tmp_path / "app.dmp")
    expected = pack_chunk([DebugEntry(0, 0x62EE1B1F, 0, 0, CODEVIEW, b"RSDS" + record)])
    assert app == {
        "path": "C:\\app\\app.exe",
        "load_address": "0x7ff600000000",
        "size_bytes": 0x3000,
        "pe": {
            "timestamp": "0x62ee1b1f",
            "image_size_bytes": 0x3000,
            "debug_directory": base64.b64encode(expected).decode(),
            "debug_directory_entry_bytes": 28,
        },
    }
    assert plain["pe"]["debug_directory"] == "" and plain["pe"]["debug_directory_entry_bytes"] == 0


def test_the_modules_that_the_samples_of_a_recording_need(capsys: pytest.CaptureFixture[str]) -> None:
    entries = snapshot(capsys, PERF / "hot.data")
    assert entries
    for entry in entries:
        assert set(entry) >= {"path", "build_id"} and ("load_address" in entry or "start" in entry)


def test_a_recording_of_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(
        f"shop {pid} 1.0: PERF_RECORD_MMAP2 {pid}/{pid}: [0x5555{pid}000(0x1000) @ 0x1000 fe:00 7 8]:"
        f" r-xp /nowhere/shop{pid}\nshop {pid} 1.0: 1 cycles:\n\t  5555{pid}010 main+0x0 (/nowhere/shop{pid})\n\n"
        for pid in (17, 23)
    )
    (tmp_path / "recorded").write_text(text)
    entries = snapshot(capsys, tmp_path / "recorded")
    assert [(entry["path"], entry["pid"]) for entry in entries] == [("/nowhere/shop17", 17), ("/nowhere/shop23", 23)]
    (alone,) = snapshot(capsys, "--process", 23, tmp_path / "recorded")
    place = {"start": "0x555523000", "end": "0x555524000", "offset": "0x1000"}
    assert alone == {"path": "/nowhere/shop23", **place}
    assert main(["snapshot", "--process", "5", str(tmp_path / "recorded")]) == 1
    assert capsys.readouterr().err.endswith("no sample is of process 5\n")
    (tmp_path / "modules").write_text(json.dumps(entries))
    with pytest.raises(IcfError, match=r"modules: has the modules of 2 processes"):
        read_modules(str(tmp_path / "modules"))


def test_modules_log_of_drmemtrace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = shutil.copy(SHOP / "shop.gold", tmp_path / "shop")
    rows = [
        f"0, 0, 0x1000, 0x2000, 0x1000, 0000000000000000, 0x0, {shop}",
        f"1, 0, 0x2000, 0x4000, 0x1000, 0000000000001000, 0x0, {shop}",
        "2, 2, 0x8000, 0x9000, 0x8000, 0000000000000000, 0x0, /nowhere/libx.so",
        "3, 3, 0xa000, 0xb000, 0xa000, 0000000000000000, 0x0, [vdso]",
    ]
    (tmp_path / "modules.log").write_text("\n".join(["Module Table: version 5, count 4", "Columns: id", *rows, ""]))
    own, other = snapshot(capsys, tmp_path / "modules.log")
    assert (own["path"], own["load_address"], own["size_bytes"]) == (str(shop), "0x1000", 0x3000)
    assert base64.b64decode(own["build_id_note"]) == note_of(SHOP / "shop.gold")
    assert other == {"path": "/nowhere/libx.so", "load_address": "0x8000", "size_bytes": 0x1000}


def test_images_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = pe.of_pip("t64-arm.exe")
    windows, linux = snapshot(capsys, app, SHOP / "shop.lld")
    if windows["path"] != str(app):
        windows, linux = linux, windows
    chunk = base64.b64decode(windows["pe"]["debug_directory"])
    entries = parse_chunk(chunk, windows["pe"]["debug_directory_entry_bytes"], "chunk")
    assert len(entries) == 3 and entries[0].type == CODEVIEW and pack_chunk(entries) == chunk
    (tmp_path / "modules").write_text(json.dumps([{**windows, "load_address": "0x10000"}]))
    (tmp_path / "stacks").write_text("0x11000\n")
    assert main(["resolve", "--modules", str(tmp_path / "modules"), str(tmp_path / "stacks")]) == 1
    out = capsys.readouterr().out  # pip has no PDB of it
    assert "#0  0x0000000000011000 in t64-arm.exe  [unknown: in no function of the image]" in out
    assert windows["size_bytes"] == windows["pe"]["image_size_bytes"] and "load_address" not in windows
    assert base64.b64decode(linux["build_id_note"]) == note_of(SHOP / "shop.lld")


NOTE = base64.b64encode(bytes.fromhex("04000000 02000000 03000000 474e5500 abcd0000")).decode()


def test_the_note_alone_is_a_build_id(tmp_path: Path) -> None:
    (tmp_path / "modules").write_text(json.dumps([{"path": "a", "bias": 0, "build_id_note": NOTE}]))
    (module,) = read_modules(str(tmp_path / "modules"))
    assert module.build_id == b"\xab\xcd"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"build_id": "abce", "build_id_note": NOTE}, "build_id is abce, its note has abcd"),
        ({"build_id_note": "AAAA"}, "build_id_note must be a note with a build id, in base64"),
        ({"build_id_note": "not base64"}, "build_id_note must be a string in base64"),
        ({"debuglink": {"name": "../x", "crc": 1}}, "debuglink must be an object with the name of a file, and crc"),
        ({"debuglink": {"name": "x"}}, "debuglink: crc is missing"),
        ({"debuglink": {"name": "x", "crc": 1 << 32}}, "debuglink: crc must be a number of 32 bits"),
        ({"pe": 7}, "pe must be an object with timestamp and image_size_bytes"),
        ({"pe": {"timestamp": 1}}, "pe: image_size_bytes is missing"),
        (
            {
                "pe": {
                    "timestamp": 1,
                    "image_size_bytes": 1,
                    "debug_directory": "AAAA",
                    "debug_directory_entry_bytes": 28,
                }
            },
            r"debug directory\+0x0: 28 bytes of entries, the chunk has 3",
        ),
    ],
)
def test_what_a_list_says_wrong_is_one_line(fields: dict[str, Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "modules").write_text(json.dumps([{"path": "a", "bias": 0, **fields}]))
    with pytest.raises(IcfError, match=f"modules: module 1: {problem}"):
        read_modules(str(tmp_path / "modules"))


def test_what_is_no_recording_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stacks").write_text("0x1000 0x2000\n")
    assert main(["snapshot", str(tmp_path / "stacks")]) == 1
    assert capsys.readouterr().err == f"icf: error: {tmp_path}/stacks: stacks+0x0: addresses alone, without modules\n"
    assert main(["snapshot"]) == 1
    assert capsys.readouterr().err == "icf: error: needs one of --pid, --core, --minidump and FILE\n"
