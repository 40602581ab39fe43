"""`perf record --call-graph dwarf`: stacks are those that perf unwinds, and merged functions are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from icf.cli import main
from icf.elf.image import Image
from tests.support.perf_oracle import FIELDS, PerfSample, is_of_vdso, of_perf
from tests.support.toolchain import compile_object, lasting_folder, link, run, tool
from unwind.process.image_finder import ImageFinder
from unwind.process.maps import VDSO
from unwind.readers.formats import reader_of
from unwind.readers.perf_data.events import Event
from unwind.readers.source import Source
from unwind.samples.calls import CallStack
from unwind.samples.recording import Losses, RecordedFrame, Sample

CALLS = """
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

volatile long sink;
[[gnu::noinline]] long leaf(long n) { for (long i = 0; i < 20000; i++) sink += i * n; return sink; }
[[gnu::noinline]] long deep(long n) { return n ? deep(n - 1) + 1 : leaf(3); }
struct Base { virtual ~Base() {} virtual long run(long) = 0; };
struct Deep : Base { long run(long n) override { return deep(n) + 1; } };
struct Tree : Base {
  long run(long n) override {
    std::map<std::string, long> found;
    for (int i = 0; i < 200; i++) found[std::to_string(i * n)] = i;
    return found.size() + deep(2);
  }
};
int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
[[gnu::noinline]] long sorted() {
  std::vector<int> numbers(3000);
  for (int &each : numbers) each = rand();
  qsort(numbers.data(), numbers.size(), sizeof(int), compare);
  return numbers[17];
}
void on_signal(int) { for (int i = 0; i < 8; i++) leaf(i); }
int main() {
  signal(SIGUSR1, on_signal);
  Deep deep; Tree tree;
  Base *both[] = {&deep, &tree};
  for (int i = 0; clock() < CLOCKS_PER_SEC / 3; i++) {  // so that fast machines have as many samples
    sink += both[i & 1]->run(i % 7 + 3) + sorted();
    kill(getpid(), SIGUSR1);
  }
  _exit(0);
}
"""


def record(program: Path, out: Path, how: str = "dwarf") -> Path:
    """Record a program, or skip where perf may not."""
    done = run(
        tool("perf"), "record", "-q", "-e", "cpu-clock", "-F", "997", "--call-graph", how, "-o", out, program,
        check=False,
    )  # fmt: skip
    if done.returncode or not out.exists():
        pytest.skip(f"perf cannot record: {done.stderr.strip()[:80]}")
    return out


def samples_of(path: Path) -> list[Sample]:
    with Source.open(str(path)) as source:
        recording = reader_of("perf").read(source)
        assert recording.losses is Losses.NONE
        return list(recording)


def as_perf_has_it(frame: RecordedFrame) -> tuple[int, str]:
    """Return a frame as `perf script` shows it: return addresses less one."""
    assert frame.address is not None
    if is_of_vdso(frame):
        return 0, VDSO
    address = frame.address if frame.is_exact or frame.address >> 63 else frame.address - 1
    module = frame.module
    return (address - module.start + module.offset, module.path) if module is not None else (address, "")


@pytest.fixture(scope="module")
def recorded() -> Path:
    folder = lasting_folder()
    program = link(folder / "calls", "bfd", compile_object(CALLS, "-O2"))
    return record(program, folder / "perf.data")


def test_stacks_are_those_that_perf_unwinds(recorded: Path) -> None:
    text = run(tool("perf"), "script", "--no-inline", "-i", recorded, "-F", FIELDS, check=False).stdout
    perfs: dict[tuple[int, int], PerfSample] = {(each.time_us, each.tid): each for each in of_perf(text)}
    samples = samples_of(recorded)
    assert len(perfs) == len(samples) > 100
    signals = equal = 0
    for sample in samples:
        tid = next(int(label.value) for label in sample.labels if label.key == "tid")
        ours, theirs = tuple(map(as_perf_has_it, sample.frames)), perfs[sample.time_ns // 1000, tid].frames
        theirs = theirs[:-1] if theirs[-1] == ((1 << 64) - 1, "") else theirs  # where the copy ends
        assert ours[: len(theirs)] == theirs  # in some epilogues perf loses its way, and we do not
        equal += ours == theirs
        signals += any(frame.is_exact for frame in sample.frames[1:])
    assert signals > 10 and equal > 0.99 * len(samples)


def test_images_are_found_as_they_are_for_names(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # perf keeps copies there
    program = recorded.parent / "calls"
    with Image.open(str(program)) as image:
        digits = image.build_id.hex()
    moved = tmp_path / ".build-id" / digits[:2] / digits[2:]
    moved.parent.mkdir(parents=True)
    before = [len(sample.frames) for sample in samples_of(recorded)]
    program.rename(moved)
    try:
        assert sum(len(sample.frames) for sample in samples_of(recorded)) < sum(before)
        with Source.open(str(recorded), ImageFinder((), [str(tmp_path)])) as source:
            assert [len(sample.frames) for sample in reader_of("perf").read(source)] == before
    finally:
        moved.rename(program)


MERGED = """
#include <ctime>
volatile long sink;
[[gnu::noinline]] long spin(long n) { for (long i = 0; i < n; i++) sink += i; return sink; }
struct Apple { long v; }; struct Pear { long w; };
[[gnu::noinline]] long of_apple(Apple *a) { long r = spin(a->v) + 1; sink += r; return r; }
[[gnu::noinline]] long of_pear(Pear *p) { long r = spin(p->w) + 1; sink += r; return r; }
long more;
[[gnu::noinline]] long apples() { Apple a{100000 + more}; long r = of_apple(&a) * 3; sink += r; return r; }
[[gnu::noinline]] long pears() { Pear p{300000 + 3 * more}; long r = of_pear(&p) * 5; sink += r; return r; }
int main() {  // rounds of other lengths each, so that a clock does not keep their time
  for (int i = 0; clock() < CLOCKS_PER_SEC / 3; i++) { more = i * 7919L % 100003; apples(); pears(); }
}
"""


@pytest.mark.parametrize("pointers", ["-fomit-frame-pointer", "-fno-omit-frame-pointer"])
def test_merged_functions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], pointers: str
) -> None:
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "fruit.cpp"
    source.write_text(MERGED)
    program = tmp_path / "fruit"
    clang = tool("clang++")
    tool("ld.lld")
    command = [clang, "-g", "-O2", pointers, "-ffunction-sections", "-fuse-ld=lld", "-Wl,--icf=all", str(source)]
    assert main(["link", "--", *command, "-o", str(program)]) == 0
    data = record(program, tmp_path / "perf.data")
    capfd.readouterr()
    assert main(["resolve", str(data), "--out", "collapsed", "--no-lines"]) == 0
    counts: Counter[str] = Counter()
    for line in capfd.readouterr().out.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        for caller, callee in zip(frames, frames[1:], strict=False):
            if callee.startswith("of_"):
                counts[f"{caller.partition('(')[0]} {callee.partition('(')[0]}"] += int(count)
    assert set(counts) == {"apples of_apple", "pears of_pear"}
    assert 0.1 < counts["apples of_apple"] / sum(counts.values()) < 0.45


def test_stacks_are_the_same_as_chains_and_one_by_one(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_chains = samples_of(recorded)
    assert 0 < sum(isinstance(sample.frames, CallStack) for sample in as_chains) < len(as_chains)  # not of signals
    monkeypatch.setattr(Event, "has_copied_stacks", False)
    one_by_one = samples_of(recorded)
    assert [sample.time_ns for sample in as_chains] == [sample.time_ns for sample in one_by_one]
    for sample, other in zip(as_chains, one_by_one, strict=True):
        frames, expected = ([(frame.address, frame.is_exact) for frame in each.frames] for each in (sample, other))
        assert frames == expected and sample.labels == other.labels


def test_a_stack_that_is_cut_off_ends_there(recorded: Path, tmp_path: Path) -> None:
    """What perf did not copy is not made up."""
    whole = max(len(sample.frames) for sample in samples_of(recorded))
    cut = samples_of(record(recorded.with_name("calls"), tmp_path / "cut.data", "dwarf,64"))
    depths = [len([frame for frame in sample.frames if (frame.address or 0) >> 63 == 0]) for sample in cut]
    assert whole > 12 > max(depths) and min(depths) >= 1
