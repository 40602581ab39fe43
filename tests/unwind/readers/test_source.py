"""Files and pipes as readers get them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icf.errors import FormatError, IcfError
from unwind.readers.source import HEAD_BYTES, LINE_LIMIT, LineError, Source


def piped(content: bytes) -> Source:
    """Return what is left in a pipe as a source."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return Source(os.fdopen(reading, "rb"), "pipe")


def test_the_first_bytes_are_not_consumed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one\ntwo\n" * HEAD_BYTES)
    with Source.open(str(tmp_path / "f")) as source:
        assert source.head == (b"one\ntwo\n" * HEAD_BYTES)[:HEAD_BYTES]
        assert next(source.lines()) == b"one\n"
    with piped(b"one\ntwo") as source:
        assert source.head == b"one\ntwo"
        assert list(source.lines()) == [b"one\n", b"two"]


def test_the_content_of_a_file_and_of_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)) * 100)
    with Source.open(str(tmp_path / "f")) as source:
        assert bytes(source.content()[:]) == bytes(range(256)) * 100
    with piped(bytes(range(256)) * 100) as source:
        assert bytes(source.content()[:]) == bytes(range(256)) * 100


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0x1\n" + b"1" * LINE_LIMIT)
    with Source.open(str(tmp_path / "f")) as source, pytest.raises(LineError, match="f:2: longer than 16777215 bytes"):
        list(source.lines())


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IcfError, match="gone: No such file"):
        Source.open(str(tmp_path / "gone"))
    with pytest.raises(IcfError, match="Is a directory"):
        Source.open(str(tmp_path))
    (tmp_path / "empty").write_bytes(b"")
    with Source.open(str(tmp_path / "empty")) as source, pytest.raises(FormatError, match="the file is empty"):
        source.content()
