"""Memory is read between a question and its answer; a debugger that gave up has none."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from unwind.debugger.conversation import Conversation


def conversation(lines: Iterable[bytes]) -> tuple[Conversation, list[bytes]]:
    """Return a conversation with what the debugger says, and what is written to it."""
    written: list[bytes] = []
    return Conversation(iter(lines), written.append), written


def test_memory_is_read_between_a_question_and_its_answer() -> None:
    talk, written = conversation(
        [b"first\n", b'{"id": 1, "bytes": "c02a"}\n', b'{"id": 1, "bytes": null}\n', b"second\n"]
    )
    questions = iter(talk)
    assert next(questions) == b"first\n"
    assert talk.read(1, 0x1000, 2) == b"\xc0\x2a"
    assert talk.read(1, 0x2000, 2) is None
    assert next(questions) == b"second\n" and next(questions, None) is None
    assert [json.loads(line) for line in written] == [{"id": 1, "read": [0x1000, 2]}, {"id": 1, "read": [0x2000, 2]}]


@pytest.mark.parametrize("late", [b'{"id": 2, "stacks": []}\n', b"nonsense\n", b'{"id": 2, "bytes": "00"}\n', b"[]\n"])
def test_what_comes_in_place_of_memory_is_the_next_question(late: bytes) -> None:
    talk, written = conversation([b"first\n", late])
    questions = iter(talk)
    next(questions)
    assert talk.read(1, 0x1000, 1) is None
    assert talk.read(1, 0x1000, 1) is None and len(written) == 1  # the debugger is not asked again
    assert next(questions) == late


@pytest.mark.parametrize(
    "answer", [b'{"id": 1, "bytes": "00"}', b'{"id": 1, "bytes": ""}', b'{"id": 1, "bytes": "000000"}']
)
def test_memory_of_another_size_is_none(answer: bytes) -> None:
    talk, _ = conversation([b"first\n", answer])
    next(iter(talk))
    assert talk.read(1, 0x1000, 2) is None


@pytest.mark.parametrize("size_bytes", [0, -1, 1 << 20])
def test_a_size_that_nothing_needs_is_not_asked_for(size_bytes: int) -> None:
    talk, written = conversation([])
    assert talk.read(1, 0x1000, size_bytes) is None and written == []


def test_a_debugger_that_has_ended_has_no_memory() -> None:
    talk, _ = conversation([b"first\n"])
    assert next(iter(talk)) == b"first\n"
    assert talk.read(1, 0x1000, 8) is None
    assert list(talk) == []
