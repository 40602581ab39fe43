"""A question of a debugger's plug-in: a line of JSON, checked field by field.

    {"id": 7,
     "modules": [{"path": "/usr/bin/shop", "build_id": "5d0c...", "bias": 93824992231424}, ...],
     "debug_roots": ["/opt/debug"],
     "stacks": [{"frames": [4198710, 4198784, null, 4199152], "exact": [2], "is_called": false,
                 "registers": [[1, {"3": 93824992301240, "7": 140737488349904}], ...]}, ...],
     "explain": false}

Addresses are run-time ones: a program counter, then return addresses, raw; null is a frame that the debugger does not
place. `exact` has the indices of further program counters. The first frame of a stack that `is_called` is a return
address, too. `registers` has those of a frame by DWARF number, as far as they are known: the objects of frames that
stay open are then read. What is left out is empty, or false.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from icf.errors import IcfError
from unwind.process.module_list import LoadedModule

_ADDRESS_END = 1 << 64
_Checked = TypeVar("_Checked")


@dataclass(frozen=True, slots=True)
class AskedStack:
    """A stack as a debugger has unwound it, innermost frame first."""

    frames: tuple[int | None, ...]
    exact: frozenset[int]
    is_called: bool
    registers: dict[int, dict[int, int]]  # by frame index and DWARF number


@dataclass(frozen=True, slots=True)
class Question:
    """The stacks of a process, and the images that it has loaded."""

    number: int
    modules: tuple[LoadedModule, ...]
    debug_roots: tuple[str, ...]
    stacks: tuple[AskedStack, ...]
    explain: bool


def parse_question(line: bytes) -> Question:
    """Return the question in a line of JSON.

    Raises:
        IcfError: it is not a question; the message says where.
    """
    try:
        asked = _is(dict, json.loads(line), "the question")
    except (ValueError, RecursionError) as error:
        raise IcfError(f"the question is not JSON: {error}") from error
    return Question(
        _is(int, asked.get("id"), "id"),
        tuple([_module(each, f"module {number}") for number, each in enumerate(_list(asked, "modules"))]),
        tuple([_is(str, each, "debug_roots") for each in _list(asked, "debug_roots")]),
        tuple([_stack(each, f"stack {number}") for number, each in enumerate(_list(asked, "stacks"))]),
        bool(asked.get("explain")),
    )


def _module(value: Any, place: str) -> LoadedModule:
    module = _is(dict, value, place)
    path = _is(str, module.get("path"), f"{place}: path")
    try:
        build_id = bytes.fromhex(_is(str, module.get("build_id", ""), f"{place}: build_id"))
    except ValueError as error:
        raise IcfError(f"{place}: build_id must have hexadecimal digits") from error
    bias = _is(int, module.get("bias"), f"{place}: bias")
    if "\0" in path or not path or not -_ADDRESS_END < bias < _ADDRESS_END:
        raise IcfError(f"{place}: needs a path, and a bias of 64 bits")
    return LoadedModule(path, build_id, bias=bias)


def _stack(value: Any, place: str) -> AskedStack:
    stack = _is(dict, value, place)
    frames = tuple([None if each is None else _address(each, place) for each in _list(stack, "frames")])
    return AskedStack(
        frames,
        frozenset([_is(int, each, f"{place}: exact") for each in _list(stack, "exact")]),
        bool(stack.get("is_called")),
        dict([_registers(each, f"{place}: registers") for each in _list(stack, "registers")]),
    )


def _registers(value: Any, place: str) -> tuple[int, dict[int, int]]:
    pair = _is(list, value, place)
    if len(pair) != 2:
        raise IcfError(f"{place} must be pairs of frame and values")
    values = _is(dict, pair[1], place).items()
    if not all(number.isdecimal() and len(number) < 3 for number, _ in values):
        raise IcfError(f"{place}: DWARF numbers of registers are below 100")
    return _is(int, pair[0], place), {int(number): _address(each, place) for number, each in values}


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    return _is(list, fields.get(name, []), name)


def _address(value: Any, place: str) -> int:
    address = _is(int, value, f"{place}: address")
    if not 0 <= address < _ADDRESS_END:
        raise IcfError(f"{place}: {address:#x} is not an address of 64 bits")
    return address


def _is(kind: type[_Checked], value: Any, place: str) -> _Checked:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise IcfError(f"{place} must be {_KINDS[kind]}")
    return value


_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a string", int: "a number"}
