"""Profiles of programs with merged functions, in every format that has addresses: right names in, right names out."""

from __future__ import annotations

import json
import shutil
import subprocess
from array import array
from pathlib import Path
from typing import Any

import pytest

from icf.cli import main
from icf.demangle import demangle
from icf.elf.image import Image
from linkpass import Options, run_pass
from tests.e2e.workshop import Workshop
from tests.support import firefox
from tests.support.paths import ROOT
from tests.support.profiles import ProfileMaker, pprof_command, speedscope_command
from tests.support.recordings import read
from unwind.readers.firefox import recognizes as is_firefox
from unwind.readers.pprof import recognizes as is_pprof

SHOP = ROOT / "testdata" / "shop"
LINES = [json.loads(line) for line in (SHOP / "shop.lld.json").read_text().splitlines()]
STACKS = [[None if word == "?" else int(word, 16) for word in line["stack"].split()] for line in LINES]
BIAS, PAGE = 0x7F0000000000, 0x1000  # where it was loaded; its code is the second page
MAPS = f"{BIAS + PAGE:x}-{BIAS + 2 * PAGE:x} r-xp 00000000 08:01 5    /gone/shop\n"
OUTSIDE = 0x7E0000000000

Stack = list[int | None]


def absolute(stack: Stack, less: int = 0) -> list[int]:
    """Return run-time addresses, return addresses less one where the format has them so."""
    return [OUTSIDE if each is None else BIAS + each - less * bool(idx) for idx, each in enumerate(stack)]


def pprof(stacks: list[Stack]) -> bytes:
    maker = ProfileMaker(("samples", "count"))
    module = maker.mapping("/gone/shop", BIAS + PAGE, BIAS + 2 * PAGE)
    for weight, stack in enumerate(stacks, 1):
        ids = [maker.location(each, 0 if each == OUTSIDE else module) for each in absolute(stack, 1)]
        maker.sample(ids, [weight])
    return maker.write()


def cpu(stacks: list[Stack]) -> bytes:
    words = [0, 3, 0, 1, 0]
    for weight, stack in enumerate(stacks, 1):
        words += [weight, len(stack), *absolute(stack)]
    return array("Q", [*words, 0, 1, 0]).tobytes() + MAPS.encode()


def collapsed(stacks: list[Stack]) -> bytes:
    lines = []
    for weight, stack in enumerate(stacks, 1):
        frames = [f"0x{OUTSIDE:x}" if each is None else f"[shop+{each:#x}]" for each in reversed(stack)]
        lines.append(f"{';'.join(frames)} {weight}\n")
    return "".join(lines).encode()


def processed(stacks: list[Stack]) -> bytes:
    profile = firefox.profile()
    profile["libs"][0].update(path="/gone/shop", codeId=None)
    thread: dict[str, Any] = profile["threads"][0]
    frames: dict[str, list[Any]] = {
        name: [] for name in ("address", "inlineDepth", "func", "nativeSymbol", "line", "column")
    }
    nodes: dict[str, list[Any]] = {"frame": [], "prefix": []}
    samples: dict[str, list[Any]] = {"stack": [], "time": [], "weight": []}
    for weight, stack in enumerate(stacks, 1):
        prefix = None
        for idx, each in reversed(list(enumerate(stack))):
            row = len(frames["address"])
            cells = (-1 if each is None else each - bool(idx), 0, 3 if each is None else 0, None, None, None)
            for column, cell in zip(frames.values(), cells, strict=True):
                column.append(cell)
            nodes["frame"].append(row)
            nodes["prefix"].append(prefix)
            prefix = row
        for column, cell in zip(samples.values(), (prefix, weight, weight), strict=True):
            column.append(cell)
    count = len(frames["address"])
    thread["frameTable"] = {**frames, "length": count}
    thread["stackTable"] = {**nodes, "length": count}
    thread["samples"] = {**samples, "weightType": "samples", "length": len(stacks)}
    return json.dumps(profile).encode()


