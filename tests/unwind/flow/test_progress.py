"""Progress: a line on a terminal, of which nothing stays."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from icf.printable import say
from unwind.flow import progress
from unwind.flow.progress import Progress


class Terminal:
    """Stderr as a terminal, in the body of a test: pytest sets its own stderr after fixtures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shown, line = os.openpty()
        monkeypatch.setattr(progress, "_FIRST_SECONDS", 0)
        monkeypatch.setattr(progress, "_BETWEEN_SECONDS", 0)
        monkeypatch.setattr(sys, "stderr", open(line, "w", encoding="utf-8"))

    def read(self, size_bytes: int) -> bytes:
        """Return what was written to it first, as soon as so much of it is there."""
        sys.stderr.flush()
        found = b""
        while len(found) < size_bytes and select.select([self._shown], [], [], 10)[0]:
            found += os.read(self._shown, size_bytes - len(found))
        return found

    def check(self, expected: bytes) -> None:
        """Check what was written since the last check."""
        assert self.read(len(expected)) == expected
        assert not select.select([self._shown], [], [], 0)[0]


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    path = tmp_path / "stacks"
    path.write_bytes(bytes(100))
    return path


def test_it_shows_how_much_is_read_and_removes_its_line(monkeypatch: pytest.MonkeyPatch, stacks: Path) -> None:
    terminal = Terminal(monkeypatch)
    with stacks.open("rb") as stream, Progress(stream) as shown:
        stream.seek(50)
        shown.step(1000)
        terminal.check(b"\r 50 %  1,000 stacks\x1b[K")
        stream.seek(100)
        shown.step(234)
        terminal.check(b"\r100 %  1,234 stacks\x1b[K")
    terminal.check(b"\r\x1b[K")


def test_a_warning_takes_its_place(monkeypatch: pytest.MonkeyPatch, stacks: Path) -> None:
    terminal = Terminal(monkeypatch)
    with stacks.open("rb") as stream, Progress(stream) as shown:
        shown.step(7)
        say("icf: warning: damaged")
    terminal.check(b"\r7 stacks\x1b[K\r\x1b[Kicf: warning: damaged\r\n")


def test_an_interrupt_removes_its_line(monkeypatch: pytest.MonkeyPatch, stacks: Path) -> None:
    terminal = Terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), stacks.open("rb") as stream, Progress(stream) as shown:
        shown.step(7)
        raise KeyboardInterrupt
    terminal.check(b"\r7 stacks\x1b[K\r\x1b[K")


def test_nothing_is_written_to_what_is_no_terminal(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0)
    with stacks.open("rb") as stream, Progress(stream) as shown:
        shown.step(7)
    assert capsys.readouterr() == ("", "")
