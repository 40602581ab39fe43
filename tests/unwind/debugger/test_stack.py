"""What a plug-in asks about a stack: registers of open frames alone, and not for longer than a person waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from unwind.debugger.inside import stack
from unwind.debugger.inside.client import NoAnswer, Read
from unwind.debugger.inside.stack import Machine, Module, Resolver

SHOP = Module("/shop", "c9d4", 0x1000, True)


class Answering:
    """In place of a helper: keeps the questions; every frame has the verdict that it is made with."""

    def __init__(self, verdict: str, left_out: int = 0) -> None:
        self.questions: list[dict[str, Any]] = []
        self._verdict, self._left_out = verdict, left_out

    def ask(self, question: dict[str, Any], timeout_s: float, read: Read) -> dict[str, Any]:
        self.questions.append({**question, "stacks": [dict(each) for each in question["stacks"]]})
        frames = [[{"verdict": self._verdict}] * (len(each["frames"]) - self._left_out) for each in question["stacks"]]
        return {"stacks": [{"frames": each} for each in frames]}


class Stopped:
    """A process whose registers take a while."""

    def __init__(self, takes_s: float = 0) -> None:
        self._takes_s = takes_s

    def registers(self, machine: Machine) -> dict[int, int]:
        time.sleep(self._takes_s)
        return {7: machine.pc}

    def read(self, address: int, size_bytes: int) -> bytes | None:
        return None


def machines(count: int, *cut: int) -> list[Machine]:
    return [Machine(100 + idx, idx == 0 or idx in cut, idx in cut, []) for idx in range(count)]


def resolve(helper: Answering, frames: list[Machine], *modules: Module, takes_s: float = 0) -> object:
    resolver = Resolver(helper)  # type: ignore[arg-type]
    return resolver.resolve(frames, modules or (SHOP,), (), Stopped(takes_s), 1)


def test_a_process_without_tables_is_not_asked_about() -> None:
    helper = Answering("unique")
    assert resolve(helper, machines(2), SHOP._replace(has_tables=False)) is None
    assert helper.questions == []


def test_a_stack_that_is_certain_needs_no_registers() -> None:
    helper = Answering("unique")
    assert resolve(helper, machines(2)) == [{"verdict": "unique"}] * 2
    (question,) = helper.questions
    assert question["modules"] == [{"path": "/shop", "build_id": "c9d4", "bias": 0x1000}]
    assert question["stacks"] == [{"frames": [100, 101], "exact": [0], "is_called": False}]


def test_open_frames_are_asked_about_again_with_registers() -> None:
    helper = Answering("ambiguous")
    resolve(helper, machines(4, 2))
    first, second = helper.questions
    assert [each["frames"] for each in first["stacks"]] == [[100, 101], [102, 103]]  # cut where gdb called a function
    assert [each["registers"] for each in second["stacks"]] == [
        [[0, {7: 100}], [1, {7: 101}]],
        [[0, {7: 102}], [1, {7: 103}]],
    ]


def test_the_registers_of_many_open_frames_are_those_of_the_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "_LONGEST_S", 0.2)
    helper = Answering("narrowed")
    resolve(helper, machines(1000), takes_s=0.01)
    registers = helper.questions[1]["stacks"][0]["registers"]
    assert 1 <= len(registers) <= 50 and [idx for idx, _ in registers] == list(range(len(registers)))


def test_an_answer_that_lacks_frames_is_none() -> None:
    with pytest.raises(NoAnswer, match="the helper answered 3 frames of 4"):
        resolve(Answering("unique", left_out=1), machines(4))
