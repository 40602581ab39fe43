"""Processed profiles of the Firefox Profiler: stacks from columns, libraries, weights and times."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from icf.errors import FormatError
from tests.support.firefox import profile
from tests.support.recordings import read, recognizes
from unwind.readers.firefox import StackOrigin
from unwind.samples.recording import Base, Inlined, Label, RecordedModule, Sample, Value


def samples(changed: dict[str, Any]) -> list[Sample]:
    return list(read("firefox", json.dumps(changed).encode()))


SHOP = RecordedModule("/bin/shop", bytes.fromhex("abcdef01"), Base.LOWEST)


def test_stacks_come_innermost_first_with_what_is_inlined() -> None:
    first, second, third = samples(profile())
    run, main = first.frames
    assert (run.name, run.file, run.line, run.address, run.module) == ("run", "a.c", 80, 0x1136, SHOP)
    assert run.inlined == (Inlined("copy", "list.h", 12),)
    assert (main.name, main.address) == ("main", 0x1180) and second.frames[1] is main
    assert (first.weights, second.weights, third.weights) == ((1,), (2,), (4,))
    assert (first.time_ns, second.time_ns) == (1_500_000, 2_500_000)
    assert first.labels == (Label("comm", "worker"), Label("tid", 18)) and first.process.pid == 17
    assert first.process.modules == [SHOP] and first.origin == StackOrigin(0, 2)


def test_kernel_frames_are_certain_and_have_no_module() -> None:
    kernel = samples(profile())[1].frames[0]
    assert (kernel.name, kernel.address, kernel.module, kernel.is_certain) == ("do_syscall_64", None, None, True)


def test_before_symbols_are_looked_up_the_resource_says_the_library() -> None:
    changed = profile()
    changed["threads"][0]["frameTable"]["nativeSymbol"] = [None] * 4
    assert samples(changed)[0].frames[0].module == SHOP


def test_tables_may_be_shared_by_threads_and_libraries_be_of_a_thread() -> None:
    changed = profile()
    thread = changed["threads"][0]
    thread["libs"] = changed.pop("libs")
    changed["shared"] = {
        name: thread.pop(name)
        for name in ("stringArray", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols")
    }
    changed["shared"]["funcTable"]["source"] = [0, 0, 1, None]
    del changed["shared"]["funcTable"]["fileName"]
    changed["shared"]["sources"] = {"filename": [4, 5], "length": 2}
    run = samples(changed)[0].frames[0]
    assert (run.module, run.file, run.inlined) == (SHOP, "a.c", (Inlined("copy", "list.h", 12),))


def test_times_may_be_differences_and_weights_be_missing() -> None:
    changed = profile()
    changed["threads"][0]["samples"].update(timeDeltas=[1, 1, 1, 1], weight=None)
    del changed["threads"][0]["samples"]["time"]
    found = samples(changed)
    assert [sample.time_ns for sample in found] == [1_000_000, 2_000_000, 4_000_000]
    assert [sample.weights for sample in found] == [(1,), (1,), (1,)]


def test_allocations_and_times_are_values_of_their_own() -> None:
    changed = profile()
    changed["threads"][0]["samples"]["weightType"] = "tracing-ms"
    changed["threads"][0]["nativeAllocations"] = {"stack": [0], "time": [9], "weight": [-4096], "weightType": "bytes"}
    recording = read("firefox", json.dumps(changed).encode())
    assert recording.values == (Value("space", "bytes"), Value("time", "nanoseconds"))
    assert [sample.weights for sample in recording] == [(0, 1000000), (0, 2000000), (0, 4000000), (-4096, 0)]


@pytest.mark.parametrize(
    ("table", "column", "rows", "problem"),
    [
        ("stackTable", "prefix", [None, 0, 2, 0], "stackTable.prefix: 2 is not a row from 0 to 1"),
        ("stackTable", "prefix", [None, 0, 1], "stackTable.prefix has 3 rows, must have 4 as others"),
        ("stackTable", "frame", [0, 1, 4, 3], "stackTable.frame: 4 is not a row from 0 to 3"),
        ("stackTable", "frame", [0, 1, True, 3], "stackTable.frame: True is not a row from 0 to 3"),
        ("stackTable", "frame", None, "stackTable.frame is not a list"),
        ("frameTable", "func", [0, -1, 2, 3], "frameTable.func: -1 is not a row from 0 to 3"),
        ("frameTable", "inlineDepth", [1, 1, 1, 1], "stack 2 begins with an inlined frame"),
        ("frameTable", "nativeSymbol", [0, 9, 1, 1], "frameTable.nativeSymbol: 9 is not a row from 0 to 1"),
        ("funcTable", "name", [0, 99, 2, 3], "stringArray: 99 is not a row from 0 to 7"),
        ("nativeSymbols", "libIndex", [0, 7], "libs: 7 is not a row from 0 to 1"),
        ("samples", "stack", [2, 3, None, "2"], "samples.stack: 2 is not a row from 0 to 3"),
        ("samples", "weight", [1, 2, 3, "4"], "4 is not a number"),
        ("samples", "time", [float("inf"), 2, 3, 4], "inf is not a number"),
    ],
)
def test_a_row_that_is_not_there_is_refused(table: str, column: str, rows: object, problem: str) -> None:
    changed = profile()
    changed["threads"][0][table][column] = rows
    with pytest.raises(FormatError, match=rf"^f: JSON threads\[0\]\+0x0: {problem}$"):
        samples(changed)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"meta": ', r"f: JSON\+0x9: cannot be read: Expecting value"),
        (b"[" * 200_000, r"f: JSON\+0x0: cannot be read: "),
        (b'{"threads": [' + b"9" * 5000 + b"]}", r"f: JSON\+0x0: cannot be read: Exceeds the limit"),
        (b"[]", "is not a processed profile: it has no list of threads"),
        (b'{"threads": []}', "is not a processed profile: meta has no preprocessedProfileVersion"),
        (b'{"threads": [], "meta": {"version": 24}}', "is a profile in Firefox's own format"),
        (b'{"threads": [1], "meta": {"preprocessedProfileVersion": 1}}', r"JSON threads\[0\]\+0x0: is not an object"),
    ],
)
def test_what_is_no_processed_profile_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read("firefox", content)


def test_a_chain_of_stacks_has_a_limit() -> None:
    changed = profile()
    thread = changed["threads"][0]
    thread["stackTable"] = {"frame": [0] * 20_000, "prefix": [None, *range(19_999)]}
    thread["samples"] = {"stack": [19_999]}
    with pytest.raises(FormatError, match="stack 19999 has more than 16384 frames"):
        samples(changed)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (json.dumps(profile()).encode(), True),
        (gzip.compress(json.dumps(profile(), indent=1).encode()), True),
        (b'{"traceEvents": []}', False),
        (b"", False),
        (b"main;run 12\n", False),
    ],
)
def test_profiles_are_known_by_a_key(head: bytes, expected: bool) -> None:
    assert recognizes("firefox", head) is expected
