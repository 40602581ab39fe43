"""lldb with the plug-in: `icf bt` shows, of a folded program, what it shows of the unfolded one at the same event."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cores import crash
from tests.support.debuggers import Programs, build, lldb
from tests.support.toolchain import tool

_FRAME = re.compile(
    r"[ *]+(?:frame #\d+: 0x[0-9a-f]+ \S+?`(?:.* \[inlined\] )?| +)(?P<name>\S.*?)(?: at \S+?:(?P<line>\d+).*)?"
)
_EVENTS = [
    "settings set auto-confirm true",
    "breakpoint set -n event",
    "breakpoint command add 1 -o 'icf bt'",
    "breakpoint modify --auto-continue true 1",
    "process handle -s false -n false -p true SIGUSR1",
    "run",
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    tool("lldb")
    return build(tmp_path_factory.mktemp("lldb"))


def backtraces(text: str) -> list[list[tuple[str, int]]]:
    """The function and line of each frame of each backtrace, without arguments and remarks."""
    found: list[list[tuple[str, int]]] = []
    for line in text.splitlines():
        if " thread #" in line:
            found.append([])
        frame = _FRAME.fullmatch(line)
        if found and frame is not None and " thread #" not in line:
            found[-1].append((re.sub(r"\(.*| \[icf: .*", "", frame["name"]), int(frame["line"] or 0)))
    return found


def test_stacks_of_a_live_session_are_those_of_the_unfolded_program(programs: Programs) -> None:
    folded, unfolded = (lldb(program, commands=_EVENTS) for program in programs)
    truth = backtraces(unfolded)
    assert len(truth) == 13, unfolded
    assert backtraces(folded) == truth
    assert "[icf" not in unfolded
    assert {"dwarf", "aligned", "vptr", "tail call", "relocation"} <= set(re.findall(r"\[icf: ([^]]*)\]", folded))


def test_threads_of_a_core(programs: Programs, tmp_path: Path) -> None:
    core = crash(tmp_path, programs.folded, "and", "crash")
    text = lldb(programs.folded, "--core", core, commands=["icf bt all", "icf bt", "bt all"])
    named, own = text.split("(lldb) icf bt\n")
    assert [len(frames) > 3 for frames in backtraces(named)] == [True] * 3
    assert "`wait_a(int*) [icf: dwarf]" in named and "`wait_b(int*) [icf: dwarf]" in named
    assert "wait_b" not in own  # what lldb believes


def test_a_helper_that_fails_is_one_line(programs: Programs) -> None:
    failing = "script lldb_start.set_command('/nonexistent/icf')"
    text = lldb(programs.folded, commands=[failing, "breakpoint set -n event", "run", "icf bt", "icf bt"])
    assert text.count("cannot run /nonexistent/icf: No such file or directory: names are lldb's own") == 1
    assert [frames[0][0] for frames in backtraces(text)[-2:]] == ["event", "event"]


def test_without_a_process_it_says_so(programs: Programs) -> None:
    assert "error: no process, or no thread is selected" in lldb(programs.folded, commands=["icf bt"])
