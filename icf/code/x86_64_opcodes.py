"""The opcodes of x86-64: how long an instruction is, and which registers and memory it may change.

A number for each opcode of the maps one-byte, 0F, 0F 38 and 0F 3A:

    bits 0-3   operand after the address: 0 none, 1 one byte, 2 two, 3 four (two with prefix 66), 4 eight with REX.W,
               else as 3, 5 an address, 6 three bytes
    bit 4      has a ModRM byte
    bit 5      operands of 8 bits, so that registers 4 to 7 are ah, ch, dh, bh without a REX prefix
    bit 6      the decoder has code of its own for it
    bit 7      not an instruction
    bits 8-15  what it may change: the operand r/m, the register of ModRM, rax, rdx, rcx; only memory; anything

General registers only: SSE registers never hold the address of a function. Where an opcode means several
things, by prefix or by the register field, the sets of what they change are united. tools/shared.py makes C constants
of the names.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U16

IB, IW, IZ, IV, MOFFS, IWB = 1, 2, 3, 4, 5, 6
MODRM, BYTE, SPECIAL, INVALID = 0x10, 0x20, 0x40, 0x80
RM, REG, AX, DX, CX, MEM, ALL = 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x8000
OPERAND = 15

# Registers of operations. RELATIVE: to the address after the instruction.
CX_REGISTER, SP, BP, TEMPORARY = 1, 4, 5, 16
NO_REGISTER, RELATIVE = -1, -2
LOW = 0xFFFFFFFF  # the bits of the lower half of a register

_Ranges = tuple[tuple[int, int, int], ...]  # first opcode, last, number

_ONE_BYTE: _Ranges = (
    (0x50, 0x5F, SPECIAL),  # push, pop
    (0x60, 0x62, INVALID),
    (0x63, 0x63, MODRM | SPECIAL | REG),  # movslq
    (0x68, 0x68, IZ | SPECIAL),
    (0x69, 0x69, MODRM | IZ | REG),
    (0x6A, 0x6A, IB | SPECIAL),
    (0x6B, 0x6B, MODRM | IB | REG),
    (0x6C, 0x6F, ALL),  # ins, outs
    (0x70, 0x7F, IB | SPECIAL),  # jcc
    (0x80, 0x80, MODRM | IB | SPECIAL | BYTE | RM),
    (0x81, 0x81, MODRM | IZ | SPECIAL | RM),
    (0x82, 0x82, INVALID),
    (0x83, 0x83, MODRM | IB | SPECIAL | RM),
    (0x84, 0x85, MODRM),  # test
    (0x86, 0x86, MODRM | BYTE | RM | REG),
    (0x87, 0x87, MODRM | RM | REG),
    (0x88, 0x88, MODRM | BYTE | RM),
    (0x89, 0x89, MODRM | SPECIAL | RM),
    (0x8A, 0x8A, MODRM | BYTE | REG),
    (0x8B, 0x8B, MODRM | SPECIAL | REG),
    (0x8C, 0x8C, MODRM | RM),
    (0x8D, 0x8D, MODRM | SPECIAL | REG),
    (0x8E, 0x8E, MODRM),
    (0x8F, 0x8F, MODRM | SPECIAL | RM),  # pop r/m
    (0x90, 0x97, SPECIAL),  # nop, xchg with rax
    (0x98, 0x98, AX),
    (0x99, 0x99, DX),
    (0x9A, 0x9A, INVALID),
    (0x9B, 0x9B, 0),
    (0x9C, 0x9D, SPECIAL),
    (0x9E, 0x9E, 0),
    (0x9F, 0x9F, AX),
    (0xA0, 0xA1, MOFFS | AX),
    (0xA2, 0xA3, MOFFS | MEM),
    (0xA4, 0xA7, SPECIAL),  # movs, cmps
    (0xA8, 0xA8, IB),
    (0xA9, 0xA9, IZ),
    (0xAA, 0xAF, SPECIAL),  # stos, lods, scas
    (0xB0, 0xBF, SPECIAL),  # mov imm
    (0xC0, 0xC0, MODRM | IB | BYTE | RM),
    (0xC1, 0xC1, MODRM | IB | RM),
    (0xC2, 0xC2, IW | SPECIAL),  # ret
    (0xC3, 0xC3, SPECIAL),
    (0xC4, 0xC5, INVALID),
    (0xC6, 0xC6, MODRM | IB | BYTE | RM),
    (0xC7, 0xC7, MODRM | IZ | SPECIAL | RM),
    (0xC8, 0xC8, IWB | ALL),
    (0xC9, 0xC9, SPECIAL),  # leave
    (0xCA, 0xCA, IW | SPECIAL),
    (0xCB, 0xCC, SPECIAL),
    (0xCD, 0xCD, IB | ALL),
    (0xCE, 0xCE, INVALID),
    (0xCF, 0xCF, SPECIAL),
    (0xD0, 0xD0, MODRM | BYTE | RM),
    (0xD1, 0xD1, MODRM | RM),
    (0xD2, 0xD2, MODRM | BYTE | RM),
    (0xD3, 0xD3, MODRM | RM),
    (0xD4, 0xD6, INVALID),
    (0xD7, 0xD7, AX),
    (0xD8, 0xDE, MODRM | MEM),  # x87
    (0xDF, 0xDF, MODRM | MEM | AX),
    (0xE0, 0xE3, IB | SPECIAL),  # loop, jrcxz
    (0xE4, 0xE7, IB | AX),
    (0xE8, 0xE9, SPECIAL),  # call, jmp
    (0xEA, 0xEA, INVALID),
    (0xEB, 0xEB, IB | SPECIAL),
    (0xEC, 0xEF, AX),
    (0xF1, 0xF1, ALL),
    (0xF4, 0xF4, SPECIAL),
    (0xF5, 0xF5, 0),
    (0xF6, 0xF6, MODRM | SPECIAL | BYTE | RM),
    (0xF7, 0xF7, MODRM | SPECIAL | RM),
    (0xF8, 0xFD, 0),
    (0xFE, 0xFE, MODRM | BYTE | RM),
    (0xFF, 0xFF, MODRM | SPECIAL | RM),
)

_TWO_BYTE: _Ranges = (
    (0x00, 0x00, MODRM | RM),
    (0x01, 0x01, MODRM | ALL),
    (0x02, 0x03, MODRM | REG),
    (0x04, 0x04, INVALID),
    (0x05, 0x05, ALL),  # syscall
    (0x06, 0x06, 0),
    (0x07, 0x07, SPECIAL),
    (0x08, 0x09, 0),
    (0x0A, 0x0A, INVALID),
    (0x0B, 0x0B, SPECIAL),  # ud2
    (0x0C, 0x0C, INVALID),
    (0x0D, 0x0D, MODRM),
    (0x0E, 0x0E, 0),
    (0x0F, 0x0F, MODRM | IB),
    (0x10, 0x17, MODRM | MEM),
    (0x18, 0x1D, MODRM | MEM),
    (0x1E, 0x1E, MODRM | SPECIAL),  # endbr64, rdssp
    (0x1F, 0x1F, MODRM),
    (0x20, 0x23, SPECIAL),  # control registers: ModRM is always two registers
    (0x24, 0x27, INVALID),
    (0x28, 0x2B, MODRM | MEM),
    (0x2C, 0x2D, MODRM | REG),
    (0x2E, 0x2F, MODRM),
    (0x30, 0x30, 0),
    (0x31, 0x33, AX | DX | CX),
    (0x34, 0x34, ALL),
    (0x35, 0x35, SPECIAL),
    (0x36, 0x36, INVALID),
    (0x37, 0x37, ALL),
    (0x38, 0x3F, INVALID),
    (0x40, 0x4F, MODRM | REG),  # cmov
    (0x50, 0x50, MODRM | REG),
    (0x51, 0x6F, MODRM),
    (0x70, 0x73, MODRM | IB),
    (0x74, 0x76, MODRM),
    (0x77, 0x77, SPECIAL),
    (0x78, 0x78, MODRM | SPECIAL | RM | REG),
    (0x79, 0x79, MODRM | REG),
    (0x7A, 0x7D, MODRM),
    (0x7E, 0x7E, MODRM | SPECIAL | RM),
    (0x7F, 0x7F, MODRM | MEM),
    (0x80, 0x8F, SPECIAL),  # jcc
    (0x90, 0x9F, MODRM | SPECIAL | BYTE | RM),
    (0xA0, 0xA1, SPECIAL),
    (0xA2, 0xA2, ALL),
    (0xA3, 0xA3, MODRM),
    (0xA4, 0xA4, MODRM | IB | RM),
    (0xA5, 0xA5, MODRM | RM),
    (0xA6, 0xA7, INVALID),
    (0xA8, 0xA9, SPECIAL),
    (0xAA, 0xAA, ALL),
    (0xAB, 0xAB, MODRM | RM),
    (0xAC, 0xAC, MODRM | IB | RM),
    (0xAD, 0xAD, MODRM | RM),
    (0xAE, 0xAE, MODRM | RM),  # fences, fxsave, rdfsbase
    (0xAF, 0xAF, MODRM | REG),
    (0xB0, 0xB0, MODRM | BYTE | RM | AX),
    (0xB1, 0xB1, MODRM | RM | AX),
    (0xB2, 0xB2, MODRM | REG),
    (0xB3, 0xB3, MODRM | RM),
    (0xB4, 0xB8, MODRM | REG),
    (0xB9, 0xB9, MODRM | SPECIAL),
    (0xBA, 0xBA, MODRM | IB | RM),
    (0xBB, 0xBB, MODRM | RM),
    (0xBC, 0xBF, MODRM | REG),
    (0xC0, 0xC0, MODRM | BYTE | RM | REG),
    (0xC1, 0xC1, MODRM | RM | REG),
    (0xC2, 0xC2, MODRM | IB),
    (0xC3, 0xC3, MODRM | MEM),
    (0xC4, 0xC4, MODRM | IB),
    (0xC5, 0xC5, MODRM | IB | REG),
    (0xC6, 0xC6, MODRM | IB),
    (0xC7, 0xC7, MODRM | RM | AX | DX),
    (0xC8, 0xCF, SPECIAL),  # bswap
    (0xD0, 0xD5, MODRM),
    (0xD6, 0xD6, MODRM | MEM),
    (0xD7, 0xD7, MODRM | REG),
    (0xD8, 0xE6, MODRM),
    (0xE7, 0xE7, MODRM | MEM),
    (0xE8, 0xF6, MODRM),
    (0xF7, 0xF7, MODRM | SPECIAL),  # maskmovdqu stores to rdi
    (0xF8, 0xFE, MODRM),
    (0xFF, 0xFF, MODRM | SPECIAL),
)

_MAP_38: _Ranges = (
    (0x00, 0xEF, MODRM),
    (0xF0, 0xF7, MODRM | RM | REG),
    (0xF8, 0xF9, MODRM | MEM | SPECIAL),
    (0xFA, 0xFF, MODRM | RM | REG),
)

_MAP_3A: _Ranges = (
    (0x00, 0x13, MODRM | IB),
    (0x14, 0x17, MODRM | IB | RM),
    (0x18, 0x5F, MODRM | IB),
    (0x60, 0x63, MODRM | IB | CX),
    (0x64, 0xEF, MODRM | IB),
    (0xF0, 0xFF, MODRM | IB | REG | AX),
)


def _filled(ranges: _Ranges) -> list[int]:
    numbers = [INVALID] * 256
    for first, last, number in ranges:
        numbers[first : last + 1] = [number] * (last + 1 - first)
    return numbers


def _arithmetic() -> _Ranges:
    """Return the opcodes of add, or, adc, sbb, and, sub, xor, cmp: six forms each; cmp writes no register."""
    rows: list[tuple[int, int, int]] = []
    for base in range(0, 0x40, 8):
        rm, reg, ax = (0, 0, 0) if base == 0x38 else (RM, REG, AX)
        wide = SPECIAL if base == 0 else 0
        rows += [
            (base, base, MODRM | BYTE | rm),
            (base + 1, base + 1, MODRM | wide | rm),
            (base + 2, base + 2, MODRM | BYTE | reg),
            (base + 3, base + 3, MODRM | wide | reg),
            (base + 4, base + 4, IB | ax),
            (base + 5, base + 5, IZ | ax),
        ]
    return tuple(rows)


OPCODES: U16 = np.array(
    [_filled(_arithmetic() + _ONE_BYTE), _filled(_TWO_BYTE), _filled(_MAP_38), _filled(_MAP_3A)], np.uint16
)
