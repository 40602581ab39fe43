"""The forms of attributes in bytes, and the attributes that the scan reads: the tables of its kernels.

An operation is one 32-bit word; `columns` names the numbers:

    bits  0..3   encoding: how many bytes there are and how their value is found (ENC_*)
    bits  4..8   slot that receives the value, 0 = none (AT_*)
    bits  9..13  class of the value (CLS_*)
    bits 14..31  argument: size in bytes, or index of an implicit constant among those of its table
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from icf._types import u64
from icf.columns import U8, U32
from icf.dwarf import columns as col

if TYPE_CHECKING:
    import cython
else:  # compiled kernels import this, too, and have no other need of Cython, which takes as long as argparse
    from icf import _nocython as cython

_WIDTH = 128  # forms below 64, then those of GNU from 0x1f00 on
_OFFSET, _ADDRESS, _REFERENCE = -1, -2, -3  # sizes that depend on the unit: REFERENCE is an address in DWARF 2

_FIXED = {  # class -> form: size
    col.CLS_ADDRESS: {0x01: _ADDRESS},  # addr
    col.CLS_CONSTANT: {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1},  # data1, data2, data4, data8, flag
    col.CLS_STR: {0x0E: _OFFSET},  # strp
    col.CLS_LINE_STR: {0x1F: _OFFSET},  # line_strp
    col.CLS_STR_INDEX: {0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4},  # strx1, strx2, strx3, strx4
    col.CLS_ADDRESS_INDEX: {0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4},  # addrx1, addrx2, addrx3, addrx4
    col.CLS_UNIT_REF: {0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8},  # ref1, ref2, ref4, ref8
    col.CLS_INFO_REF: {0x10: _REFERENCE},  # ref_addr
    col.CLS_OFFSET: {0x17: _OFFSET},  # sec_offset
    col.CLS_BLOCK: {0x1E: 16},  # data16
    # ref_sup4, ref_sup8, strp_sup, GNU_ref_alt, GNU_strp_alt
    col.CLS_SUP: {0x1C: 4, 0x24: 8, 0x1D: _OFFSET, 0x1F20: _OFFSET, 0x1F21: _OFFSET},
    col.CLS_SIGNATURE: {0x20: 8},  # ref_sig8
}
_OTHERS = {  # form -> encoding, class, size of the length of a block
    0x19: (col.ENC_PRESENT, col.CLS_CONSTANT, 0),  # flag_present
    0x21: (col.ENC_IMPLICIT, col.CLS_CONSTANT, 0),  # implicit_const
    0x0F: (col.ENC_ULEB, col.CLS_CONSTANT, 0),  # udata
    0x0D: (col.ENC_SLEB, col.CLS_CONSTANT, 0),  # sdata
    0x08: (col.ENC_STRING, col.CLS_STRING, 0),  # string
    0x1A: (col.ENC_ULEB, col.CLS_STR_INDEX, 0),  # strx
    0x1F02: (col.ENC_ULEB, col.CLS_STR_INDEX, 0),  # GNU_str_index
    0x1B: (col.ENC_ULEB, col.CLS_ADDRESS_INDEX, 0),  # addrx
    0x1F01: (col.ENC_ULEB, col.CLS_ADDRESS_INDEX, 0),  # GNU_addr_index
    0x15: (col.ENC_ULEB, col.CLS_UNIT_REF, 0),  # ref_udata
    0x22: (col.ENC_ULEB, col.CLS_LIST_INDEX, 0),  # loclistx
    0x23: (col.ENC_ULEB, col.CLS_LIST_INDEX, 0),  # rnglistx
    0x0A: (col.ENC_BLOCK, col.CLS_BLOCK, 1),  # block1
    0x03: (col.ENC_BLOCK, col.CLS_BLOCK, 2),  # block2
    0x04: (col.ENC_BLOCK, col.CLS_BLOCK, 4),  # block4
    0x09: (col.ENC_ULEB_BLOCK, col.CLS_BLOCK, 0),  # block
    0x18: (col.ENC_ULEB_BLOCK, col.CLS_BLOCK, 0),  # exprloc
    0x16: (col.ENC_INDIRECT, 0, 0),  # indirect
}

_SLOTS = {  # kind of DIE -> attribute: slot that receives its value
    col.KIND_FUNCTION: {
        0x03: col.AT_NAME,
        0x6E: col.AT_LINKAGE_NAME,
        0x2007: col.AT_LINKAGE_NAME,  # MIPS_linkage_name
        0x11: col.AT_LOW_PC,
        0x12: col.AT_HIGH_PC,
        0x55: col.AT_RANGES,
        0x31: col.AT_ORIGIN,  # abstract_origin
        0x47: col.AT_ORIGIN,  # specification
        0x3C: col.AT_DECLARATION,
        0x3F: col.AT_EXTERNAL,
        0x20: col.AT_INLINE,
        0x3B: col.AT_DECL_LINE,
        0x3A: col.AT_DECL_FILE,
        0x34: col.AT_ARTIFICIAL,
        0x39: col.AT_DECL_COLUMN,
        0x1D: col.AT_CONTAINING_TYPE,
        0x4D: col.AT_VTABLE_SLOT,  # vtable_elem_location
        0x3E0C: col.AT_STMT_SEQUENCE,  # LLVM_stmt_sequence
    },
    col.KIND_SITE: {
        0x7F: col.AT_ORIGIN,  # call_origin
        0x31: col.AT_ORIGIN,  # abstract_origin, of a GNU_call_site
        0x7D: col.AT_RETURN_PC,
        0x11: col.AT_RETURN_PC,  # low_pc, of a GNU_call_site
        0x81: col.AT_CALL_PC,
        0x82: col.AT_TAIL_CALL,
        0x2115: col.AT_TAIL_CALL,  # GNU_tail_call
    },
    col.KIND_UNIT: {
        0x03: col.AT_NAME,
        0x11: col.AT_LOW_PC,
        0x10: col.AT_STMT_LIST,
        0x1B: col.AT_COMP_DIR,
        0x72: col.AT_STR_BASE,
        0x73: col.AT_ADDR_BASE,
        0x2133: col.AT_ADDR_BASE,  # GNU_addr_base
        0x74: col.AT_RNGLISTS_BASE,
        0x8C: col.AT_LOCLISTS_BASE,
        0x2132: col.AT_RNGLISTS_BASE,  # GNU_ranges_base
        0x13: col.AT_LANGUAGE,
        0x76: col.AT_DWO_NAME,
        0x2130: col.AT_DWO_NAME,  # GNU_dwo_name
        0x2131: col.AT_DWO_ID,  # GNU_dwo_id
        0x25: col.AT_PRODUCER,
    },
    col.KIND_TYPE: {0x01: col.AT_SIBLING, 0x03: col.AT_NAME},
    col.KIND_INLINED: {
        0x11: col.AT_LOW_PC,
        0x12: col.AT_HIGH_PC,
        0x55: col.AT_RANGES,
        0x31: col.AT_ORIGIN,
        0x58: col.AT_CALL_FILE,
        0x59: col.AT_CALL_LINE,
        0x57: col.AT_CALL_COLUMN,
    },
}


@cython.inline
def variant_of(version: u64, address_size: u64, offset_size: u64) -> cython.size_t:
    """Return the row of `operations` for units of this kind."""
    return (1 if offset_size == 8 else 0) + (2 if address_size == 8 else 0) + (4 if version == 2 else 0)


@cython.inline
def operation(operations: cython.const[cython.uint][:, ::1], variant: cython.size_t, form: u64) -> u64:
    """Return the operation that reads a form, without its slot; NO_FORM for a form that does not exist."""
    if form < 0x40:
        return operations[variant, form]
    if form >= 0x1F00 and form < 0x1F40:
        return operations[variant, form - 0x1F00 + 0x40]
    return col.NO_FORM


@cache
def operations() -> U32:
    """Return the operation of every form for each kind of unit; that of a fixed size skips it, until it has a slot."""
    table = np.full((8, _WIDTH), col.NO_FORM, np.uint32)
    for variant in range(8):
        offset_size, address_size = (8 if variant & 1 else 4), (8 if variant & 2 else 4)
        reference_size = address_size if variant & 4 else offset_size
        sizes = {_OFFSET: offset_size, _ADDRESS: address_size, _REFERENCE: reference_size}
        for value_class, forms in _FIXED.items():
            for form, size in forms.items():
                table[variant, _column(form)] = col.ENC_SKIP | value_class << 9 | sizes.get(size, size) << 14
        for form, (encoding, value_class, size) in _OTHERS.items():
            table[variant, _column(form)] = encoding | value_class << 9 | size << 14
    table.flags.writeable = False  # all images share it
    return table


@cache
def slots() -> U8:
    """Return the slot of each attribute of each kind of DIE; 0 if no reader wants it."""
    table = np.zeros((len(_SLOTS) + 1, 1 + max(attr for slot_of in _SLOTS.values() for attr in slot_of)), np.uint8)
    for kind, slot_of in _SLOTS.items():
        for attr, slot in slot_of.items():
            table[kind, attr] = slot
    table.flags.writeable = False
    return table


@cache
def child_slots() -> U8:
    """Return the slot of each attribute of the DIEs that `_children` reads, whatever their kind."""
    slot_of = {
        0x6E: col.LT_LINKAGE_NAME,
        0x2007: col.LT_LINKAGE_NAME,  # MIPS_linkage_name
        0x49: col.LT_TYPE,
        0x38: col.LT_LOCATION,  # data_member_location
        0x0B: col.LT_SIZE,  # byte_size
        0x64: col.LT_OBJECT_POINTER,
        0x4C: col.LT_VIRTUALITY,
        0x3F: col.LT_EXTERNAL,
        0x31: col.LT_ORIGIN,  # abstract_origin
        0x02: col.LT_PLACE,  # location
    }
    table = np.zeros((len(_SLOTS) + 1, 1 + max(slot_of)), np.uint8)
    for attr, slot in slot_of.items():
        table[:, attr] = slot
    table.flags.writeable = False
    return table


def _column(form: int) -> int:
    return form if form < 0x40 else form - 0x1F00 + 0x40
