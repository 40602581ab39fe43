"""The decoders against capstone: the length of every instruction, and what it changes; and on arbitrary bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import capstone
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.code import _aarch64, _flow, _x86_64
from icf.code import operations as op
from icf.code.branches import executable_sections
from icf.code.x86_64_opcodes import OPCODES
from icf.elf.image import Image
from icf.elf.types import Machine
from tests.support.builds import uncompiled
from tests.support.code_oracle import static_program

BASE = 0x40_0000
Row = tuple[int, ...]
WRITES = range(op.COPY, op.STORE)  # operations with a register that they write
STORES = {op.STORE, op.STORE_ANY, op.FORGET, op.BAD}
PURE = {Machine.X86_64: uncompiled(_x86_64), Machine.AARCH64: uncompiled(_aarch64)}
PURE_FLOW = uncompiled(_flow)
COMPILED = {Machine.X86_64: _x86_64, Machine.AARCH64: _aarch64}


def decode(
    machine: Machine, code: bytes, functions: list[tuple[int, int]], modules: dict[Machine, Any]
) -> list[list[Row]]:
    """The rows of each function, given by its place in `code`."""
    bounds = np.array(functions, np.int64).reshape(-1, 2) + BASE
    ops = np.zeros((4 * len(code) + 12 * len(functions) + 64, 6), np.int64)
    first_row, result = np.zeros(len(functions) + 1, np.int64), np.zeros(1, np.int64)
    opcodes = (OPCODES.data,) if machine is Machine.X86_64 else ()
    modules[machine].decode(memoryview(code), BASE, bounds.data, 0, *opcodes, ops.data, first_row.data, result.data)
    assert int(result[0]) == len(functions)
    rows = [tuple(row) for row in ops[: int(first_row[-1])].tolist()]
    edges = first_row.tolist()
    return [rows[first:last] for first, last in zip(edges[:-1], edges[1:], strict=True)]


def changed(rows: list[Row]) -> int:
    mask = 0
    for kind, a, *_ in rows:
        mask |= a if kind == op.KILL else 1 << a if kind in WRITES else 2**33 - 1 if kind in (op.FORGET, op.BAD) else 0
    return mask


@cache
def numbers(machine: Machine) -> dict[int, int]:
    """General registers, by capstone's number."""
    if machine is Machine.AARCH64:
        names = {f"ARM64_REG_{kind}{idx}": idx for idx in range(31) for kind in "XW"}
        names |= {"ARM64_REG_SP": 31, "ARM64_REG_WSP": 31, "ARM64_REG_FP": 29, "ARM64_REG_LR": 30}
        return {getattr(capstone.arm64, name): idx for name, idx in names.items() if hasattr(capstone.arm64, name)}
    old = "AX CX DX BX SP BP SI DI".split()
    names = {f"{prefix}{name}": idx for idx, name in enumerate(old) for prefix in ("R", "E", "")}
    names |= {f"{name[0]}{half}": idx for idx, name in enumerate(old[:4]) for half in "LH"}
    names |= {f"{name}L": idx for idx, name in enumerate(old) if idx >= 4}
    names |= {f"R{idx}{suffix}": idx for idx in range(8, 16) for suffix in ("", "D", "W", "B")}
    return {getattr(capstone.x86, f"X86_REG_{name}"): idx for name, idx in names.items()}


# capstone says of these that they write what they only read; of a call, that it moves the stack pointer
READ_ONLY = {"cmp", "cmn", "tst", "test", "cdq", "cqo", "st1", "st2", "st3", "st4", "call", "bl", "blr"}


