"""The vdso of a recording: the one that runs if it is that, or perf's copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.support.toolchain import run, tool
from unwind.process.maps import VDSO, parse_maps
from unwind.readers.formats import reader_of
from unwind.readers.source import Source
from unwind.record.obstacles import may_record_all
from unwind.walk import vdso as of_vdso
from unwind.walk.vdso import RecordedVdso, own_vdso

START = 0x7FFF00000000


@pytest.fixture
def own() -> Image:
    image = own_vdso()
    if image is None:
        pytest.skip("the kernel maps no vdso")
    return image


def functions(image: Image) -> dict[int, set[str]]:
    symbols = image.dynamic_symbols
    found: dict[int, set[str]] = {}
    for row in map(int, symbols.functions):
        found.setdefault(int(symbols.value[row]), set()).add(symbols.name(row))
    return found


def test_the_vdso_that_runs(own: Image) -> None:
    recorded = RecordedVdso(own.build_id, (), is_same_kernel=False)
    for vaddr, names in functions(own).items():
        name = recorded.name(START, START + vaddr + 1)
        assert name in names and (name.startswith("__") or len(names) == 1)
    assert recorded.name(START, START) == ""  # its header
    assert recorded.name(1 << 31, (1 << 31) + next(iter(functions(own)))) == ""  # of a 32-bit process


def test_another_one_is_not_taken(own: Image) -> None:
    vaddr = next(iter(functions(own)))
    assert RecordedVdso(bytes(range(20)), (), is_same_kernel=True).name(START, START + vaddr) == ""
    assert RecordedVdso(b"", (), is_same_kernel=False).name(START, START + vaddr) == ""
    assert RecordedVdso(b"", (), is_same_kernel=True).name(START, START + vaddr) != ""


def test_the_copy_that_perf_keeps(own: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = own.build_id.hex()
    copy = tmp_path / ".build-id" / digits[:2] / digits[2:] / "vdso"
    copy.parent.mkdir(parents=True)
    (mapping,) = (each for each in parse_maps(Path("/proc/self/maps").read_bytes(), "maps") if each.path == VDSO)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(mapping.start)
        copy.write_bytes(memory.read(mapping.end - mapping.start))
    monkeypatch.setattr(of_vdso, "own_vdso", lambda: None)
    vaddr, names = next(iter(functions(own).items()))
    assert RecordedVdso(own.build_id, [str(tmp_path)], is_same_kernel=False).name(START, START + vaddr) in names
    other = bytes([own.build_id[0], *bytes(19)])
    copy.parent.rename(copy.parent.parent / other.hex()[2:])
    assert RecordedVdso(other, [str(tmp_path)], is_same_kernel=False).name(START, START + vaddr) == ""


CLOCK = """
#include <time.h>
long sink;
int main() {
  struct timespec t;
  for (long i = 0; i < 4000000; i++) { clock_gettime(CLOCK_MONOTONIC, &t); sink += t.tv_nsec; }
}
"""


@pytest.mark.parametrize("option", ["--buildid-mmap", "--buildid-all"])
def test_names_are_those_that_perf_shows(option: str, own: Image, tmp_path: Path) -> None:
    (tmp_path / "clock.c").write_text(CLOCK)
    program, data = tmp_path / "clock", tmp_path / "perf.data"
    run(tool("gcc"), "-O1", tmp_path / "clock.c", "-o", program)
    done = run(tool("perf"), "record", "-q", "-e", "cpu-clock", "-F", "999", option, "-o", data, program, check=False)
    if done.returncode:
        pytest.skip("perf may not record here")
    text = run(tool("perf"), "script", "-i", data, "-F", "ip,sym,dso").stdout
    perfs = sorted(line.split()[1] for line in text.splitlines() if line.endswith("([vdso])"))
    with Source.open(str(data)) as source:
        frames = [frame for sample in reader_of("perf").read(source) for frame in sample.frames]
    ours = sorted(frame.name for frame in frames if frame.is_certain and "__vdso" in frame.name)
    assert perfs
    # whether this kernel was the recorded one is known by its build id, which not every user may record
    assert ours == (perfs if option == "--buildid-all" or may_record_all() else [])
