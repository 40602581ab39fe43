"""Minidumps that Crashpad, Breakpad and lldb have written of a program that crashed: `testdata/minidumps/build`."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.e2e.program import icf
from tests.support.paths import ROOT

FOLDER = ROOT / "testdata" / "minidumps"
WRITERS = ("crashpad", "breakpad", "lldb")
_PROGRAM = "/tmp/minidumps/crash"


@cache
def stacks_of(writer: str) -> list[dict[str, Any]]:
    """The threads, in the order in which they were started."""
    text = icf("stacks", FOLDER / f"{writer}.dmp", "--module-root", FOLDER, "--json")
    return sorted(map(json.loads, text.splitlines()), key=lambda thread: int(thread["labels"]["tid"]))


@pytest.mark.parametrize("writer", WRITERS)
def test_frames_are_those_that_gdb_finds_in_the_unfolded_program(writer: str) -> None:
    threads = stacks_of(writer)
    truth = (FOLDER / "frames.txt").read_text().splitlines()
    found = []
    for thread, functions in zip(threads, truth, strict=True):
        frames = thread["frames"][: len(functions.split("; "))]
        assert all(frame["module"] == _PROGRAM for frame in frames)
        found.append("; ".join(re.sub(r"\(.*", "", frame["name"]) for frame in frames))
    assert found == truth
    assert {frame["evidence"] for thread in threads for frame in thread["frames"]} >= {"object", "dwarf", "vptr"}


def test_what_the_writers_say_of_the_process() -> None:
    labels = {writer: stacks_of(writer)[0]["labels"] for writer in WRITERS}
    assert [each["comm"] for each in labels.values()] == ["crash"] * 3
    assert all(each["pid"] == each["tid"] for each in labels.values())
    # lldb has the address of the instruction, not of the memory
    signals = {"crashpad": "SIGSEGV at address 0x18", "breakpad": "SIGSEGV at address 0x18", "lldb": "SIGSEGV"}
    assert {writer: each["signal"] for writer, each in labels.items()} == signals
    assert [each["labels"]["comm"] for each in stacks_of("crashpad")] == ["crash", "orders", "payments"]