FORMATS = {"pprof": pprof, "gperftools-cpu": cpu, "collapsed": collapsed, "firefox": processed}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program with its tables."""
    image = Path(shutil.copy(SHOP / "shop.lld", tmp_path_factory.mktemp("made") / "shop"))
    run_pass(str(image), Options())
    return image


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the program, which profiles know by another path."""
    monkeypatch.setenv("ICF_CACHE_DIR", str(made.parent / "cache"))
    return Path(shutil.copy(made, tmp_path / "shop"))


def names_of(folded: Path) -> list[list[str]]:
    """Return the names in collapsed stacks, innermost first, sorted by the weight of the stack."""
    lines = [line.rpartition(" ") for line in folded.read_text().splitlines()]
    return [stack.split(";")[::-1] for stack, _, _ in sorted(lines, key=lambda line: int(line[2]))]


def check(names: list[list[str]]) -> None:
    """Check the frames in the program, whatever stands between them: other modules, what tail calls left out."""
    truth = [[demangle(each) for each in line["truth"] if each is not None] for line in LINES]
    known = {name for stack in truth for name in stack}
    assert [[name for name in stack if name in known] for stack in names] == truth


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("out", ["pprof", "firefox", "collapsed"])
def test_every_stack_is_named_rightly(shop: Path, tmp_path: Path, name: str, out: str) -> None:
    content = FORMATS[name](STACKS)
    (tmp_path / "in").write_bytes(content)
    arguments = ["--module-root", str(tmp_path), "--no-lines"]
    given = ["resolve", str(tmp_path / "in"), "--lossy", "none", "--out", out, "-o", str(tmp_path / "out")]
    assert main([*given, *arguments]) == 0
    if out == "collapsed":
        folded = tmp_path / "out"
    else:  # the names that it has now, without looking anything up
        recognizes = is_pprof if out == "pprof" else is_firefox
        assert recognizes((tmp_path / "out").read_bytes()[: 1 << 16])
        shop.unlink()
        folded = tmp_path / "again"
        main(["resolve", str(tmp_path / "out"), "--out", "collapsed", "-o", str(folded), "--no-lines"])
    check(names_of(folded))


MERGED = """
    #include <execinfo.h>
    #include <stdio.h>
    #include <stdlib.h>
    struct Order {}; struct Payment {};
    static FILE *out;
    NOINLINE void record(long size_bytes) {
        void *frames[64];
        int count = backtrace(frames, 64);
        fprintf(out, "%ld: %ld [%ld: %ld] @", size_bytes / 10, size_bytes, size_bytes / 10, size_bytes);
        for (int i = 0; i < count; ++i) fprintf(out, " %p", frames[i]);
        fprintf(out, "\\n");
    }
    template <class T> struct List {
        long count = 0;
        NOINLINE void grow(long size_bytes) { record(size_bytes); ++count; }
        NOINLINE void add(long size_bytes) { grow(size_bytes); ++count; }
    };
    List<Order> orders;
    List<Payment> payments;
    int main(int, char **argv) {
        out = fopen(argv[1], "w");
        fprintf(out, "heap profile: 1: 2 [3: 4] @ heapprofile\\n");
        orders.add(700);
        payments.add(300);
        fprintf(out, "\\nMAPPED_LIBRARIES:\\n");
        FILE *maps = fopen("/proc/self/maps", "r");
        for (int c; (c = getc(maps)) != EOF;) putc(c, out);
        fclose(out);
        return 0;
    }
"""


