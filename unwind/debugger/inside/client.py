"""The helper process, from the side of the debugger: questions are sent, answers read, and nothing waits for ever.

    helper = Helper(["icf"])
    answer = helper.ask({"modules": [...], "stacks": [...]}, timeout_s=10)    # or NoAnswer, with one line

A question that is not answered in time stays asked: the helper may be making the symbol cache of a large program. When
it is done, the same question is answered at once. A socket connects the two: to write to it raises no SIGPIPE, which
would end a debugger.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from typing import Any, Callable, Dict, Optional, Sequence

_PIECE_BYTES = 1 << 16
_ANSWER_LIMIT = 1 << 28  # bytes
_LONGEST_READ_BYTES = 1 << 12

Read = Callable[[int, int], Optional[bytes]]
"""Returns memory of the process, or None: address, size in bytes."""


class NoAnswer(Exception):
    """Why a question has no answer, in one line."""


class Helper:
    """One helper process, which is started for the first question, and again after it has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._socket: Optional[socket.socket] = None
        self._unsent = self._received = b""
        self._number = 0
        self._failed_to_start = ""

    def ask(self, question: Dict[str, Any], timeout_s: float, read: Read = lambda *_: None) -> Dict[str, Any]:
        """Return the answer to a question; raises NoAnswer if there is none, or none in time.

        `read` returns memory of the process, or None: the helper may ask for some before it answers.
        """
        deadline = time.monotonic() + timeout_s
        connection = self._socket or self._start()
        self._number += 1
        self._unsent += json.dumps(dict(question, id=self._number)).encode() + b"\n"
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if not newline:
                self._wait(connection, deadline, timeout_s)
                self._exchange(connection)
                continue
            self._received = rest
            try:
                answer = _parse(line)
            except NoAnswer:
                self.stop()  # it is not a helper
                raise
            if "read" in answer:
                self._unsent += _memory(answer, read if answer.get("id") == self._number else _nothing)
                self._exchange(connection)
            elif answer.get("id") in (self._number, None):  # else it is of a question that was given up
                if "error" in answer:
                    raise NoAnswer(str(answer["error"]))
                return answer

    def stop(self) -> None:
        """End the helper."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None
        self._unsent = self._received = b""

    def _start(self) -> socket.socket:
        if self._failed_to_start:  # it would fail again at each stop
            raise NoAnswer(self._failed_to_start)
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}  # the debugger's
        try:
            self._process = subprocess.Popen(
                [*self._command, "gdb", "--serve"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # an interrupt is meant for the debugger alone
            )
        except OSError as error:
            ours.close()
            self._failed_to_start = "cannot run {}: {}".format(self._command[0], error.strerror)
            raise NoAnswer(self._failed_to_start) from None
        finally:
            theirs.close()
        self._socket = ours
        return ours

    def _wait(self, connection: socket.socket, deadline: float, timeout_s: float) -> None:
        """Wait until something can be read or written."""
        waiting = select.poll()  # select() fails where a debugger has more than 1024 files open
        waiting.register(connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not waiting.poll(left_s * 1000):
            raise NoAnswer("no answer after {:g} s: ask again later".format(timeout_s))

    def _exchange(self, connection: socket.socket) -> None:
        """Write and read what is possible without waiting."""
        try:
            if self._unsent:
                flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
                self._unsent = self._unsent[connection.send(self._unsent[:_PIECE_BYTES], flags) :]
        except OSError:
            pass  # full, or it has ended, as recv() finds out
        try:
            received = connection.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self._received += received
        if not received or len(self._received) > _ANSWER_LIMIT:
            self.stop()
            raise NoAnswer("the helper has ended: what does '{} gdb --serve' say?".format(" ".join(self._command)))


def _nothing(address: int, size_bytes: int) -> None:
    """Return nothing: it is not read any more."""


def _memory(asked: Dict[str, Any], read: Read) -> bytes:
    """Return the line with memory that the helper has asked for."""
    try:
        address, size_bytes = asked["read"]
        content = read(int(address), int(size_bytes)) if 0 < size_bytes <= _LONGEST_READ_BYTES else None
    except (TypeError, ValueError):
        content = None
    return json.dumps({"id": asked.get("id"), "bytes": None if content is None else content.hex()}).encode() + b"\n"


def _parse(line: bytes) -> Dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise NoAnswer("the helper's answer is not an object of JSON")
    return answer