def check(machine: Machine, insns: list[capstone.CsInsn], modules: dict[Machine, Any]) -> int:
    """Compare each instruction by itself; gives how many were compared for what they change."""
    starts = np.cumsum([0] + [insn.size for insn in insns]).tolist()
    code = b"".join(bytes(insn.bytes) for insn in insns)
    whole = decode(machine, code, list(zip(starts[:-1], starts[1:], strict=True)), modules)
    compared = 0
    for insn, rows in zip(insns, whole, strict=True):
        assert all(row[0] != op.BAD for row in rows), (insn, insn.bytes.hex())
        try:
            written = sum({1 << numbers(machine)[reg] for reg in insn.regs_access()[1] if reg in numbers(machine)})
        except capstone.CsError:
            continue
        if insn.mnemonic.split()[-1] not in READ_ONLY and all(row[0] != op.STOP for row in rows[:-1]):
            assert written & ~changed(rows) == 0, (insn, insn.bytes.hex(), rows)
            compared += 1
        stores = any(o.type == 3 and o.access & capstone.CS_AC_WRITE for o in insn.operands)  # 3: memory, in both
        if stores and not insn.mnemonic.startswith(("ld", "prf", "nop", "lea")):
            assert any(row[0] in STORES for row in rows), (insn, insn.bytes.hex(), rows)
    if machine is Machine.X86_64:  # one byte less is no instruction, or capstone's length is not the length
        cut = [(start, end - 1) for start, end in zip(starts[:-1], starts[1:], strict=True) if end - start > 1]
        for (start, end), rows in zip(cut, decode(machine, code, cut, modules), strict=True):
            assert any(row[0] == op.BAD for row in rows), code[start : end + 1].hex()
    return compared


def disassembler(machine: Machine) -> capstone.Cs:
    if machine is Machine.X86_64:
        found = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        found = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    found.detail = True
    return found


@pytest.mark.parametrize("modules", [COMPILED, PURE], ids=["compiled", "plain"])
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_every_instruction_of_the_c_library(arch: str, modules: dict[Machine, Any]) -> None:
    with Image.open(str(static_program(arch))) as image:
        text = next(section for section in executable_sections(image) if section.name == ".text")
        symbols = image.symbols
        spans = {int(symbols.value[row]): int(symbols.size_bytes[row]) for row in symbols.functions.tolist()}
        seen: dict[bytes, capstone.CsInsn] = {}
        machine = disassembler(image.machine)
        for start, size_bytes in sorted(spans.items()):
            if text.vaddr <= start < text.vaddr + text.size_bytes and size_bytes:
                for insn in machine.disasm(bytes(image.read(start, size_bytes)), start):
                    seen.setdefault(bytes(insn.bytes), insn)
        insns = list(seen.values())[:: 3 if modules is COMPILED else 30]
        assert check(image.machine, insns, modules) > len(insns) // 2 > 150


@settings(max_examples=100, deadline=None)
@given(code=st.binary(min_size=1, max_size=80), machine=st.sampled_from([Machine.X86_64, Machine.AARCH64]))
def test_arbitrary_bytes(code: bytes, machine: Machine) -> None:
    rows, plain = (decode(machine, code, [(0, len(code))], modules)[0] for modules in (COMPILED, PURE))
    assert rows == plain
    offsets = [row[5] for row in rows]
    assert offsets == sorted(offsets) and offsets[-1] == len(code)
    found = [follow(module, machine, rows, len(code)) for module in (_flow, PURE_FLOW)]
    assert found[0] == found[1]


def follow(module: Any, machine: Machine, rows: list[Row], size_bytes: int) -> list[list[int]]:
    facts = (17, 4, 7, 6, 0xF038, 1, 0x3C6) if machine is Machine.X86_64 else (33, 31, 0, -1, 0xBFF80000, 1, 0xFF)
    ops = np.array(rows, np.int64).reshape(-1, 6)
    scratch = [np.zeros((len(rows) + 2, facts[0]), np.uint64) for _ in range(2)]
    found_limit = len(rows) * (2 + facts[0])  # a call, its target, and each register that points to its object
    out, result = np.zeros((found_limit, op.FOUND_COLUMN_COUNT), np.uint64), np.zeros(op.RESULT_SIZE, np.int64)
    nodes = np.zeros((len(rows) + op.TAIL_ROWS, 3), np.uint64)
    module.follow(
        ops.data, np.array([0, len(rows)]).data, np.array([[BASE, BASE + size_bytes]]).data, 0, 1,
        np.array(facts, np.int64).data, np.array([BASE + 3], np.int64).data, np.empty((0, 2), np.int64).data,
        np.empty(0, np.int64).data, np.array([BASE + 8], np.int64).data, np.arange(BASE, BASE + 80, 2).data,
        np.zeros(len(rows), np.int64).data, nodes.data, scratch[0].data, scratch[1].data,
        np.zeros((32, 4), np.uint64).data, out.data, np.zeros(1, np.uint8).data, result.data,
    )  # fmt: skip
    assert result.tolist()[0] == 1 and result[2] == 0
    found: list[list[int]] = out[: int(result[1])].tolist()
    return found
