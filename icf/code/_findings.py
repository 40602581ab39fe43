"""What `_flow` stores: the calls and jumps through registers, and from where their target was loaded."""

from __future__ import annotations

from icf._bytes import MASK, as_u64
from icf._types import i64, u64
from icf.code import operations as op
from icf.code._emit import bit
from icf.code._paths import FROM_TABLE, FUNCTION, LOADED, NODE, SLOT_LIMIT, forget, kind_of, start_of
from icf.code._values import assign

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def tail_end(ops: i64[:, ::1], row: i64, end: i64) -> i64:
    """Return the row of the jump to a value that the code comes to from `row` on without a choice; NO_TAIL: to none."""
    limit: i64 = row + op.TAIL_ROWS if row + op.TAIL_ROWS < end else end
    kind: i64
    while row < limit:
        kind = ops[row, op.KIND]
        if kind == op.JUMP_VALUE:
            return row
        if kind >= op.CALL or kind == op.INDEXED or kind == op.SCALED_SUM:
            return op.NO_TAIL
        row += 1
    return op.NO_TAIL


@cython.inline
def do_in_tail(
    ops: i64[:, ::1], row: i64, node: i64, nodes: u64[:, ::1], origin: u64[:, ::1], offset: u64[:, ::1], temporary: i64
) -> cython.int:
    """Do an operation of a tail. What is loaded becomes `node`: it equals no other value."""
    kind: i64 = ops[row, op.KIND]
    a: i64 = ops[row, op.A]
    b: i64 = ops[row, op.B]
    c: i64 = ops[row, op.C]
    value: u64 = as_u64(ops[row, op.VALUE])
    if kind == op.COPY or kind == op.ADD or kind == op.CONST:
        assign(ops, row, origin, offset)
    elif kind == op.LOAD:
        nodes[node, 0] = LOADED
        nodes[node, 1] = 0 if b < 0 else origin[0, b]
        nodes[node, 2] = value if b < 0 else (offset[0, b] + value) & MASK
        origin[0, a] = NODE + node
        offset[0, a] = 0
    elif kind == op.SUM and (origin[0, b] == 0 or origin[0, c] == 0):
        value = (offset[0, b] + offset[0, c] + value) & MASK
        origin[0, a] = origin[0, c] if origin[0, b] == 0 else origin[0, b]
        offset[0, a] = value
    elif kind == op.SUM or kind == op.KILL:
        forget(origin, offset, row, a if kind == op.KILL else bit(a), temporary)
    return 0


@cython.inline
def begin(out: u64[:, ::1], count: i64, kind: u64, at: u64) -> cython.int:
    """Begin the row of something that was found at an address: all other columns are 0."""
    out[count, op.FOUND] = kind
    out[count, op.FOUND_AT] = at
    out[count, op.FOUND_SLOT] = 0
    out[count, op.FOUND_STACK] = 0
    out[count, op.FOUND_MORE] = 0
    out[count, op.FOUND_ROOT] = 0
    out[count, op.FOUND_LOADS] = 0
    return 0


@cython.inline
def is_argument(x: u64, arguments: i64) -> cython.bint:
    """Return whether an origin is what one of these registers held on entry."""
    return x > 0 and x <= 64 and arguments >> (x - 1) & 1


@cython.inline
def store_object(
    nodes: u64[:, ::1], origin: u64[:, ::1], offset: u64[:, ::1], x: u64, y: u64, out: u64[:, ::1], count: i64
) -> cython.int:
    """Store how the object with origin x and offset y is found from what a register holds on entry."""
    loads: i64 = 0
    i: i64
    value: u64 = x
    while loads <= op.LOADS_MAX and kind_of(nodes, value) == LOADED:
        value = start_of(origin, offset, nodes[value - NODE, 1])
        loads += 1
    if loads > op.LOADS_MAX or value == 0 or value > 64:
        return 0
    out[count, op.FOUND_ROOT] = value
    out[count, op.FOUND_LOADS] = as_u64(loads)
    i = op.FOUND_OFFSET + loads
    out[count, i] = y
    while i > op.FOUND_OFFSET:
        i -= 1
        value = start_of(origin, offset, nodes[x - NODE, 1])
        out[count, i] = nodes[x - NODE, 2] if value == nodes[x - NODE, 1] else op.ANY_ELEMENT
        x = value
    return 0