@pytest.fixture
def heap(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the heap profile that a program has written."""
    program = workshop.build_with_tables(MERGED)
    subprocess.run([program.folded, workshop.folder / "shop.heap"], check=True, timeout=60)
    monkeypatch.setenv("ICF_CACHE_DIR", str(workshop.folder / "cache"))
    return workshop.folder / "shop.heap"


def test_a_heap_profile_of_a_program_that_ran(heap: Path) -> None:
    out = heap.parent / "out.folded"
    assert main(["resolve", str(heap), "--out", "collapsed", "-o", str(out)]) == 0
    stacks = {int(line.rpartition(" ")[2]): line.rpartition(" ")[0].split(";") for line in out.read_text().splitlines()}
    assert [name for name in stacks[700] if "List" in name] == ["List<Order>::add(long)", "List<Order>::grow(long)"]
    assert [name for name in stacks[300] if "List" in name] == ["List<Payment>::add(long)", "List<Payment>::grow(long)"]
    assert stacks[700][-1] == "record(long)" and "main" in stacks[700]


def test_one_value_of_a_profile_is_counted(heap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "alloc_objects, alloc_space, inuse_objects, inuse_space"
    command = ["resolve", str(heap), "--out", "collapsed", "-o", str(heap.parent / "out.folded")]
    assert main(command) == 0
    assert capsys.readouterr().err == f"icf: {heap}: collapsed counts inuse_space\nhint: --value NAME: {names}\n"
    assert main([*command, "--value", "inuse_objects"]) == 0
    assert capsys.readouterr().err == ""
    assert {line.rpartition(" ")[2] for line in (heap.parent / "out.folded").read_text().splitlines()} == {"70", "30"}
    assert main([*command, "--value", "cpu"]) == 1
    assert capsys.readouterr().err == f"icf: error: {heap}: has no value 'cpu'\nhint: it has {names}\n"
    assert main(["resolve", str(heap), "--value", "inuse_objects"]) == 1
    assert "--value is for --out collapsed, firefox, pprof, not for text" in capsys.readouterr().err


def test_pprof_itself_splits_what_is_merged(heap: Path) -> None:
    command = pprof_command()
    profile = heap.parent / "shop.pb.gz"
    assert main(["resolve", str(heap), "--out", "pprof", "-o", str(profile)]) == 0
    top = subprocess.run(
        [command, "-sample_index=inuse_space", "-unit=B", "-cum", "-top", str(profile)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(heap.parent), "PATH": "/usr/bin:/bin"},
    )
    cumulated = {" ".join(line.split()[5:]): line.split()[3] for line in top.stdout.splitlines() if "%" in line}
    assert cumulated["List<Order>::grow(long)"] == "700B" and cumulated["List<Payment>::grow(long)"] == "300B", top


@pytest.mark.parametrize("out", ["pprof", "collapsed"])
def test_speedscope_itself_splits_what_is_merged(heap: Path, out: str) -> None:
    command = speedscope_command()
    profile = heap.parent / f"shop.{out}"
    assert main(["resolve", str(heap), "--out", out, "-o", str(profile)]) == 0
    done = subprocess.run([*command, str(profile)], capture_output=True, text=True, timeout=60, check=True)
    weights = json.loads(done.stdout)
    assert (weights["List<Order>::grow(long)"], weights["List<Payment>::grow(long)"]) == (700, 300)


def test_addresses_of_firefox_count_from_the_lowest_of_an_image(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = workshop.build_with_tables(MERGED, ["-fno-pie"], ["-no-pie"])
    heap, folded = workshop.folder / "shop.heap", workshop.folder / "out.folded"
    subprocess.run([program.folded, heap], check=True, timeout=60)
    monkeypatch.setenv("ICF_CACHE_DIR", str(workshop.folder / "cache"))
    with Image.open(program.folded) as image:
        lowest = image.span[0]
    assert lowest >= 1 << 20
    stacks: list[Stack] = []
    for sample in read("heap", heap.read_bytes()):
        modules = [frame.module.path if frame.module else "" for frame in sample.frames]
        addresses = zip(sample.frames, modules, strict=True)
        stacks.append(
            [(each.address or 0) - lowest if path == str(program.folded) else None for each, path in addresses]
        )
    profile = json.loads(processed(stacks))
    profile["libs"][0]["path"] = str(program.folded)
    (workshop.folder / "profile.json").write_text(json.dumps(profile))
    assert main(["resolve", str(workshop.folder / "profile.json"), "--out", "collapsed", "-o", str(folded)]) == 0
    assert [[name for name in names if "List" in name] for names in names_of(folded)] == [
        ["List<Order>::grow(long)", "List<Order>::add(long)"],
        ["List<Payment>::grow(long)", "List<Payment>::add(long)"],
    ]
