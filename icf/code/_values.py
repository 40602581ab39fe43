"""What operations make of values, for `_flow`: those in registers, and those remembered of memory.

The values last loaded or stored are remembered up to the next label, call, or store that may overlap; a store at a
known distance from the same origin does not.
"""

from __future__ import annotations

from icf._bytes import MASK, as_u64
from icf._types import i64, u64
from icf.code import operations as op
from icf.code._emit import bit
from icf.code._paths import ADDED, FROM_TABLE, FUNCTION, LOADED, NODE, first_at, forget, kind_of

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def place_of(ops: i64[:, ::1], row: i64, offset: u64[:, ::1]) -> u64:
    """Return the offset, from its origin, of the address that an operation loads or stores at."""
    register: i64 = ops[row, op.B]
    value: u64 = as_u64(ops[row, op.VALUE])
    return value if register < 0 else (offset[0, register] + value) & MASK


@cython.inline
def set_result(origin: u64[:, ::1], offset: u64[:, ::1], register: i64, x: u64, value: u64) -> cython.int:
    """Store what a register holds: its origin, and what is added to it."""
    origin[0, register] = x
    offset[0, register] = value
    return 0


@cython.inline
def note(nodes: u64[:, ::1], row: i64, kind: u64, x: u64, y: u64) -> cython.bint:
    """Store the result of an operation as a node; return whether the node has changed."""
    is_news: cython.bint = nodes[row, 0] != kind or nodes[row, 1] != x or nodes[row, 2] != y
    nodes[row, 0] = kind
    nodes[row, 1] = x
    nodes[row, 2] = y
    return is_news


@cython.inline
def remember(memory: u64[:, ::1], result: i64[::1], x: u64, place: u64) -> i64:
    """Return the row of `memory` for the value at an address, which replaces the oldest."""
    i: i64 = result[op.KNOWN] % op.KEEP
    result[op.KNOWN] += 1
    memory[i, 0] = x
    memory[i, 1] = place
    return i


@cython.inline
def assign(ops: i64[:, ::1], row: i64, origin: u64[:, ::1], offset: u64[:, ::1]) -> cython.int:
    """Do a COPY, an ADD or a CONST: a register is another one, plus a constant, or the constant itself."""
    a: i64 = ops[row, op.A]
    b: i64 = ops[row, op.B]
    kind: i64 = ops[row, op.KIND]
    added: u64 = 0 if kind == op.COPY else as_u64(ops[row, op.VALUE])
    origin[0, a] = 0 if kind == op.CONST else origin[0, b]
    offset[0, a] = added if kind == op.CONST else (offset[0, b] + added) & MASK
    return 0


