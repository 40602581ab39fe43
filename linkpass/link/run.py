"""Runs a link, and hides the lines about folding and inputs that the user did not ask for.

The linker's own lines go through as they come, on the stream they came on. `icf link` has asked for two kinds of lines
itself: the folding report, and the names of the input files.

    selected section a.o:(.text._Z1fv)             lld and mold, on stdout
      removing identical section b.o:(.text._Z1gv)
    ld.gold: ICF folding section ...               gold, on stderr
    lib.a(member.o)                                an input; mold puts "trace: " before it

Linkers name their inputs early and report before they write, so the caller may read both meanwhile. Each input is
mapped as soon as it is named: a compiler driver deletes the objects that it has made itself when the link is over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from types import FrameType
from typing import IO

from icf.elf.archive import map_file
from icf.errors import IcfError

_REPORT = re.compile(
    rb"selected section |removing identical section |"
    rb"ICF (?:folding section|stopped after|Converged after|saved) "
)
_TRACE_WORD = b"trace: "  # mold's
_PIPE_SIZE_BYTES = 1 << 20  # so much fits while this process is busy, without the linker having to wait
_STDOUT, _STDERR = 1, 2
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class RunningLink:
    """A link that was started; `lines` yields what it prints for the pass while it runs, `wait` waits for its end.

    `show_report`, `show_inputs`: the user has asked for these lines, too. `corrected` turns what is printed into what
    the user's own command would print. `second_name` returns where an input stays that is deleted after the link, ""
    if it is not deleted.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        *,
        show_report: bool,
        show_inputs: bool,
        second_name: Callable[[str], str],
        corrected: Callable[[bytes], bytes],
    ) -> None:
        self.report: list[bytes] = []  # lines about folded sections
        self.files: dict[str, memoryview] = {}  # inputs by path, as long as they could be mapped
        self.names: list[str] = []  # of the inputs, complete when the link has ended
        self.was_interrupted = False  # by a signal that was passed on
        self._corrected, self._second_name = corrected, second_name
        self._show_report, self._show_inputs = show_report, show_inputs
        self._lines: SimpleQueue[str | bytes | None] = SimpleQueue()
        self.start_ns = time.time_ns()
        out, err = _pipe(), _pipe()
        actions = [(os.POSIX_SPAWN_DUP2, out[1], _STDOUT), (os.POSIX_SPAWN_DUP2, err[1], _STDERR)]
        try:
            # Python ignores these two signals, and children inherit that
            ignored = (signal.SIGPIPE, signal.SIGXFSZ)
            self._pid = os.posix_spawnp(command[0], command, environment, file_actions=actions, setsigdef=ignored)
        except OSError as error:
            raise IcfError(f"{command[0]}: {error.strerror}") from error
        os.close(out[1])
        os.close(err[1])
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        _allow_many_files()
        streams: dict[int, tuple[IO[bytes], bytearray]] = {
            out[0]: (sys.stdout.buffer, bytearray()),
            err[0]: (sys.stderr.buffer, bytearray()),
        }
        self._reader = threading.Thread(target=self._read, args=(streams,))
        self._reader.start()

    def lines(self) -> Iterator[str | bytes]:
        """Yield the name of each input, archive members as `lib.a(member.o)`, and pieces of the report, as bytes.

        Ends when the linker prints no more.
        """
        while (printed := self._lines.get()) is not None:
            yield printed

    def wait(self) -> int:
        """Return the exit status, in the shell's encoding."""
        self._reader.join()
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        return status if status >= 0 else 128 - status

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """Pass a signal on to the link, whose exit status is then the result.

        After the link the signal ends the pass.
        """
        self.was_interrupted = True
        if not self._pid:
            raise SystemExit(128 + number)
        os.kill(self._pid, number)

    def _read(self, streams: dict[int, tuple[IO[bytes], bytearray]]) -> None:
        """Sort the lines of both streams, in the order in which they come."""
        poll = select.poll()
        for fd in streams:
            poll.register(fd, select.POLLIN)
        try:
            while streams:
                for fd, _ in poll.poll():
                    if not self._read_some(fd, *streams[fd]):
                        poll.unregister(fd)
                        os.close(fd)
                        del streams[fd]
        finally:
            self._lines.put(None)

    def _read_some(self, fd: int, sink: IO[bytes], rest: bytearray) -> bool:
        """Take the bytes at hand.

        False at the end, and if the reader of the output has gone: the link then sees it, too.
        """
        chunk = os.read(fd, _PIPE_SIZE_BYTES)
        rest += chunk
        complete = rest.rfind(b"\n") + 1 if chunk else len(rest)
        lines = bytes(rest[:complete]).splitlines(keepends=True)
        reported_before = len(self.report)
        shown = self._corrected(b"".join(line for line in lines if self._is_shown(line)))
        if len(self.report) > reported_before:
            self._lines.put(b"\n".join([*self.report[reported_before:], b""]))
        del rest[:complete]
        try:
            if shown:
                sink.write(shown)
                sink.flush()
        except BrokenPipeError:
            return False
        return bool(chunk)

    def _is_shown(self, line: bytes) -> bool:
        """Return whether the user wants to see a line, or only `icf link` asked for it."""
        text = line.rstrip(b"\r\n")
        if _REPORT.search(text):
            self.report.append(text)
            return self._show_report
        name = os.fsdecode(text.removeprefix(_TRACE_WORD))
        if self._hold(name) or (name.endswith(")") and self._hold(name[: name.rfind("(")])):
            self.names.append(name)
            self._lines.put(name)
            return self._show_inputs
        is_gone = name.startswith("/") and name.endswith(".o")  # made during the link (LTO), and deleted since
        return self._show_inputs or not is_gone

    def _hold(self, path: str) -> bool:
        """Map a file; return whether the path is a file."""
        if path in self.files:
            return True
        is_file = False
        for name in (path, self._second_name(path)):  # it has the second one before the first is deleted
            if path not in self.files and os.path.isfile(name):
                is_file = True
                with contextlib.suppress(IcfError):  # unreadable, or already deleted
                    self.files[path] = map_file(name)
        return is_file


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    with contextlib.suppress(OSError):  # more than this user may have
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_SIZE_BYTES)
    return reading, writing


def _allow_many_files() -> None:
    """Raise the limit of descriptors to what the system allows: every mapped object takes one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
