"""Functions made at run time, from jitdumps: which one was where at which time."""

from __future__ import annotations

import logging
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support import jitdump as j
from tests.support import perf_data as p
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool
from unwind.process.image_finder import ImageFinder
from unwind.readers.formats import reader_of
from unwind.readers.source import Source
from unwind.samples.recording import RecordedFrame

PID, CODE, PAGE = 77, 0x7F0000001000, 0x7F0000900000
MONOTONIC = p.attr(flags=p.SAMPLE_ID_ALL | p.USE_CLOCK_ID, clock_id=1)


def inode_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def frames(
    records: bytes, path: Path, attr: bytes = MONOTONIC, images: ImageFinder | None = None
) -> list[RecordedFrame]:
    """Return the innermost frames of a recording."""
    path.write_bytes(p.perf_data(records, attr))
    with Source.open(str(path), images) as source:
        return [sample.frames[0] for sample in reader_of("perf").read(source)]


def dump(folder: Path, *records: bytes, pid: int = PID, flags: int = 0) -> Path:
    path = folder / f"jit-{PID}.dump"
    path.write_bytes(j.header(pid, flags=flags) + b"".join(records))
    return path


def mapped(path: Path, file_id: tuple[int, int] | None = None) -> bytes:
    """Return the record of the mapping of a jitdump, and of the memory for its functions."""
    memory = p.mmap2(PID, CODE, 0x100000, "//anon", 3, file_id=(0, 0))
    return p.mmap2(PID, PAGE, 0x1000, str(path), 2, file_id=file_id or inode_of(path)) + memory


def at(time: int, address: int = CODE + 4) -> bytes:
    return p.sample(PID, time, p.CONTEXT_USER, address)


def test_what_was_there_at_the_time(tmp_path: Path) -> None:
    rows = [(CODE, 10, 1, b"a.js"), (CODE + 4, 11, 1, b"a.js")]
    path = dump(
        tmp_path,
        j.lines(CODE, rows, 9),
        j.load(b"first", CODE, bytes(16), 1, 10),
        j.load(b"second", CODE, bytes(16), 2, 30),  # in its place
        j.load(b"third", CODE + 0x100, bytes(16), 3, 40),
        j.move(CODE + 0x100, CODE + 0x200, 16, 3, 50),
    )
    again = p.mmap2(PID, CODE, 0x100000, "//anon", 25, file_id=(0, 0))  # mprotect
    times = [(5, 4), (10, 4), (20, 4), (26, 4), (35, 4), (45, 0x104), (45, 0x204), (55, 0x104), (55, 0x204)]
    samples = b"".join(at(time, CODE + offset) for time, offset in times)
    found = frames(mapped(path) + again + samples, tmp_path / "p")
    names = ["", "first", "first", "first", "second", "third", "", "", "third"]
    assert [frame.name for frame in found] == names
    assert [frame.is_certain for frame in found] == [bool(name) for name in names]
    assert [(frame.file, frame.line) for frame in found[1:5]] == [("a.js", 11)] * 3 + [("", 0)]


def test_a_return_address_is_in_the_function_before_it(tmp_path: Path) -> None:
    path = dump(tmp_path, j.load(b"f", CODE, bytes(16), 1, 4), j.load(b"g", CODE + 16, bytes(16), 2, 4))
    (tmp_path / "p").write_bytes(
        p.perf_data(mapped(path) + p.sample(PID, 5, p.CONTEXT_USER, CODE + 16, CODE + 16), MONOTONIC)
    )
    with Source.open(str(tmp_path / "p")) as source:
        ((inner, caller),) = (sample.frames for sample in reader_of("perf").read(source))
    assert (inner.name, caller.name) == ("g", "f")


@pytest.mark.parametrize("attr, flags", [(p.attr(), 0), (MONOTONIC, 1)])
def test_by_another_clock_no_name_is_certain(attr: bytes, flags: int, tmp_path: Path) -> None:
    path = dump(
        tmp_path, j.load(b"first", CODE, bytes(16), 1, 10), j.load(b"second", CODE, bytes(16), 2, 30), flags=flags
    )
    found = frames(mapped(path) + at(5) + at(20), tmp_path / "p", attr)
    assert [(frame.name, frame.is_certain) for frame in found] == [("second", False)] * 2


def test_a_fork_has_what_its_parent_had(tmp_path: Path) -> None:
    path = dump(tmp_path, j.load(b"f", CODE, bytes(16), 1, 4), j.load(b"g", CODE, bytes(16), 2, 30))
    records = mapped(path) + p.fork(78, PID, 10) + p.sample(78, 40, p.CONTEXT_USER, CODE) + at(40)
    assert [frame.name for frame in frames(records, tmp_path / "p")] == ["f", "g"]


def test_a_file_that_is_not_that_of_the_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    function = j.load(b"f", CODE, bytes(16), 1, 4)
    path = dump(tmp_path, function)
    with caplog.at_level(logging.WARNING, "icf"):
        device, inode = inode_of(path)
        (other,) = frames(mapped(path, (device, inode + 1)) + at(5), tmp_path / "p")
        dump(tmp_path, function, pid=9)
        (wrong,) = frames(mapped(path) + at(5), tmp_path / "p")
        path.write_bytes(b"JiTx" + bytes(60))
        (broken,) = frames(mapped(path) + at(5), tmp_path / "p")
    assert {frame.name for frame in (other, wrong, broken)} == {""}
    assert all(frame.module is None for frame in (other, wrong, broken))
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first == (
        f"{path}: is another file than the one that was mapped, inode {inode + 1}:"
        " the functions that it lists are unknown"
    )
    assert second == f"{path}: jitdump+0x14: is of process 9, not {PID}: the functions that it lists are unknown"
    assert third.startswith(f"{path}: jitdump+0x0: starts with 4a695478")


