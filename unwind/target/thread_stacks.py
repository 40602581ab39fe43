"""A thread of a dump or of a running process, with an answer for each of its frames."""

from __future__ import annotations

from typing import NamedTuple

from unwind.dumps.dump import ProcessDump
from unwind.dumps.walk import WalkedThread
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Label
from unwind.walk.walker import End

_END_NAMES = {
    End.NO_CALL_FRAMES: "no-call-frames",
    End.NO_MEMORY: "no-memory",
    End.NOT_GROWING: "not-growing",
    End.BAD_EXPRESSION: "bad-expression",
    End.OUT_OF_FRAMES: "out-of-frames",
}


class ResolvedThread(NamedTuple):
    """A thread with an answer for each of its frames."""

    walked: WalkedThread
    resolved: Resolved


def labels_of(walked: WalkedThread, dump: ProcessDump) -> tuple[Label, ...]:
    """Return what is known of a thread beside its frames."""
    thread = walked.thread
    known = {
        "comm": thread.name or dump.command,
        "signal": thread.stopped_by,
        "end": _END_NAMES.get(walked.end, ""),
    }
    labels = [Label(key, value) for key, value in known.items() if value]
    return (Label("pid", dump.pid), Label("tid", thread.tid), *labels)