@cython.inline
def store_slot(
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    register: i64,
    machine: cython.const[i64][::1],
    out: u64[:, ::1],
    count: i64,
) -> cython.int:
    """Store 1 + the slot of the object's vtable that a register was loaded from, if it was; and where the object is."""
    x: u64 = origin[0, register]
    first: i64 = machine[op.FIRST_ARGUMENT]
    second: i64 = machine[op.SECOND_ARGUMENT]
    table: u64
    place: u64
    y: u64
    is_first: cython.bint
    if offset[0, register] != 0 or kind_of(nodes, x) != LOADED:
        return 0
    table = nodes[x - NODE, 1]
    place = nodes[x - NODE, 2]
    if kind_of(nodes, table) != LOADED or place & 7 != 0 or place >> 3 >= SLOT_LIMIT:
        return 0
    x = nodes[table - NODE, 1]
    y = nodes[table - NODE, 2]
    is_first = origin[0, first] == x and offset[0, first] == y
    if not is_first and (second < 0 or origin[0, second] != x or offset[0, second] != y):
        return 0
    out[count, op.FOUND_SLOT] = (place >> 3) + 1
    store_object(nodes, origin, offset, x, y, out, count)
    return 0


@cython.inline
def store_holders(
    ops: i64[:, ::1],
    row: i64,
    start: i64,
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.int:
    """Store which registers point to the object of the call or jump that was stored last, or into it."""
    count: i64 = result[op.FOUND_COUNT]
    register: i64 = 0
    table: u64
    if out[count - 1, op.FOUND_SLOT] == 0:
        return 0
    table = nodes[origin[0, ops[row, op.B]] - NODE, 1]
    while register < origin.shape[1] - 1:
        if origin[0, register] == nodes[table - NODE, 1] and origin[0, register] != 0:
            if count >= out.shape[0]:
                result[op.SHORT_OF] = op.FOUND_ROWS
                return 0
            begin(out, count, op.HOLDS_OBJECT, start + ops[row, op.AT])
            out[count, op.FOUND_MORE] = ops[row, op.VALUE]
            out[count, op.FOUND_ROOT] = 1 + register
            out[count, op.FOUND_OFFSET] = (nodes[table - NODE, 2] - offset[0, register]) & MASK
            count += 1
        register += 1
    result[op.FOUND_COUNT] = count
    return 0


@cython.inline
def store_call(
    ops: i64[:, ::1],
    row: i64,
    start: i64,
    machine: cython.const[i64][::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.int:
    """Store a call of a value."""
    count: i64 = result[op.FOUND_COUNT]
    begin(out, count, op.CALLS_VALUE, start + ops[row, op.AT] + ops[row, op.VALUE])
    store_slot(nodes, origin, offset, ops[row, op.B], machine, out, count)
    result[op.FOUND_COUNT] += 1
    store_holders(ops, row, start, nodes, origin, offset, out, result)
    store_function(ops, row, start, nodes, origin, offset, out, result)
    return 0


@cython.inline
def store_function(
    ops: i64[:, ::1],
    row: i64,
    start: i64,
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.int:
    """Store which function a call calls, or which fixed place holds its address, where one instruction says so."""
    count: i64 = result[op.FOUND_COUNT]
    register: i64 = ops[row, op.B]
    x: u64 = origin[0, register]
    code: u64 = kind_of(nodes, x)
    if offset[0, register] != 0 or code != FUNCTION and (code != LOADED or nodes[x - NODE, 1] != 0):
        return 0
    if count >= out.shape[0]:
        result[op.SHORT_OF] = op.FOUND_ROWS
        return 0
    begin(
        out, count, op.CALLS_FUNCTION if code == FUNCTION else op.CALLS_FIXED,
        as_u64(start + ops[row, op.AT] + ops[row, op.VALUE]),
    )  # fmt: skip
    out[count, op.FOUND_SLOT] = nodes[x - NODE, 1] if code == FUNCTION else nodes[x - NODE, 2]
    out[count, op.FOUND_MORE] = as_u64(start + ops[x - NODE, op.AT])
    result[op.FOUND_COUNT] += 1
    return 0


@cython.inline
def store_jump(
    ops: i64[:, ::1],
    row: i64,
    start: i64,
    machine: cython.const[i64][::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.int:
    """Store a jump to a value."""
    count: i64 = result[op.FOUND_COUNT]
    b: i64 = ops[row, op.B]
    sp: i64 = machine[op.STACK_POINTER]
    x: u64 = origin[0, b]
    code: u64 = kind_of(nodes, x)
    stack: u64 = op.UNKNOWN
    if origin[0, sp] == as_u64(1 + sp):
        stack = op.AS_ON_ENTRY if offset[0, sp] == 0 else op.MOVED
    begin(out, count, op.JUMPS_TO_VALUE, start + ops[row, op.AT])
    out[count, op.FOUND_STACK] = stack
    if code & 0xFF == FROM_TABLE and nodes[x - NODE, 1] == MASK:
        out[count, op.FOUND_STACK] = op.MOVED
    elif code & 0xFF == FROM_TABLE:
        out[count, op.FOUND] = op.JUMPS_BY_TABLE
        out[count, op.FOUND_SLOT] = nodes[x - NODE, 1]
        out[count, op.FOUND_STACK] = code >> 8
        out[count, op.FOUND_MORE] = offset[0, b]
    elif code == LOADED and offset[0, b] == 0 and nodes[x - NODE, 1] == 0:
        out[count, op.FOUND] = op.JUMPS_TO_FIXED
        out[count, op.FOUND_SLOT] = nodes[x - NODE, 2]
    else:
        store_slot(nodes, origin, offset, b, machine, out, count)
        if code == LOADED and offset[0, b] == 0 and is_argument(nodes[x - NODE, 1], machine[op.ARGUMENTS]):
            out[count, op.FOUND_MORE] = nodes[x - NODE, 2] != op.ANY_ELEMENT
    result[op.FOUND_COUNT] += 1
    if out[count, op.FOUND] == op.JUMPS_TO_VALUE:
        store_holders(ops, row, start, nodes, origin, offset, out, result)
    return 0


@cython.inline
def store_joined(
    ops: i64[:, ::1],
    row: i64,
    end: i64,
    start: i64,
    machine: cython.const[i64][::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.int:
    """Store what a jump to a value is on the current path, where that meets others at `row`."""
    last: i64 = tail_end(ops, row, end)
    temporary: i64 = machine[op.REGISTER_COUNT] - 1
    kept: i64 = origin.shape[0] - 1
    sp: i64 = machine[op.STACK_POINTER]
    count: i64 = result[op.FOUND_COUNT]
    node: i64 = nodes.shape[0] - op.TAIL_ROWS
    register: i64 = 0
    is_as_on_entry: cython.bint
    if last < 0:
        return 0
    if count >= out.shape[0]:
        result[op.SHORT_OF] = op.FOUND_ROWS
        return 0
    while register <= temporary:
        origin[kept, register] = origin[0, register]
        offset[kept, register] = offset[0, register]
        register += 1
    while row < last:
        do_in_tail(ops, row, node, nodes, origin, offset, temporary)
        row += 1
        node += 1
    begin(out, count, op.JOINS_VALUE, start + ops[last, op.AT])
    is_as_on_entry = origin[0, sp] == as_u64(1 + sp) and offset[0, sp] == 0
    out[count, op.FOUND_STACK] = op.AS_ON_ENTRY if is_as_on_entry else op.UNKNOWN
    store_slot(nodes, origin, offset, ops[last, op.B], machine, out, count)
    result[op.FOUND_COUNT] += 1
    register = 0
    while register <= temporary:
        origin[0, register] = origin[kept, register]
        offset[0, register] = offset[kept, register]
        register += 1
    return 0
