"""Run a link and keep what the linker reports about folding and inputs out of the user's sight.

The linker's own words go through as they come, on the stream they came on. Two kinds of lines are
ours, because we asked for them: the folding report, and the names of the input files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

_REPORT_WORDS = (
    b"ICF folding section ",
    b"selected section ",
    b"removing identical section ",
    b"ICF stopped after ",
    b"ICF Converged after ",
    b"ICF saved ",
)
_TRACE_WORD = b"trace: "  # mold's


@dataclass(slots=True)
class LinkOutcome:
    """How a link ended and what it said on request."""

    status: int
    report: list[str] = field(default_factory=list)  # lines about folded sections
    inputs: list[str] = field(default_factory=list)  # input files, archive members as lib.a(member.o)


def run_link(command: Sequence[str], *, show_report: bool, show_inputs: bool, translate: bool) -> LinkOutcome:
    """Run the command; `show_report`, `show_inputs`: the user asked for these lines as well.

    `translate` false sets LC_ALL=C: gold words its report in the user's language otherwise.
    """
    environment = dict(os.environ) if translate else {**os.environ, "LC_ALL": "C"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=None, env=environment, bufsize=-1
    )
    outcome = LinkOutcome(0)
    assert process.stdout is not None and process.stderr is not None

    def take(line: bytes) -> bool:
        """Whether the line was one that we asked for."""
        text = line.rstrip(b"\r\n")
        if any(words in text for words in _REPORT_WORDS):
            outcome.report.append(os.fsdecode(text))
            return not show_report
        name = text.removeprefix(_TRACE_WORD)
        if _is_input(name):
            outcome.inputs.append(os.fsdecode(name))
            return not show_inputs
        return False

    copiers = [
        threading.Thread(target=_copy, args=(process.stdout, sys.stdout.buffer, take)),
        threading.Thread(target=_copy, args=(process.stderr, sys.stderr.buffer, take)),
    ]
    for copier in copiers:
        copier.start()
    for copier in copiers:
        copier.join()
    outcome.status = process.wait()
    return outcome


def _copy(source: IO[bytes], sink: IO[bytes], take: Callable[[bytes], bool]) -> None:
    for line in source:
        if not take(line):
            sink.write(line)
            sink.flush()


def _is_input(text: bytes) -> bool:
    """Whether a line is nothing but an input of the link, as `--trace` prints it."""
    if text.endswith(b")") and b"(" in text:
        return os.path.isfile(text[: text.rindex(b"(")])
    return (
        text.endswith((b".o", b".a", b".obj", b".lo", b".so"))
        and os.path.isfile(text)
        or (b".so." in text and os.path.isfile(text))
    )
