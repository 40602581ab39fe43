"""Addresses that AArch64 code forms in two steps, found by following its registers through a function.

    adrp x0, page            x0 = page
    add  x1, x0, #0x10       forms page + 0x10
    ldr  x2, [x0, #0xfd8]    loads from page + 0xfd8
    blr  x2                  calls what that place holds

A register has a known value at an instruction if it has the same on all paths there: forward through the instructions,
along direct branches and the entries of known tables of switches; again until nothing changes. After an instruction
that does not go on, where no branch leads, and at every label of a function with a jump to unknown places, nothing is
known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from unwind.disasm.instructions import Instruction, Kind, Reference, Use

_MOST_INSTRUCTIONS = 1 << 17
_ROUNDS = 16
_LAST_VADDR = (1 << 64) - 1
_SCRATCH = tuple(f"x{number}" for number in (*range(19), 30))  # what a call may change (AAPCS64, 6.1.1)

_REGISTER = re.compile(r"\b[xw](\d+)\b")
_SUM = re.compile(r"x(\d+), x(\d+), #(\w+)(?:, lsl #(\d+))?")
_COPY = re.compile(r"x(\d+), x(\d+)")
_CONSTANT = re.compile(r"x(\d+), #(\w+)")
_PLACE = re.compile(r"\[x(\d+)(?:, #(-?\w+))?\](?!,|!)")
_WRITES_BACK = re.compile(r"\[x(\d+).*(?:\]!|\], )")
_WRITES_NO_REGISTER = re.compile(r"(?:st(?!l?x)|cmp|cmn|tst|ccm|fcmp|fccmp|b$|b\.|bc\.|cb|tb|prfm|msr|ret|nop)")
_WRITES_SEVERAL = re.compile(r"(?:ldn?p|ldxp|ldaxp|ld(?:add|clr|eor|set|[su]max|[su]min)|swp|cas|cpy|set)")
_SIZES_BYTES = {"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16}


class _Value(NamedTuple):
    """What a register holds."""

    number: int  # an address, or
    is_loaded: bool  # what lies there


_Values = dict[str, _Value]


def find_references(
    instructions: Sequence[Instruction], switches: Mapping[int, Collection[int]]
) -> dict[int, Reference]:
    """Return the references of a function's instructions by their address.

    `switches` has the targets of jump tables.
    """
    if not 0 < len(instructions) <= _MOST_INSTRUCTIONS:
        return {}
    row_at = {instruction.vaddr: row for row, instruction in enumerate(instructions)}
    ways: dict[int, list[int]] = {}
    is_open = False
    for row, instruction in enumerate(instructions):
        targets: Collection[int] = switches.get(instruction.vaddr, ())
        if instruction.kind in (Kind.JUMP, Kind.BRANCH) and instruction.target is not None:
            targets = (instruction.target,)
        elif instruction.kind is Kind.JUMP and not targets:
            is_open = True
        ways[row] = [row_at[target] for target in targets if target in row_at]
    labels = {label for targets in ways.values() for label in targets}
    entering: dict[int, _Values] = dict.fromkeys(labels, {}) if is_open else {}
    for _ in range(_ROUNDS):
        found, changed = _follow(instructions, ways, entering, labels)
        if not changed:
            return found
    return {}


def _follow(
    instructions: Sequence[Instruction], ways: Mapping[int, list[int]], entering: dict[int, _Values], labels: set[int]
) -> tuple[dict[int, Reference], bool]:
    """Follow the function once from its start to its end; store in `entering` the values at labels.

    Return the references found, and whether another pass is needed.
    """
    found: dict[int, Reference] = {}
    changed = False
    values: _Values | None = {}
    for row, instruction in enumerate(instructions):
        if row in labels:
            known = entering.get(row)
            if values is None:
                values = {} if known is None else dict(known)
            elif known is not None:
                values = _common(values, known)
            if known is not None and known != values:
                entering[row], changed = dict(values), True
        elif values is None:
            values = {}
        reference = _step(instruction, values)
        if reference is not None:
            found[instruction.vaddr] = reference
        for label in ways[row]:
            known = entering.get(label)
            common = dict(values) if known is None else _common(known, values)
            if known != common:
                entering[label], changed = common, True
        if instruction.kind in (Kind.JUMP, Kind.RETURN):
            values = None
    return found, changed


def _common(one: _Values, other: _Values) -> _Values:
    return {register: value for register, value in one.items() if other.get(register) == value}


def _step(instruction: Instruction, values: _Values) -> Reference | None:
    """Return the reference of an instruction; change `values` to those after it."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if instruction.kind is Kind.CALL or mnemonic.startswith("br"):
        callee = values.get(operands.partition(",")[0])
        if instruction.kind is Kind.CALL:
            for register in _SCRATCH:
                values.pop(register, None)
        return Reference(Use.LOAD, callee.number, 8) if callee is not None and callee.is_loaded else None
    if mnemonic in ("adr", "adrp"):
        constant = _CONSTANT.fullmatch(operands)
        if constant is None:
            return None
        number = int(constant[2], 0) & _LAST_VADDR
        values[f"x{constant[1]}"] = _Value(number, is_loaded=False)
        return Reference(Use.ADDRESS, number) if mnemonic == "adr" else None
    if mnemonic == "mov" and (copy := _COPY.fullmatch(operands)):
        value = values.get(f"x{copy[2]}")
        _set(values, f"x{copy[1]}", value)
        return None
    if mnemonic == "add" and (total := _SUM.fullmatch(operands)):
        value = values.get(f"x{total[2]}")
        number = int(total[3], 0) << int(total[4] or 0)
        formed = None if value is None or value.is_loaded else _Value((value.number + number) & _LAST_VADDR, False)
        _set(values, f"x{total[1]}", formed)
        return None if formed is None else Reference(Use.ADDRESS, formed.number)
    return _access(mnemonic, operands, values)