def test_a_copy_below_a_directory_that_is_named(tmp_path: Path) -> None:
    path = dump(tmp_path, j.load(b"f", CODE, bytes(16), 1, 4))
    records = mapped(Path(f"/gone/{path.name}"), (1, 2)) + at(5)
    assert [frame.name for frame in frames(records, tmp_path / "p", images=ImageFinder([str(tmp_path)]))] == ["f"]


def test_what_lies_in_an_image_is_the_images(tmp_path: Path) -> None:
    shop = ROOT / "testdata" / "shop" / "shop.lld"
    path = dump(tmp_path, j.load(b"f", CODE + 0x100000, bytes(16), 1, 4), j.load(b"g", CODE, bytes(16), 2, 4))
    image = p.mmap2(PID, CODE + 0x100000, 0x1000, str(shop), 3, file_id=inode_of(shop))
    found = frames(mapped(path) + image + at(5, CODE + 0x100004) + at(5), tmp_path / "p")
    assert found[0].module is not None and found[0].name == "" and found[1].name == "g"


def test_files_that_perf_has_injected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, one = tmp_path / "f.c", tmp_path / f"jitted-{PID}-1.so"
    source.write_text("int made_function(void) { return 3; }")
    run(tool("gcc"), "-shared", "-nostdlib", source, "-o", one)
    records = p.mmap2(PID, CODE, 0x40, str(one), 3, 0x40, file_id=inode_of(one))
    for number in (2, 3):
        gone = one.with_name(f"jitted-{PID}-{number}.so")
        records += p.mmap2(PID, CODE + number * 0x40, 0x40, str(gone), 3, 0x40, file_id=(1, number))
    samples = b"".join(at(5, CODE + number * 0x40 + 4) for number in (0, 2, 3))
    with caplog.at_level(logging.WARNING, "icf"):
        (tmp_path / "p").write_bytes(p.perf_data(records + samples, MONOTONIC))
        with Source.open(str(tmp_path / "p")) as opened:
            found = [sample.frames[0] for sample in reader_of("perf").read(opened)]
            opened.images.report()
    assert [(frame.name, frame.is_certain) for frame in found] == [("made_function", True), ("", False), ("", False)]
    (line,) = (record.getMessage() for record in caplog.records)
    shown = tmp_path / f"jitted-{PID}-*.so"
    assert line == f"{shown}: not there, or not the files that were mapped: 2 distinct frames are unknown"


SCRIPT = """
function hot(count) { let sum = 0; for (let i = 0; i < count; i++) sum += i % 7; return sum; }
const end = Date.now() + 700;
for (let k = 0, total = 0; Date.now() < end; k++) {
  const made = new Function("n", `let s = 0; for (let i = 0; i < n; i++) s += (i * ${k}) % 17; return s;`);
  total += hot(20000) + made(20000);
}
"""
_LINE = re.compile(r"\s*([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)")


def test_names_are_those_that_perf_injects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perf, node = tool("perf"), tool("node")
    monkeypatch.chdir(tmp_path)
    Path("hot.js").write_text(SCRIPT)
    options = ["-q", "-k", "mono", "-e", "cpu-clock", "-F", "499", "-g", "-o", "perf.data"]
    script = [node, "--perf-prof", "--interpreted-frames-native-stack", "hot.js"]
    if run(perf, "record", *options, *script, check=False).returncode:
        pytest.skip("perf may not record here")
    subprocess.run([perf, "inject", "--jit", "-i", "perf.data", "-o", "jit.data"], check=True, capture_output=True)
    text = run(perf, "script", "--no-inline", "-i", "jit.data", "-F", "ip,sym,dso", check=False).stdout
    lines = filter(None, map(_LINE.fullmatch, text.splitlines()))
    perfs = Counter(line[2] for line in lines if "/jitted-" in line[3])  # addresses differ between versions
    assert perfs.total() > 50
    of_dump, of_files = (names(Path(name)) for name in ("perf.data", "jit.data"))
    assert any("hot" in name for name in of_dump)
    # perf looks for a return address where it is, and not in the call before it
    assert (of_files & perfs).total() > 0.99 * perfs.total() and (of_files - perfs).total() < 0.01 * perfs.total()
    assert of_dump.total() > 50 and (of_dump - perfs).total() < 0.01 * perfs.total()
    builtins = perfs - of_dump  # they are in node itself, which has symbols of them
    assert all(name.startswith(("Builtin:", "BytecodeHandler:")) for name in builtins)


def names(path: Path) -> Counter[str]:
    """Return the functions made at run time, each as often as there are frames of it."""
    with Source.open(str(path)) as source:
        frames = [frame for sample in reader_of("perf").read(source) for frame in sample.frames]
    made = [frame for frame in frames if frame.is_certain and frame.address is not None and not frame.address >> 63]
    return Counter(frame.name for frame in made if not frame.name.startswith("__vdso_"))
