"""Collapsed stacks: which frames are addresses, what a count may be, and how the format is known."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.recordings import read, recognizes
from unwind.readers.source import LineError
from unwind.samples.recording import RecordedModule, Sample


def samples(text: str) -> list[Sample]:
    return list(read("collapsed", text.encode("utf-8", "surrogateescape")))


def test_the_outermost_frame_stands_first() -> None:
    first, second = samples("# a comment\nmain;List<Order>::grow();[libshop.so+0x1136] 12\n\nmain 3\r\n")
    assert [frame.name for frame in first.frames] == ["[libshop.so+0x1136]", "List<Order>::grow()", "main"]
    assert first.frames[-1] is second.frames[0]
    assert (first.weights, second.weights) == ((12,), (3,))


@pytest.mark.parametrize(
    ("token", "address", "path"),
    [
        ("[libshop.so+0x1136]", 0x1136, "libshop.so"),
        ("/usr/bin/my shop+0x1136", 0x1136, "/usr/bin/my shop"),
        ("libc.so.6+0X1136", 0x1136, "libc.so.6"),
        ("shop(+0x1136)", 0x1136, "shop"),
        ("0x7f0012345678", 0x7F0012345678, None),
        ("main", None, None),
        ("List<Order>::grow()+0x12", None, None),
        ("std::sort+0x12", None, None),
        ("operator+", None, None),
        ("[unknown]", None, None),
        ("[libc.so.6]", None, None),
        ("my function", None, None),
        ("caf\udce9", None, None),
    ],
)
def test_a_frame_is_a_name_or_an_address(token: str, address: int | None, path: str | None) -> None:
    (sample,) = samples(f"main;{token} 1\n")
    frame = sample.frames[0]
    module = None if path is None else RecordedModule(path)
    assert (frame.name, frame.address, frame.module) == (token, address, module)
    assert sample.process.modules == [module] * (module is not None)


def test_frames_of_the_kernel_and_of_compilers_at_run_time_are_certain() -> None:
    (sample,) = samples("main;jitted_[j];do_syscall_64_[k] 1\n")
    assert [frame.is_certain for frame in sample.frames] == [True, True, False]


def test_counts_that_are_not_whole_are_rounded_and_kept() -> None:
    first, second = samples("main 2.75\nmain 3.\n")
    assert (first.weights, first.origin) == ((3,), Decimal("2.75"))
    assert (second.weights, second.origin) == ((3,), Decimal("3"))


@pytest.mark.parametrize("line", ["main;run", "12", "main;run -3", "main;run 1e5", f"main {'9' * 19}"])
def test_a_line_without_a_count_is_refused(line: str) -> None:
    with pytest.raises(LineError, match="^f:2: .* has no count at its end$"):
        samples(f"main 1\n{line}\n")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"main;run 12\nmain;stop 3\n", True),
        (b"# made by perf\nmain 12\n", True),
        (b"shop;main 12", True),
        (b"main;run 12\nmain;st", True),  # the file goes on
        (b"cafe 12\n", False),  # two addresses of `pcs`
        (b"0x1136 0x1180 x12\n", False),
        (b"shop 123 456.7: 250000 cpu-clock:\n\t 401136 main+0x6 (/bin/shop)\n", False),
        (b"heap profile: 1: 2 [3: 4] @ heapprofile\n", False),
        (b"", False),
        (b"\n# comment\n", False),
    ],
)
def test_collapsed_stacks_are_known_by_their_lines(head: bytes, expected: bool) -> None:
    assert recognizes("collapsed", head) is expected
