"""The classes of the objects that functions are called with, from their linkage names.

    _ZN5Shape6acceptER7VisitorPS_     Shape::accept(Visitor&, Shape*)
    this            Shape             the first argument of a method
    first           Visitor           a reference or a pointer to one object
    second          Shape

A linkage name has the types of all parameters, for each function of a body its own. It lacks whether a function has
an object, and whether it gets a pointer to its result: debug information says that. Register arguments are counted up
to the first parameter that may take another number of them: a class by value, or an enumeration, which looks like one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from icf.demangle import demangle
from icf.elf.types import Machine

TYPEINFO = "typeinfo for "
# Registers of arguments, as instructions number them: System V ABI for x86-64, 3.2.3; AAPCS64, 6.8.2
_ARGUMENTS = {Machine.X86_64: (7, 6, 2, 1, 8, 9), Machine.AARCH64: tuple(range(8))}
_RESULT_IS_ARGUMENT = {Machine.X86_64: True, Machine.AARCH64: False}  # the pointer to it takes the first register
_IN_REGISTER = frozenset(
    f"{sign}{kind}" for sign in ("", "signed ", "unsigned ") for kind in ("char", "short", "int", "long", "long long")
) | {"bool", "wchar_t", "char8_t", "char16_t", "char32_t"}
_ELSEWHERE = frozenset(("float", "double"))  # in registers of their own
_QUALIFIER = re.compile(r"(?: const| volatile)+\Z")
_PAIRS = {")": "(", ">": "<", "]": "[", "}": "{"}
_OPEN = frozenset(_PAIRS.values())


class Signature(NamedTuple):
    """The text of a function's name, as far as it is about objects."""

    scope: str  # the class or namespace around it
    parameters: tuple[str, ...]  # their types


@cache
def read_signature(name: str) -> Signature | None:
    """Return the signature in a linkage name; None if it has none, or is that of a part or a copy of a function."""
    if not name.startswith("_Z") or "." in name or name.startswith("_ZT"):
        return None
    text = demangle(name)
    end = text.rfind(")")
    start = _opening(text, end)
    if start <= 0 or "[clone" in text or "{" in text[start:]:
        return None
    scope_end = _last_scope(text, start)
    inside = text[start + 1 : end]
    parameters = tuple(_split(inside)) if inside else ()
    return Signature(text[:scope_end] if scope_end >= 0 else "", parameters)


def objects_of(signature: Signature, machine: Machine, *, is_method: bool, has_result: bool) -> dict[int, str]:
    """Return the class of the object that each register points to when the function is entered.

    `has_result`: the caller passes a pointer to the place of the result.
    """
    names = [signature.scope] if is_method else []
    names += [class_of_pointer(parameter) or "" for parameter in signature.parameters]
    registers = registers_of(signature, machine, is_method=is_method, has_result=has_result)
    return {register: names[idx] for register, idx in registers.items() if names[idx]}


def registers_of(signature: Signature, machine: Machine, *, is_method: bool, has_result: bool) -> dict[int, int]:
    """Return which argument is in each register when the function is entered; that of a method's object is 0."""
    registers = list(_ARGUMENTS[machine])
    if has_result and _RESULT_IS_ARGUMENT[machine]:
        registers.pop(0)
    found = {registers.pop(0): 0} if is_method else {}
    for idx, parameter in enumerate(signature.parameters, int(is_method)):
        if parameter in _ELSEWHERE:
            continue
        if class_of_pointer(parameter) is None and parameter not in _IN_REGISTER or not registers:
            break
        found[registers.pop(0)] = idx
    return found


def class_of_pointer(text: str) -> str | None:
    """Return what a pointer or a reference points to: "" if that is not a class; None if the type is another one."""
    if not text.endswith(("*", "&")):
        return None
    pointee = _QUALIFIER.sub("", text[:-2] if text.endswith("&&") else text[:-1])
    return "" if pointee.endswith(("*", "&", ")", "]")) else pointee


def _opening(text: str, end: int) -> int:
    """Return where the parenthesis was opened that is closed at `end`; -1: nowhere."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if not depth:
            return at
    return -1


def _last_scope(text: str, end: int) -> int:
    """Return where the last `::` before `end` stands that is in no brackets; -1: nowhere."""
    expected: list[str] = []
    for at in range(end - 1, 0, -1):
        char = text[at]
        if char in _PAIRS and text[at - 1 : at + 1] != "->":
            expected.append(_PAIRS[char])
        elif char in _OPEN:
            if not expected or expected.pop() != char:
                return -1  # such as operator<
        elif char == ":" and text[at - 1] == ":" and not expected:
            return at - 1
    return -1


def _split(text: str) -> list[str]:
    """Return the parts between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _PAIRS:
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
