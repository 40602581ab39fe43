"""The values of registers where paths meet: the labels of `_flow`.

Row 0 of `origin` and `offset` has the current value of each register, row n the value at label n. The last column of
`origin`, `temporary`, is set once the label has been reached.

Where paths meet whose values differ by constants alone, the label keeps the origin, with the offset VARYING: a pointer
that a loop moves through an array. The value there is a new origin, as no two of them need be equal; `start_of` returns
the old one.
"""

from __future__ import annotations

from icf._bytes import MASK
from icf._types import i64, u64
from icf.code import operations as op

try:
    import cython
except ImportError:
    from icf import _nocython as cython

NODE = 1 << 56  # origins: result of an operation, NODE + row
LOST = 2 << 56  # a register that changed: plus row * 64 + register
MET = 3 << 56  # a register where paths meet: plus label * 64 + register
VARYING = 1 << 63  # as offset at a label: several
LOADED, ADDED, FROM_TABLE = 1, 2, 3  # results: of a load, of an addition, of a load from a constant table
FUNCTION = 4  # the address of a function that an instruction forms
SLOT_LIMIT = 1 << 20
PASSES = 12


@cython.inline
def first_at(values: cython.const[i64][::1], value: i64) -> i64:
    """Return the first place of a number that is not below `value`, in ascending ones."""
    low: i64 = 0
    high: i64 = values.shape[0]
    middle: i64
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@cython.inline
def first_edge(edges: cython.const[i64][:, ::1], jump: i64) -> i64:
    """Return the first edge of a jump that is not below `jump`."""
    low: i64 = 0
    high: i64 = edges.shape[0]
    middle: i64
    while low < high:
        middle = (low + high) >> 1
        if edges[middle, 0] < jump:
            low = middle + 1
        else:
            high = middle
    return low


@cython.inline
def row_at(ops: i64[:, ::1], begin: i64, end: i64, at: i64) -> i64:
    """Return the first row at an offset, or after it; the last row of a function stands at its end."""
    low: i64 = begin
    high: i64 = end - 1
    middle: i64
    while low < high:
        middle = (low + high) >> 1
        if ops[middle, op.AT] < at:
            low = middle + 1
        else:
            high = middle
    return low


@cython.inline
def new_label(label: i64[::1], origin: u64[:, ::1], row: i64, labels: i64, temporary: i64) -> i64:
    """Number a row if it has no number yet; return how many labels there are, -2 if these are too many."""
    if label[row] != 0:
        return labels
    if labels + 2 >= origin.shape[0]:  # the last row keeps values for a while
        return -2
    label[row] = labels + 1
    origin[labels + 1, temporary] = 0
    return labels + 1


@cython.inline
def forget(origin: u64[:, ::1], offset: u64[:, ::1], row: i64, mask: i64, temporary: i64) -> cython.int:
    """Store that the registers with a bit in `mask` hold something new."""
    register: i64 = 0
    while register <= temporary and mask >> register != 0:
        if mask >> register & 1:
            origin[0, register] = LOST + (row << 6) + register
            offset[0, register] = 0
        register += 1
    return 0


@cython.inline
def unknown(origin: u64[:, ::1], here: i64, temporary: i64) -> cython.bint:
    """Store that no facts hold at a label; return whether that is a change."""
    register: i64 = 0
    news: cython.bint = origin[here, temporary] == 0
    while register < temporary:
        if origin[here, register] != MASK:
            news = True
        origin[here, register] = MASK
        register += 1
    origin[here, temporary] = 1
    return news


@cython.inline
def meet(origin: u64[:, ::1], offset: u64[:, ::1], here: i64, temporary: i64) -> cython.bint:
    """Take the current values to a label; return whether it drops facts, or is reached for the first time."""
    register: i64 = 0
    news: cython.bint = False
    if origin[here, temporary] == 0:
        origin[here, temporary] = 1
        while register < temporary:
            origin[here, register] = origin[0, register]
            offset[here, register] = offset[0, register]
            register += 1
        return True
    while register < temporary:
        if origin[here, register] != MASK and (
            origin[here, register] != origin[0, register] or offset[here, register] != offset[0, register]
        ):
            if not is_moved(origin, here, register):
                origin[here, register] = MASK
                news = True
            elif offset[here, register] != VARYING:
                offset[here, register] = VARYING
                news = True
        register += 1
    return news


@cython.inline
def is_moved(origin: u64[:, ::1], here: i64, register: i64) -> cython.bint:
    """Return whether the current value of a register, no constant, differs from that at a label by a constant alone."""
    x: u64 = origin[0, register]
    return x != 0 and (x == origin[here, register] or x == MET + (here << 6) + register)


@cython.inline
def start_of(origin: u64[:, ::1], offset: u64[:, ::1], x: u64) -> u64:
    """Return the origin from which a value has been moved by constants where paths met; else the value."""
    here: i64 = (x & (NODE - 1)) >> 6
    register: i64 = x & 63
    if x >> 56 != 3 or origin[here, register] == MASK or offset[here, register] != VARYING:
        return x
    return origin[here, register]


@cython.inline
def enter(origin: u64[:, ::1], offset: u64[:, ::1], here: i64, temporary: i64) -> cython.int:
    """Go on with the values at a label."""
    register: i64 = 0
    while register < temporary:
        if origin[here, register] == MASK or offset[here, register] == VARYING:
            origin[0, register] = MET + (here << 6) + register
            offset[0, register] = 0
        else:
            origin[0, register] = origin[here, register]
            offset[0, register] = offset[here, register]
        register += 1
    return 0


@cython.inline
def kind_of(nodes: u64[:, ::1], x: u64) -> u64:
    """Return the kind of result that an origin is, 0 if it is not a result."""
    return nodes[x - NODE, 0] if x >> 56 == 1 else 0
