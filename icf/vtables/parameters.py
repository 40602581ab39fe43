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
_BRACKET_OR_SCOPE = re.compile(r"->|::|[()<>\[\]{}]")
_BRACKET_OR_COMMA = re.compile(r"[()<>\[\]{},]")


class Signature(NamedTuple):
    """The text of a function's name, as far as it is about objects."""

    head: str  # up to its parameters
    parameters: tuple[str, ...]  # their types

    @property
    def scope(self) -> str:
        """The class or namespace around the function."""
        end = _last_scope(self.head)
        return self.head[:end] if end >= 0 else ""


def read_signature(name: str) -> Signature | None:
    """Return the signature in a linkage name; None if it has none, or is that of a part or a copy of a function."""
    if not name.startswith("_Z") or "." in name or name.startswith("_ZT"):
        return None
    text = demangle(name)
    end = text.rfind(")")
    start = _opening(text, end) if end >= 0 else -1
    if start <= 0 or "[clone" in text or text.find("{", start) >= 0:
        return None
    return Signature(text[:start], _split(text[start + 1 : end]))


def object_in(register: int, signature: Signature, machine: Machine, *, is_method: bool, has_result: bool) -> str:
    """Return the class of the object that a register points to when the function is entered; "" for none.

    `has_result`: the caller passes a pointer to the place of the result.
    """
    idx = registers_of(signature.parameters, machine, is_method=is_method, has_result=has_result).get(register)
    if idx is None:
        return ""
    return signature.scope if is_method and not idx else class_of_pointer(signature.parameters[idx - is_method]) or ""


@cache
def registers_of(parameters: tuple[str, ...], machine: Machine, *, is_method: bool, has_result: bool) -> dict[int, int]:
    """Return which argument is in each register when a function is entered; that of a method's object is 0."""
    registers = list(_ARGUMENTS[machine])
    if has_result and _RESULT_IS_ARGUMENT[machine]:
        registers.pop(0)
    found = {registers.pop(0): 0} if is_method else {}
    for idx, parameter in enumerate(parameters, int(is_method)):
        if parameter in _ELSEWHERE:
            continue
        if class_of_pointer(parameter) is None and parameter not in _IN_REGISTER or not registers:
            break
        found[registers.pop(0)] = idx
    return found


@cache
def class_of_pointer(text: str) -> str | None:
    """Return what a pointer or a reference points to: "" if that is not a class; None if the type is another one."""
    if not text.endswith(("*", "&")):
        return None
    pointee = _QUALIFIER.sub("", text[:-2] if text.endswith("&&") else text[:-1])
    return "" if pointee.endswith(("*", "&", ")", "]")) else pointee


def _opening(text: str, end: int) -> int:
    """Return where the parenthesis was opened that is closed at `end`; -1: nowhere."""
    depth = 1
    opened, closed = text.rfind("(", 0, end), text.rfind(")", 0, end)
    while opened >= 0:
        if closed > opened:
            depth += 1
            closed = text.rfind(")", 0, closed)
        else:
            depth -= 1
            if not depth:
                break
            opened = text.rfind("(", 0, opened)
    return opened


def _last_scope(head: str) -> int:
    """Return where the last `::` stands that is in no brackets; -1: nowhere."""
    expected: list[str] = []
    for match in reversed(list(_BRACKET_OR_SCOPE.finditer(head))):
        token = match[0]
        if token in _PAIRS:
            expected.append(_PAIRS[token])
        elif token in _OPEN:
            if not expected or expected.pop() != token:
                return -1  # such as operator<
        elif token == "::" and not expected:
            return match.start()
    return -1


@cache
def _split(text: str) -> tuple[str, ...]:
    """Return the parts between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for match in _BRACKET_OR_COMMA.finditer(text):
        if match[0] in _OPEN:
            depth += 1
        elif match[0] in _PAIRS:
            depth -= 1
        elif not depth:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return (*parts, text[start:].strip()) if text else ()
