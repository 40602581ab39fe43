"""Stores operations for the decoders."""

from __future__ import annotations

from icf._types import i64
from icf.code import operations as op

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def put(ops: i64[:, ::1], n: i64, kind: i64, a: i64, b: i64, c: i64, value: i64, at: i64) -> i64:
    """Store an operation in row `n`; return the row after it."""
    ops[n, op.KIND] = kind
    ops[n, op.A] = a
    ops[n, op.B] = b
    ops[n, op.C] = c
    ops[n, op.VALUE] = value
    ops[n, op.AT] = at
    return n + 1


@cython.inline
def kill(ops: i64[:, ::1], n: i64, mask: i64, at: i64) -> i64:
    """Store that the registers with a bit in `mask` change; return the row after that."""
    return put(ops, n, op.KILL, mask, 0, 0, 0, at)


@cython.inline
@cython.exceptval(check=False)
def signed(value: i64, bits: i64) -> i64:
    """Return the signed number that the low `bits` bits are; the others are 0."""
    sign: i64 = 1
    sign <<= bits - 1
    return (value ^ sign) - sign


@cython.inline
@cython.exceptval(check=False)
def bit(register: i64) -> i64:
    """Return the bit of a register in a mask."""
    one: i64 = 1
    return one << register