@cython.inline
def form(
    ops: i64[:, ::1],
    row: i64,
    starts: cython.const[i64][::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
) -> cython.bint:
    """Do an ADD or a CONST, which may form the address of a function; return whether the node has changed.

    Such an address is a value of its own: at one address are several functions, and the instruction says which it is.
    """
    a: i64 = ops[row, op.A]
    value: u64
    i: i64
    assign(ops, row, origin, offset)
    if kind_of(nodes, origin[0, a]) == FUNCTION:  # adrp of a page that begins with a function, add
        set_result(origin, offset, a, 0, (nodes[origin[0, a] - NODE, 1] + offset[0, a]) & MASK)
    value = offset[0, a]
    if origin[0, a] != 0 or starts.shape[0] == 0 or value < as_u64(starts[0]) or value >> 62 != 0:
        return False
    i = first_at(starts, value)
    if i >= starts.shape[0] or as_u64(starts[i]) != value:
        return False
    set_result(origin, offset, a, NODE + row, 0)
    return note(nodes, row, FUNCTION, value, 0)


@cython.inline
def add(
    ops: i64[:, ::1],
    row: i64,
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    memory: u64[:, ::1],
    result: i64[::1],
) -> cython.bint:
    """Add two registers: an equal remembered sum shares its origin; return whether the node has changed."""
    b: i64 = ops[row, op.B]
    c: i64 = ops[row, op.C]
    x: u64 = origin[0, b]
    y: u64 = origin[0, c]
    total: u64 = (offset[0, b] + offset[0, c] + as_u64(ops[row, op.VALUE])) & MASK
    i: i64 = op.KEEP
    end: i64 = op.KEEP + (result[op.SUMS] if result[op.SUMS] < op.KEEP else op.KEEP)
    is_news: cython.bint = False
    if x > y:
        x = origin[0, c]
        y = origin[0, b]
    if x != 0 and (kind_of(nodes, x) & 0xFF == FROM_TABLE or kind_of(nodes, y) & 0xFF == FROM_TABLE):
        is_news = note(nodes, row, FROM_TABLE, MASK, 0)
        y = NODE + row
    elif x != 0:
        while i < end and (memory[i, 0] != x or memory[i, 1] != y):
            i += 1
        if i == end:
            is_news = note(nodes, row, ADDED, x, y)
            i = op.KEEP + result[op.SUMS] % op.KEEP
            result[op.SUMS] += 1
            memory[i, 0] = x
            memory[i, 1] = y
            memory[i, 2] = NODE + row
        y = memory[i, 2]
    set_result(origin, offset, ops[row, op.A], y, total)
    return is_news


@cython.inline
def load(
    ops: i64[:, ::1],
    row: i64,
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    memory: u64[:, ::1],
    result: i64[::1],
) -> cython.bint:
    """Load eight bytes, perhaps from a remembered place; return whether the node has changed."""
    x: u64 = 0 if ops[row, op.B] < 0 else origin[0, ops[row, op.B]]
    place: u64 = place_of(ops, row, offset)
    i: i64 = 0
    end: i64 = result[op.KNOWN] if result[op.KNOWN] < op.KEEP else op.KEEP
    is_news: cython.bint = False
    while i < end and (memory[i, 0] != x or memory[i, 1] != place):
        i += 1
    if i == end:
        is_news = note(nodes, row, LOADED, x, place)
        i = remember(memory, result, x, place)
        memory[i, 2] = NODE + row
        memory[i, 3] = 0
    set_result(origin, offset, ops[row, op.A], memory[i, 2], memory[i, 3])
    return is_news


@cython.inline
def load_indexed(
    ops: i64[:, ::1], row: i64, nodes: u64[:, ::1], origin: u64[:, ::1], offset: u64[:, ::1], temporary: i64
) -> cython.bint:
    """Load an entry of a table; return whether the node has changed."""
    a: i64 = ops[row, op.A]
    b: i64 = ops[row, op.B]
    c: i64 = ops[row, op.C]
    table: u64 = place_of(ops, row, offset)
    if b >= 0 and origin[0, b] != 0:
        table = MASK
    if table == MASK and (c == 4 or c & 15 == 8 and c != 8):
        forget(origin, offset, row, bit(a), temporary)
        return False
    x: u64 = 0 if b < 0 else origin[0, b]
    set_result(origin, offset, a, NODE + row, 0)
    if table == MASK and c == 8:
        return note(nodes, row, LOADED, x, op.ANY_ELEMENT)
    return note(nodes, row, FROM_TABLE + (c << 8), table, 0)


@cython.inline
def add_scaled(
    ops: i64[:, ::1], row: i64, nodes: u64[:, ::1], origin: u64[:, ::1], offset: u64[:, ::1], temporary: i64
) -> cython.bint:
    """Add an entry of a table to its base; return whether the node has changed."""
    a: i64 = ops[row, op.A]
    b: i64 = ops[row, op.B]
    c: i64 = ops[row, op.C]
    value: i64 = ops[row, op.VALUE]
    x: u64 = origin[0, c]
    table: u64
    code: u64
    if offset[0, c] != 0 or kind_of(nodes, x) & 0xFF != FROM_TABLE or value & (op.SHIFT - 2) != 0:
        forget(origin, offset, row, bit(a), temporary)
        return False
    table = nodes[x - NODE, 1] if origin[0, b] == 0 else MASK
    code = nodes[x - NODE, 0]
    if value & op.SHIFT == 2:
        code |= op.TIMES_4 << 8
    if value & op.SIGNED_INDEX:
        code |= op.SIGNED_ENTRY << 8
    set_result(origin, offset, a, NODE + row, offset[0, b])
    return note(nodes, row, code, table, 0)


@cython.inline
def store(
    ops: i64[:, ::1], row: i64, origin: u64[:, ::1], offset: u64[:, ::1], memory: u64[:, ::1], result: i64[::1]
) -> cython.int:
    """Forget what a store may overlap, and remember what it stores."""
    x: u64 = 0 if ops[row, op.B] < 0 else origin[0, ops[row, op.B]]
    place: u64 = place_of(ops, row, offset)
    size: u64 = as_u64(ops[row, op.A])
    c: i64 = ops[row, op.C]
    known: i64 = result[op.KNOWN] if result[op.KNOWN] < op.KEEP else op.KEEP
    i: i64 = known
    column: i64
    while i > 0:
        i -= 1
        if memory[i, 0] != x or (memory[i, 1] - place) & MASK < size or (place - memory[i, 1]) & MASK < 8:
            known -= 1
            column = 0
            while column < 4:
                memory[i, column] = memory[known, column]
                column += 1
    result[op.KNOWN] = known
    if c >= 0:
        i = remember(memory, result, x, place)
        memory[i, 2] = origin[0, c]
        memory[i, 3] = offset[0, c]
    return 0
