# cython: language_level=3, boundscheck=True, wraparound=False
"""Follows values through functions, to say where their calls and jumps through registers load the target from.

The functions come as operations (icf.code._x86_64, icf.code._aarch64). A value is a number, its *origin*, and a
constant that is added to it. Origins are: 0, so that constants are values too; what a register held on entry; the
result of one operation, such as a load; and "the register at this label", where paths meet with different values. Two
values are equal if origin and constant are; nothing else is ever assumed to be equal.

    mov  (%rbx), %rax         rax = load 1: of (origin of rbx) + 0
    mov  %rbx, %rdi           rdi = origin of rbx + 0
    call *16(%rax)            target = load 2: of load 1 + 16: slot 2, as rdi is what load 1 was loaded from

A call or jump takes slot k if its target was loaded from 8 * k behind a pointer that was loaded from where the first
argument points to.

Paths. A label is where a jump inside of the function goes. It has what all paths to it agree in; the operations are
gone through in the order of the code, again and again until a pass changes no label behind it. States only lose
facts, so that ends; PASSES bounds it, and where they do not suffice all labels forget everything. Code that nobody is
known to jump to (landing pads of exceptions) starts with nothing known. An origin that is the result of an
operation in a loop never meets its own successor: the label that the loop is entered by joins the path from outside,
which cannot have it. What follows a call that never returns is reached in other ways, or not at all.

Memory: the values last loaded or stored are remembered up to the next label, call, or store that may overlap; a
store at a known distance from the same origin does not.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK = 0xFFFFFFFFFFFFFFFF
ONE = 1
PASSES = 12
KEEP = 16  # values in memory, and sums, that are remembered
NODE = 1 << 56  # origins: result of an operation, NODE + row
LOST = 2 << 56  # a register that changed, LOST + row * 64 + register
MET = 3 << 56  # a register where paths meet, MET + row * 64 + register
SLOT_LIMIT = 1 << 20
LOAD, SUM, TABLE = 1, 2, 3  # results: of a load, of an addition, of a load from a constant table


def follow(ops, first_row, functions, first, last, machine, entries, edges, endless, label, nodes, origin, offset,
           memory, out, status, result):  # fmt: skip
    """Follow the functions first..last, whose operations are in `ops`, as many as fit.

    first_row  i64[n + 1]: first row of each function in `ops`
    functions  i64[n, 2]: start and end
    machine    i64[7]: registers (the last is none of the machine's), stack pointer, first argument, second
               argument if it may be the object, else -1, bits of the registers that calls keep; 1 to follow the
               code that nobody is known to jump to; bits of the registers that hold arguments
    entries    i64[m]: addresses where other code may jump in, ascending
    edges      i64[m, 2]: jumps of switch tables and where they lead, ascending
    endless    i64[m]: functions that do not return, ascending
    label, nodes, origin, offset, memory
               scratch: i64[rows], u64[rows, 3], u64[labels, registers] twice, u64[2 * KEEP, 4]
    out        u64[m, 5]: kind, address, and
                 1  call of a value: the address is its end; slot + 1 or 0
                 2  jump to a value: slot + 1 or 0; 0 if the stack pointer is as on entry, 1 if not or if the value
                    comes from a table that is not known, 2 if nobody knows; 1 if it was loaded from where an
                    argument points to, else 0
                 3  jump by a table: where that is; size of its entries (+ 16: signed, + 32: times 4); what they add to
                 4  jump to what a fixed place holds: the place; stack pointer as above
    status     u8[n]: bit 0 the function could not be read, 1 paths were not followed
    result     i64[3]: the function to go on with; rows of `out`; what was too small: 1 origin, 2 out
    """
    temporary = machine[0] - 1
    sp = machine[1]
    first_argument = machine[2]
    second_argument = machine[3]
    kept = machine[4]
    everything = machine[5]
    arguments = machine[6]
    count = 0
    f = first
    result[2] = 0
    with cython.nogil:
        while f < last:
            begin = first_row[f]
            end = first_row[f + 1]
            start = functions[f, 0]
            row = begin
            while row < end and ops[row, 0] != 11 and ops[row, 0] != 14 and ops[row, 0] != 16:
                row += 1
            if row == end:  # nothing to ask: what looked like a call or jump was in an operand
                f += 1
                continue
            if mark_labels(ops, begin, end, start, functions[f, 1] - start, entries, edges, endless, label, origin) < 0:
                result[2] = 1
                break
            before = count
            status[f] = 0
            passes = 0
            changed = 1
            while changed and result[2] == 0:
                changed = 0
                count = before
                live = 1
                known = 0  # rows of `memory` with values; and behind KEEP, with sums
                sums = 0
                r = 0
                while r < temporary:
                    origin[0, r] = 1 + r
                    offset[0, r] = 0
                    r += 1
                row = begin
                while row < end:
                    here = label[row]
                    if here != 0:
                        if live:
                            meet(origin, offset, here, temporary)
                        live = 1 if origin[here, temporary] != 0 else 0
                        known = 0
                        if live:
                            enter(origin, offset, here, row, temporary)
                    elif live == 0 and everything and row > begin and is_end(ops[row - 1, 0]):
                        live = 1
                        known = 0
                        forget(origin, offset, row, -1, temporary)
                    if live == 0:
                        row += 1
                        continue
                    op = ops[row, 0]
                    a = ops[row, 1]
                    b = ops[row, 2]
                    c = ops[row, 3]
                    value = ops[row, 4]
                    if op == 0:
                        forget(origin, offset, row, a, temporary)
                    elif op == 1:
                        origin[0, a] = origin[0, b]
                        offset[0, a] = offset[0, b]
                    elif op == 2:
                        origin[0, a] = origin[0, b]
                        offset[0, a] = (offset[0, b] + as_u64(value)) & MASK
                    elif op == 4:
                        origin[0, a] = 0
                        offset[0, a] = as_u64(value)
                    elif op == 3:
                        x = origin[0, b]
                        y = origin[0, c]
                        total = (offset[0, b] + offset[0, c] + as_u64(value)) & MASK
                        if x > y:
                            x = origin[0, c]
                            y = origin[0, b]
                        if x != 0 and (kind_of(nodes, x) & 0xFF == TABLE or kind_of(nodes, y) & 0xFF == TABLE):
                            changed |= note(nodes, row, TABLE, MASK, 0) & (passes > 0)
                            y = NODE + row
                        elif x != 0:
                            i = KEEP
                            while i < KEEP + KEEP and i < KEEP + sums and (memory[i, 0] != x or memory[i, 1] != y):
                                i += 1
                            if i == KEEP + KEEP or i == KEEP + sums:
                                changed |= note(nodes, row, SUM, x, y) & (passes > 0)
                                i = KEEP + sums % KEEP
                                sums += 1
                                memory[i, 0] = x
                                memory[i, 1] = y
                                memory[i, 2] = NODE + row
                            y = memory[i, 2]
                        origin[0, a] = y
                        offset[0, a] = total
                    elif op == 5:
                        x = 0 if b < 0 else origin[0, b]
                        total = as_u64(value) if b < 0 else (offset[0, b] + as_u64(value)) & MASK
                        i = 0
                        while i < KEEP and i < known and (memory[i, 0] != x or memory[i, 1] != total):
                            i += 1
                        if i == KEEP or i == known:
                            changed |= note(nodes, row, LOAD, x, total) & (passes > 0)
                            i = known % KEEP
                            known += 1
                            memory[i, 0] = x
                            memory[i, 1] = total
                            memory[i, 2] = NODE + row
                            memory[i, 3] = 0
                        origin[0, a] = memory[i, 2]
                        offset[0, a] = memory[i, 3]
                    elif op == 6:
                        total = as_u64(value) if b < 0 else (offset[0, b] + as_u64(value)) & MASK
                        if b >= 0 and origin[0, b] != 0:
                            total = MASK
                        if total == MASK and c & 15 == 8:
                            forget(origin, offset, row, ONE << a, temporary)
                        else:
                            changed |= note(nodes, row, TABLE + (c << 8), total, 0) & (passes > 0)
                            origin[0, a] = NODE + row
                            offset[0, a] = 0
                    elif op == 7:
                        x = origin[0, c]
                        if offset[0, c] == 0 and kind_of(nodes, x) & 0xFF == TABLE and value & 61 == 0:
                            total = nodes[x - NODE, 1] if origin[0, b] == 0 else MASK
                            code = nodes[x - NODE, 0]
                            if value & 63 == 2:
                                code |= 32 << 8
                            if value & 256:
                                code |= 16 << 8
                            changed |= note(nodes, row, code, total, 0) & (passes > 0)
                            offset[0, a] = offset[0, b]
                            origin[0, a] = NODE + row
                        else:
                            forget(origin, offset, row, ONE << a, temporary)
                    elif op == 8:
                        x = 0 if b < 0 else origin[0, b]
                        total = as_u64(value) if b < 0 else (offset[0, b] + as_u64(value)) & MASK
                        i = known if known < KEEP else KEEP
                        known = i
                        while i > 0:  # what may overlap is forgotten
                            i -= 1
                            if (
                                memory[i, 0] != x
                                or (memory[i, 1] - total) & MASK < as_u64(a)
                                or (total - memory[i, 1]) & MASK < 8
                            ):
                                known -= 1
                                r = 0
                                while r < 4:
                                    memory[i, r] = memory[known, r]
                                    r += 1
                        if c >= 0:
                            i = known % KEEP
                            known += 1
                            memory[i, 0] = x
                            memory[i, 1] = total
                            memory[i, 2] = origin[0, c]
                            memory[i, 3] = offset[0, c]
                    elif op == 9:
                        known = 0
                    elif op == 10 or op == 11:
                        if op == 11:
                            if count >= out.shape[0]:
                                result[2] = 2
                                break
                            out[count, 0] = 1
                            out[count, 1] = start + ops[row, 5] + value
                            out[count, 2] = slot(nodes, origin, offset, b, first_argument, second_argument)
                            out[count, 3] = 0
                            out[count, 4] = 0
                            count += 1
                        forget(origin, offset, row, ~kept, temporary)
                        known = 0
                        if op == 10 and c >= 0:  # into the function itself: nothing is known of either path
                            changed |= unknown(origin, label[c], temporary)
                            forget(origin, offset, row, -1, temporary)
                    elif op == 12 or op == 13:
                        if c >= 0 and meet(origin, offset, label[c], temporary) and c <= row:
                            changed = 1
                        if op == 12:
                            live = 0
                    elif op == 14:
                        if count >= out.shape[0]:
                            result[2] = 2
                            break
                        stack = 2
                        if origin[0, sp] == as_u64(1 + sp):
                            stack = 0 if offset[0, sp] == 0 else 1
                        x = origin[0, b]
                        code = kind_of(nodes, x)
                        out[count, 1] = start + ops[row, 5]
                        out[count, 4] = 0
                        if code & 0xFF == TABLE and nodes[x - NODE, 1] == MASK:
                            out[count, 0] = 2
                            out[count, 2] = 0
                            out[count, 3] = 1
                        elif code & 0xFF == TABLE:
                            out[count, 0] = 3
                            out[count, 2] = nodes[x - NODE, 1]
                            out[count, 3] = code >> 8
                            out[count, 4] = offset[0, b]
                        elif code == LOAD and offset[0, b] == 0 and nodes[x - NODE, 1] == 0:
                            out[count, 0] = 4
                            out[count, 2] = nodes[x - NODE, 2]
                            out[count, 3] = stack
                        else:
                            out[count, 0] = 2
                            out[count, 2] = slot(nodes, origin, offset, b, first_argument, second_argument)
                            out[count, 3] = stack
                            if code == LOAD and offset[0, b] == 0 and is_argument(nodes[x - NODE, 1], arguments):
                                out[count, 4] = 1
                        count += 1
                        i = lower_edge(edges, start + ops[row, 5])
                        while i < edges.shape[0] and edges[i, 0] == start + ops[row, 5]:
                            c = row_at(ops, begin, end, edges[i, 1] - start)
                            if meet(origin, offset, label[c], temporary) and c <= row:
                                changed = 1
                            i += 1
                        live = 0
                    elif op == 15:
                        live = 0
                    elif op == 16:
                        status[f] |= 1
                        live = 0
                    else:
                        forget(origin, offset, row, -1, temporary)
                        known = 0
                    row += 1
                passes += 1
                if status[f] & 2:
                    changed = 0
                elif result[2] == 0:
                    a = passes >= PASSES
                    b = changed
                    row = begin
                    while row < end:
                        if label[row] != 0 and (a and b or everything > b and origin[label[row], temporary] == 0):
                            unknown(origin, label[row], temporary)
                            changed = 1
                        row += 1
                    if a and b:
                        status[f] |= 2
            if result[2] != 0:
                count = before
                break
            f += 1
        result[0] = f
        result[1] = count
    return 0


def mark_labels(ops, begin, end, start, size, entries, edges, endless, label, origin):
    """Number the rows that jumps lead to; the jumps get their row, -1 if they leave. Gives -1 if there are too many."""
    labels = 0
    temporary = origin.shape[1] - 1
    row = begin
    while row < end:
        label[row] = 0
        row += 1
    row = begin
    while row < end:
        op = ops[row, 0]
        target = ops[row, 4]
        if op == 12 or op == 13 or op == 10:
            ops[row, 3] = -1
            if op == 10:
                i = lower(endless, start + target)
                if i < endless.shape[0] and endless[i] == start + target:
                    ops[row, 0] = 15
            if (target > 0 or target == 0 and op != 10) and target < size:
                ops[row, 3] = row_at(ops, begin, end, target)
                labels = new_label(label, origin, ops[row, 3], labels, temporary)
        elif op == 14:
            i = lower_edge(edges, start + ops[row, 5])
            while i < edges.shape[0] and edges[i, 0] == start + ops[row, 5] and labels >= 0:
                labels = new_label(label, origin, row_at(ops, begin, end, edges[i, 1] - start), labels, temporary)
                i += 1
        if labels < 0:
            return -1
        row += 1
    i = lower(entries, start + 1)
    while i < entries.shape[0] and entries[i] < start + size:
        row = row_at(ops, begin, end, entries[i] - start)
        labels = new_label(label, origin, row, labels, temporary)
        if labels < 0:
            return -1
        unknown(origin, label[row], temporary)
        i += 1
    return labels


def new_label(label, origin, row, labels, temporary):
    if label[row] != 0:
        return labels
    if labels + 1 >= origin.shape[0]:
        return -1
    label[row] = labels + 1
    origin[labels + 1, temporary] = 0
    return labels + 1


def row_at(ops, begin, end, at):
    """The first row at an offset, or behind it; the last row of a function stands at its end."""
    low = begin
    high = end - 1
    while low < high:
        middle = (low + high) // 2
        if ops[middle, 5] < at:
            low = middle + 1
        else:
            high = middle
    return low


def lower(values, value):
    low = 0
    high = values.shape[0]
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def lower_edge(edges, value):
    low = 0
    high = edges.shape[0]
    while low < high:
        middle = (low + high) // 2
        if edges[middle, 0] < value:
            low = middle + 1
        else:
            high = middle
    return low


def is_end(op):
    return op == 12 or op == 14 or op == 15 or op == 16


def as_u64(value):
    """A number of 64 bits without its sign."""
    return value & MASK


def forget(origin, offset, row, mask, temporary):
    """The registers with a bit in `mask` hold something new."""
    r = 0
    while r <= temporary and mask >> r != 0:
        if mask >> r & 1:
            origin[0, r] = LOST + (row << 6) + r
            offset[0, r] = 0
        r += 1
    return 0


def unknown(origin, here, temporary):
    """Nothing is known at a label; gives 1 if that is news."""
    news = 1 - origin[here, temporary]
    r = 0
    while r < temporary:
        if origin[here, r] != MASK:
            news = 1
        origin[here, r] = MASK
        r += 1
    origin[here, temporary] = 1
    return news


def meet(origin, offset, here, temporary):
    """The current values come to a label; gives 1 if it loses facts, or is reached for the first time."""
    news = 0
    r = 0
    if origin[here, temporary] == 0:
        origin[here, temporary] = 1
        while r < temporary:
            origin[here, r] = origin[0, r]
            offset[here, r] = offset[0, r]
            r += 1
        return 1
    while r < temporary:
        if origin[here, r] != MASK and (origin[here, r] != origin[0, r] or offset[here, r] != offset[0, r]):
            origin[here, r] = MASK
            news = 1
        r += 1
    return news


def enter(origin, offset, here, row, temporary):
    """Go on with what is known at a label."""
    r = 0
    while r < temporary:
        if origin[here, r] == MASK:
            origin[0, r] = MET + (row << 6) + r
            offset[0, r] = 0
        else:
            origin[0, r] = origin[here, r]
            offset[0, r] = offset[here, r]
        r += 1
    return 0


def note(nodes, row, kind, x, y):
    """Store what the result of an operation is; gives 1 if it was something else."""
    news = 1 if nodes[row, 0] != kind or nodes[row, 1] != x or nodes[row, 2] != y else 0
    nodes[row, 0] = kind
    nodes[row, 1] = x
    nodes[row, 2] = y
    return news


def kind_of(nodes, x):
    """What kind of result an origin is, 0 if it is none."""
    return nodes[x - NODE, 0] if x >> 56 == 1 else 0


def is_argument(x, arguments):
    """Whether an origin is what one of these registers held on entry."""
    return 0 < x <= 64 and arguments >> (x - 1) & 1


def slot(nodes, origin, offset, register, first_argument, second_argument):
    """1 + the slot of the object's vtable that a register was loaded from, else 0."""
    x = origin[0, register]
    if offset[0, register] != 0 or kind_of(nodes, x) != LOAD:
        return 0
    table = nodes[x - NODE, 1]
    place = nodes[x - NODE, 2]
    if kind_of(nodes, table) != LOAD or place & 7 != 0 or place >> 3 >= SLOT_LIMIT:
        return 0
    x = nodes[table - NODE, 1]
    y = nodes[table - NODE, 2]
    if origin[0, first_argument] == x and offset[0, first_argument] == y:
        return (place >> 3) + 1
    if second_argument >= 0 and origin[0, second_argument] == x and offset[0, second_argument] == y:
        return (place >> 3) + 1
    return 0
