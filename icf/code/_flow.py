# cython: language_level=3, boundscheck=True, wraparound=False
"""Follows values through functions, to find from where calls and jumps through registers load their target.

The functions come as operations (icf.code._x86_64, icf.code._aarch64). A value is a number, its *origin*, and a
constant that is added to it. Origins are: 0, so that constants are values too; the value of a register on entry; the
result of one operation, such as a load; and "the register at this label", where paths meet with different values. The
address of a function is the result of the operation that forms it, and no constant. Two
values are equal if origin and constant are; no other values are ever assumed to be equal.

    mov  (%rbx), %rax         rax = load 1: of (origin of rbx) + 0
    mov  %rbx, %rdi           rdi = origin of rbx + 0
    call *16(%rax)            target = load 2: of load 1 + 16: slot 2, as rdi is what load 1 was loaded from

A call or jump takes slot k if its target was loaded from 8 * k after a pointer that was loaded from where the first
argument points to.

Paths. A label is the target of a jump inside of the function. It keeps the facts in which all paths to it agree. The
kernel goes through the operations in the order of the code, again and again until a pass changes no label before its
place. States only drop facts, so that ends; PASSES bounds it, and if they do not suffice all labels forget everything.
Code to which no known jump leads starts without facts. Landing pads of exceptions are labels where the caller knows
them. An origin that is the result of an
operation in a loop never meets its own successor: the label at which the loop is entered joins the path from outside,
which cannot have it. The code after a call that never returns is reached on other paths, or not at all.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import i64, u64
    from cython.cimports.icf.code import operations as op
    from cython.cimports.icf.code._findings import store_call, store_joined, store_jump, tail_end
    from cython.cimports.icf.code._paths import (
        PASSES,
        enter,
        first_at,
        first_edge,
        forget,
        meet,
        new_label,
        row_at,
        unknown,
    )
    from cython.cimports.icf.code._values import add, add_scaled, assign, form, load, load_indexed, store
else:
    from icf._types import i64, u64
    from icf.code import operations as op
    from icf.code._findings import store_call, store_joined, store_jump, tail_end
    from icf.code._paths import (
        PASSES,
        enter,
        first_at,
        first_edge,
        forget,
        meet,
        new_label,
        row_at,
        unknown,
    )
    from icf.code._values import add, add_scaled, assign, form, load, load_indexed, store


@cython.ccall
def follow(
    ops: i64[:, ::1],
    first_row: cython.const[i64][::1],
    functions: cython.const[i64][:, ::1],
    first: i64,
    last: i64,
    machine: cython.const[i64][::1],
    entries: cython.const[i64][::1],
    edges: cython.const[i64][:, ::1],
    endless: cython.const[i64][::1],
    keepers: cython.const[i64][::1],
    starts: cython.const[i64][::1],
    label: i64[::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    memory: u64[:, ::1],
    out: u64[:, ::1],
    status: cython.uchar[::1],
    result: i64[::1],
) -> cython.int:
    """Follow the functions first..last, whose operations are in `ops`, as many as fit.

    first_row  i64[n + 1]: first row of each function in `ops`
    functions  i64[n, 2]: start and end
    machine    i64[7]: REGISTER_COUNT (the last is none of the machine's), STACK_POINTER, FIRST_ARGUMENT,
               SECOND_ARGUMENT if it may be the object, else -1, KEPT: bits of the registers that calls keep;
               EVERYTHING: 1 to follow the code to which no jump is known; ARGUMENTS: bits of registers
    entries    i64[m]: addresses where other code may jump in, ascending
    edges      i64[m, 2]: jumps of switch tables and where they lead, ascending
    endless    i64[m]: functions that do not return, ascending
    keepers    i64[m]: what keeps registers when it is called, ascending; empty: everything
    starts     i64[m]: functions whose address may be formed, ascending
    label, nodes, origin, offset, memory
               scratch: i64[rows], u64[rows + TAIL_ROWS, 3], u64[labels, registers] twice, u64[2 * KEEP, 4]
    out        u64[m, FOUND_COLUMN_COUNT]: what is found
    status     u8[n]: UNREADABLE, NOT_FOLLOWED
    result     i64[RESULT_SIZE]
    """
    count: i64 = 0
    f: i64 = first
    begin: i64
    end: i64
    before: i64
    passes: cython.int
    is_changed: cython.bint
    result[op.SHORT_OF] = 0
    with cython.nogil:
        while f < last:
            begin = first_row[f]
            end = first_row[f + 1]
            if not has_questions(ops, begin, end):
                f += 1
                continue
            if mark_labels(ops, begin, end, functions, f, entries, edges, endless, keepers, label, origin) < 0:
                result[op.SHORT_OF] = op.LABELS
                break
            before = count
            status[f] = 0
            passes = 0
            is_changed = True
            while is_changed and result[op.SHORT_OF] == 0:
                result[op.FOUND_COUNT] = before
                is_changed = run_pass(
                    ops, begin, end, functions[f, 0], machine, edges, starts, label, nodes, origin, offset, memory, out,
                    status, f, result, passes == 0,
                )  # fmt: skip
                passes += 1
                if status[f] & op.NOT_FOLLOWED:
                    is_changed = False
                elif result[op.SHORT_OF] == 0:
                    if passes >= PASSES and is_changed:
                        give_up(begin, end, label, origin)
                        status[f] |= op.NOT_FOLLOWED
                    elif machine[op.EVERYTHING] and not is_changed:
                        is_changed = enter_unreached(begin, end, label, origin)
            if result[op.SHORT_OF] != 0:
                count = before
                break
            count = result[op.FOUND_COUNT]
            f += 1
        result[op.NEXT] = f
        result[op.FOUND_COUNT] = count
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
def has_questions(ops: i64[:, ::1], begin: i64, end: i64) -> cython.bint:
    """Return whether there is a call or jump through a register; the caller's byte search also hits operands."""
    while begin < end:
        if ops[begin, op.KIND] == op.CALL_VALUE or ops[begin, op.KIND] == op.JUMP_VALUE:
            return True
        if ops[begin, op.KIND] == op.BAD:
            return True
        begin += 1
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(-2)
def mark_labels(
    ops: i64[:, ::1],
    begin: i64,
    end: i64,
    functions: cython.const[i64][:, ::1],
    f: i64,
    entries: cython.const[i64][::1],
    edges: cython.const[i64][:, ::1],
    endless: cython.const[i64][::1],
    keepers: cython.const[i64][::1],
    label: i64[::1],
    origin: u64[:, ::1],
) -> i64:
    """Store in each jump the number of the row that it leads to, -1 outside.

    Return the count of these rows, -1 for too many.
    """
    start: i64 = functions[f, 0]
    size: i64 = functions[f, 1] - start
    temporary: i64 = origin.shape[1] - 1
    labels: i64 = 0
    row: i64 = begin
    kind: i64
    target: i64
    i: i64
    while row < end:
        label[row] = 0
        row += 1
    row = begin
    while row < end and labels >= 0:
        kind = ops[row, op.KIND]
        target = ops[row, op.VALUE]
        if kind == op.JUMP or kind == op.BRANCH or kind == op.CALL:
            ops[row, op.C] = -1
            if kind == op.CALL:
                i = first_at(endless, start + target)
                if i < endless.shape[0] and endless[i] == start + target:
                    ops[row, op.KIND] = op.STOP
                i = first_at(keepers, start + target)
                if keepers.shape[0] > 0 and (i >= keepers.shape[0] or keepers[i] != start + target):
                    ops[row, op.KIND] = op.FORGET
            if (target > 0 or target == 0 and kind != op.CALL) and target < size:
                ops[row, op.C] = row_at(ops, begin, end, target)
                labels = new_label(label, origin, ops[row, op.C], labels, temporary)
        elif kind == op.JUMP_VALUE:
            i = first_edge(edges, start + ops[row, op.AT])
            while i < edges.shape[0] and edges[i, 0] == start + ops[row, op.AT] and labels >= 0:
                labels = new_label(label, origin, row_at(ops, begin, end, edges[i, 1] - start), labels, temporary)
                i += 1
        row += 1
    i = first_at(entries, start + 1)
    while i < entries.shape[0] and entries[i] < start + size and labels >= 0:
        row = row_at(ops, begin, end, entries[i] - start)
        labels = new_label(label, origin, row, labels, temporary)
        if labels >= 0:
            unknown(origin, label[row], temporary)
        i += 1
    return labels if labels >= 0 else -1


@cython.cfunc
@cython.nogil
def give_up(begin: i64, end: i64, label: i64[::1], origin: u64[:, ::1]) -> cython.int:
    """Store that no facts hold at any label."""
    while begin < end:
        if label[begin] != 0:
            unknown(origin, label[begin], origin.shape[1] - 1)
        begin += 1
    return 0


@cython.cfunc
@cython.nogil
def enter_unreached(begin: i64, end: i64, label: i64[::1], origin: u64[:, ::1]) -> cython.bint:
    """Store that no facts hold at the labels that no path has reached; return whether there are any."""
    found: cython.bint = False
    temporary: i64 = origin.shape[1] - 1
    while begin < end:
        if label[begin] != 0 and origin[label[begin], temporary] == 0:
            unknown(origin, label[begin], temporary)
            found = True
        begin += 1
    return found


@cython.cfunc
@cython.nogil
def run_pass(
    ops: i64[:, ::1],
    begin: i64,
    end: i64,
    start: i64,
    machine: cython.const[i64][::1],
    edges: cython.const[i64][:, ::1],
    starts: cython.const[i64][::1],
    label: i64[::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    memory: u64[:, ::1],
    out: u64[:, ::1],
    status: cython.uchar[::1],
    f: i64,
    result: i64[::1],
    is_first: cython.bint,
) -> cython.bint:
    """Go through the operations of a function once, in order; return whether another pass is needed."""
    temporary: i64 = machine[op.REGISTER_COUNT] - 1
    is_changed: cython.bint = False
    is_live: cython.bint = True  # whether a path leads here
    is_tail: cython.bint = False  # whether each path that leads here has been followed up to a jump to a value
    is_news: cython.bint
    row: i64 = begin
    register: i64 = 0
    here: i64
    kind: i64
    a: i64
    c: i64
    result[op.KNOWN] = 0
    result[op.SUMS] = 0
    while register < temporary:
        origin[0, register] = 1 + register
        offset[0, register] = 0
        register += 1
    while row < end:
        here = label[row]
        if here != 0:
            if is_live:
                if not is_tail:
                    store_joined(ops, row, end, start, machine, nodes, origin, offset, out, result)
                meet(origin, offset, here, temporary)
            is_tail = tail_end(ops, row, end) >= 0
            is_live = origin[here, temporary] != 0
            result[op.KNOWN] = 0
            if is_live:
                enter(origin, offset, here, temporary)
        elif not is_live and machine[op.EVERYTHING] and row > begin and is_end(ops[row - 1, op.KIND]):
            is_live = True
            result[op.KNOWN] = 0
            forget(origin, offset, row, -1, temporary)
        if not is_live:
            row += 1
            continue
        kind = ops[row, op.KIND]
        a = ops[row, op.A]
        c = ops[row, op.C]
        is_news = False
        if kind == op.KILL:
            forget(origin, offset, row, a, temporary)
        elif kind == op.COPY:
            assign(ops, row, origin, offset)
        elif kind == op.ADD or kind == op.CONST:
            is_news = form(ops, row, starts, nodes, origin, offset)
        elif kind == op.SUM:
            is_news = add(ops, row, nodes, origin, offset, memory, result)
        elif kind == op.LOAD:
            is_news = load(ops, row, nodes, origin, offset, memory, result)
        elif kind == op.INDEXED:
            is_news = load_indexed(ops, row, nodes, origin, offset, temporary)
        elif kind == op.SCALED_SUM:
            is_news = add_scaled(ops, row, nodes, origin, offset, temporary)
        elif kind == op.STORE:
            store(ops, row, origin, offset, memory, result)
        elif kind == op.STORE_ANY:
            result[op.KNOWN] = 0
        elif kind == op.CALL or kind == op.CALL_VALUE:
            if kind == op.CALL_VALUE:
                if result[op.FOUND_COUNT] >= out.shape[0]:
                    result[op.SHORT_OF] = op.FOUND_ROWS
                    break
                store_call(ops, row, start, machine, nodes, origin, offset, out, result)
            forget(origin, offset, row, ~machine[op.KEPT], temporary)
            result[op.KNOWN] = 0
            if kind == op.CALL and c >= 0:  # into the function itself: no facts hold on either path
                is_changed |= unknown(origin, label[c], temporary)
                forget(origin, offset, row, -1, temporary)
        elif kind == op.JUMP or kind == op.BRANCH:
            if c >= 0:
                store_joined(ops, c, end, start, machine, nodes, origin, offset, out, result)
            if c >= 0 and meet(origin, offset, label[c], temporary) and c <= row:
                is_changed = True
            is_live = kind == op.BRANCH
        elif kind == op.JUMP_VALUE:
            if result[op.FOUND_COUNT] >= out.shape[0]:
                result[op.SHORT_OF] = op.FOUND_ROWS
                break
            store_jump(ops, row, start, machine, nodes, origin, offset, out, result)
            is_changed |= follow_edges(
                ops, row, begin, end, start, machine, edges, label, nodes, origin, offset, out, result
            )
            is_live = is_tail = False
        elif kind == op.STOP:
            is_live = False
        elif kind == op.BAD:
            status[f] |= op.UNREADABLE
            is_live = False
        else:
            forget(origin, offset, row, -1, temporary)
            result[op.KNOWN] = 0
        if result[op.SHORT_OF] != 0:
            break
        if is_news and not is_first:
            is_changed = True
        row += 1
    return is_changed


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_end(kind: i64) -> cython.bint:
    """Return whether the code goes on elsewhere after an operation."""
    return kind == op.JUMP or kind == op.JUMP_VALUE or kind == op.STOP or kind == op.BAD


@cython.cfunc
@cython.inline
@cython.nogil
def follow_edges(
    ops: i64[:, ::1],
    row: i64,
    begin: i64,
    end: i64,
    start: i64,
    machine: cython.const[i64][::1],
    edges: cython.const[i64][:, ::1],
    label: i64[::1],
    nodes: u64[:, ::1],
    origin: u64[:, ::1],
    offset: u64[:, ::1],
    out: u64[:, ::1],
    result: i64[::1],
) -> cython.bint:
    """Take the current values to the targets of a switch; return whether a label before it drops facts."""
    jump: i64 = start + ops[row, op.AT]
    i: i64 = first_edge(edges, jump)
    is_changed: cython.bint = False
    target: i64
    while i < edges.shape[0] and edges[i, 0] == jump:
        target = row_at(ops, begin, end, edges[i, 1] - start)
        store_joined(ops, target, end, start, machine, nodes, origin, offset, out, result)
        if meet(origin, offset, label[target], origin.shape[1] - 1) and target <= row:
            is_changed = True
        i += 1
    return is_changed
