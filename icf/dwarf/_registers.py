# cython: language_level=3, boundscheck=True, wraparound=False
"""Finds the variables that are in registers at some addresses: .debug_loclists (DWARF 5, 2.6.2), .debug_loc before.

    base_addressx 0, offset_pair 0x10..0x24 DW_OP_reg3      in rbx from 0x10 to 0x24 of the function

A variable counts as being in a register if its expression is DW_OP_reg0 .. DW_OP_reg31, or DW_OP_breg with offset 0 and
DW_OP_stack_value. Other expressions say that it is elsewhere, or was optimized out. A list that breaks its format ends
there.

lld leaves 0 for the address of a function whose code it folded. LLVM counts from the start of the function's section
then (base_addressx), so offsets are those in the kept body. gcc counts from where the list's first entry begins
(base_address), which is anywhere in the function: such entries say nothing.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, entry_at, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import columns as col
else:
    from icf._bytes import MASK, entry_at, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col


@cython.ccall
def read_registers(
    lists: cython.const[u64][:, ::1],
    asked: cython.const[u64][:, ::1],
    units: cython.const[u64][:, ::1],
    section: Bytes,
    addr: Bytes,
    out: u64[:, ::1],
    result: u64[::1],
) -> None:
    """Find the registers of the variables with these lists, which are all in .debug_loclists or all in .debug_loc.

    lists    u64[n, 5]: where the list is in `section`, unit, first row of `asked`, last row + 1, start of the body
    asked    u64[m, 2]: address, bits of registers
    units    as the scan leaves them
    section  bytes of the section
    out      u64[k, 3]: row of `lists`, row of `asked`, register
    result   how many rows were found, of which more than `out` has are not stored; how many lists have no end
    """
    count: cython.size_t = 0
    cut: cython.size_t = 0
    i: cython.size_t = 0
    n: cython.size_t = lists.shape[0]
    size: cython.size_t = section.shape[0]
    entries: cython.size_t = 4 * size + 64
    unit: cython.size_t
    pos: cython.size_t
    row: cython.size_t
    address_size: u64
    base: u64
    first: u64
    second: u64
    length: u64
    kind: u64
    register: u64
    is_new: cython.bint
    is_based: cython.bint  # whether it is known what offsets count from
    has_end: cython.bint
    with cython.nogil:
        while i < n:
            pos = lists[i, 0]
            unit = lists[i, 1]
            address_size = units[unit, col.ADDRESS_SIZE]
            is_new = units[unit, col.VERSION] >= 5
            base = units[unit, col.LOW_PC]
            is_based = True
            has_end = False
            while entries > 0 and pos < size:
                entries -= 1
                first = 0
                second = 0
                if is_new:
                    kind = section[pos]
                    pos += 1
                    if kind == 0 or kind == 5 or kind > 9:  # the end; what holds elsewhere
                        has_end = True
                        break
                    if kind >= 6 and kind <= 8:
                        if size - pos < address_size:
                            break
                        first = word(section, pos, address_size)
                        pos += address_size
                    else:
                        first, pos = uleb(section, pos, size)
                    if kind == 7:
                        if pos > size or size - pos < address_size:
                            break
                        second = word(section, pos, address_size)
                        pos += address_size
                    elif kind != 1 and kind != 6 and pos <= size:
                        second, pos = uleb(section, pos, size)
                    if pos > size:
                        break
                    if kind == 9:  # a pair of views
                        continue
                    if kind <= 3:
                        first = indexed(addr, units[unit, col.ADDR_BASE], first, address_size)
                    if kind == 2:
                        second = indexed(addr, units[unit, col.ADDR_BASE], second, address_size)
                    if kind == 1 or kind == 6:
                        base = first if first != 0 else lists[i, 4]
                        is_based = first != 0 or kind == 1
                        continue
                    if kind == 4:
                        first = (first + base) & MASK
                        second = (second + base) & MASK if is_based else 0
                    elif kind == 3 or kind == 8:
                        second = (first + second) & MASK
                    length, pos = uleb(section, pos, size)
                else:
                    if size - pos < 2 * address_size:
                        break
                    first = word(section, pos, address_size)
                    second = word(section, pos + address_size, address_size)
                    pos += 2 * address_size
                    if first == 0 and second == 0:
                        has_end = True
                        break
                    if first == MASK >> (64 - 8 * address_size):
                        base = second
                        continue
                    if size - pos < 2:
                        break
                    first = (first + base) & MASK
                    second = (second + base) & MASK
                    length = word(section, pos, 2)
                    pos += 2
                if pos > size or length > size - pos:
                    break
                register = register_of(section, pos, length)
                pos += length
                if register >= 64:
                    continue
                row = lists[i, 2]
                while row < lists[i, 3] and row < asked.shape[0]:
                    if first <= asked[row, 0] and asked[row, 0] < second and asked[row, 1] >> register & 1:
                        if count < out.shape[0]:
                            out[count, 0] = i
                            out[count, 1] = row
                            out[count, 2] = register
                        count += 1
                    row += 1
            if not has_end:
                cut += 1
            i += 1
    result[0] = count
    result[1] = cut


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def indexed(addr: Bytes, base: u64, index: u64, address_size: u64) -> u64:
    """Return an address of .debug_addr; 0 for an index outside of it."""
    size: cython.size_t = addr.shape[0]
    at: cython.size_t = entry_at(addr, base, index, address_size)
    return word(addr, at, address_size) if at < size else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def register_of(section: Bytes, pos: cython.size_t, length: u64) -> u64:
    """Return the register whose value is that of a variable; 64 if there is none."""
    if length == 1 and section[pos] >= 0x50 and section[pos] < 0x70:
        return section[pos] - 0x50
    if (
        length == 3
        and section[pos] >= 0x70
        and section[pos] < 0x90
        and section[pos + 1] == 0
        and section[pos + 2] == 0x9F
    ):
        return section[pos] - 0x70
    return 64