def _access(mnemonic: str, operands: str, values: _Values) -> Reference | None:
    """Return the place that an instruction loads or stores; forget the registers that it writes."""
    reference = None
    place = _PLACE.search(operands)
    base = values.get(f"x{place[1]}") if place else None
    constant = _CONSTANT.fullmatch(operands) if mnemonic.startswith("ldr") else None
    number = None
    if place is not None and base is not None and not base.is_loaded:
        number = (base.number + int(place[2] or "0", 0)) & _LAST_VADDR
    elif constant is not None:  # a literal
        number = int(constant[2], 0) & _LAST_VADDR
    if number is not None:
        use = Use.STORE if mnemonic.startswith("st") else Use.LOAD
        reference = Reference(use, number, _size_bytes(mnemonic, operands))
    written = _WRITES_BACK.search(operands)
    if written:
        values.pop(f"x{written[1]}", None)
    registers = [f"x{register}" for register in _REGISTER.findall(operands)]
    if _WRITES_SEVERAL.match(mnemonic):
        for register in registers:
            values.pop(register, None)
    elif registers and not _WRITES_NO_REGISTER.match(mnemonic) and operands[:1] in "xw":
        loads_word = number is not None and mnemonic == "ldr" and operands.startswith("x")
        _set(values, registers[0], _Value(number or 0, is_loaded=True) if loads_word else None)
    return reference


def _set(values: _Values, register: str, value: _Value | None) -> None:
    if value is None:
        values.pop(register, None)
    else:
        values[register] = value


def _size_bytes(mnemonic: str, operands: str) -> int:
    """Return how much a load or store of one register transfers; 0: not known."""
    if mnemonic in ("ldr", "str", "ldur", "stur", "ldar", "stlr"):
        return _SIZES_BYTES.get(operands[:1], 0)
    if mnemonic in ("ldrsw", "ldursw"):
        return 4
    return _SIZES_BYTES.get(mnemonic[-1:], 0) if mnemonic[-1:] in "bh" else 0
