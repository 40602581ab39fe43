"""The command that records: `perf record` with build ids and call chains, and this process as if it were that one.

Build ids come with mappings (`--buildid-mmap`, from perf and Linux 5.12 on), so that the file is known that was there
when it was mapped; else perf looks for them at the end (`--buildid-all`). Namespaces show whose files a path means;
perf records nothing if a user asks for them without the right to. The clock is one that compilers at run time
have, too, so that their jitdumps show which function was where at which time.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WITH_BUILD_IDS_IN_MAPPINGS = (5, 12)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be recorded; empty: as perf does by itself."""

    output: str
    call_graph: str = "fp"
    frequency: str = ""
    event: str = ""
    pid: str = ""
    command: Sequence[str] = ()
    has_namespaces: bool = True


def perf_command(perf: str, perf_version: str, kernel_release: str, wishes: Wishes) -> list[str]:
    """Return the command line of perf."""
    versions = [_version(perf_version), _version(kernel_release)]
    build_ids = ["--buildid-mmap"] if min(versions) >= _WITH_BUILD_IDS_IN_MAPPINGS else ["--buildid-all", "-N"]
    command = [
        perf,
        "record",
        *build_ids,
        *(["--namespaces"] if wishes.has_namespaces else []),
        "-k",
        "mono",
        "--call-graph",
        wishes.call_graph,
        "-o",
        wishes.output,
    ]
    for option, value in (("-F", wishes.frequency), ("-e", wishes.event), ("-p", wishes.pid)):
        if value:
            command += [option, value]
    return [*command, *(["--", *wishes.command] if wishes.command else [])]


def run_command(command: Sequence[str]) -> tuple[int, bool]:
    """Run a command and pass signals on to it; return its status as shells have it, and whether a signal ended it.

    Raises `OSError` if it cannot be started.
    """
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: FrameType | None) -> None:
        received.append(number)
        if process is not None and process.poll() is None:
            process.send_signal(number)

    former = {each: signal.getsignal(each) for each in _PASSED_ON}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        process = subprocess.Popen(command)  # which restores the signals that Python ignores
        for early in received:  # came before there was a process
            process.send_signal(early)
        status = process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return (status if status >= 0 else 128 - status), bool(received)


def _version(text: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)
