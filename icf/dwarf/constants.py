"""DWARF numbers that more than one part needs, spelled as the standard spells them (DWARF 5, section 7)."""

from __future__ import annotations

DW_TAG_GNU_vtable = 0x5654  # a number without a common assignment; this one of the user range is ours ("VT")

DW_LANG_C_names = frozenset(  # languages whose DW_AT_name is the symbol's name
    {0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001}
)

DW_TAG_enumeration_type = 0x04
DW_TAG_formal_parameter = 0x05
DW_TAG_lexical_block = 0x0B
DW_TAG_pointer_type = 0x0F
DW_TAG_reference_type = 0x10
DW_TAG_subroutine_type = 0x15
DW_TAG_typedef = 0x16
DW_TAG_union_type = 0x17
DW_TAG_inlined_subroutine = 0x1D
DW_TAG_base_type = 0x24
DW_TAG_const_type = 0x26
DW_TAG_volatile_type = 0x35
DW_TAG_restrict_type = 0x37
DW_TAG_rvalue_reference_type = 0x42
DW_TAG_atomic_type = 0x47
DW_TAG_call_site = 0x48
DW_TAG_call_site_parameter = 0x49
DW_TAG_GNU_call_site = 0x4109
DW_TAG_GNU_call_site_parameter = 0x410A

DW_AT_location = 0x02
DW_AT_name = 0x03
DW_AT_byte_size = 0x0B
DW_AT_low_pc = 0x11
DW_AT_high_pc = 0x12
DW_AT_const_value = 0x1C
DW_AT_abstract_origin = 0x31
DW_AT_artificial = 0x34
DW_AT_encoding = 0x3E
DW_AT_frame_base = 0x40
DW_AT_specification = 0x47
DW_AT_type = 0x49
DW_AT_entry_pc = 0x52
DW_AT_ranges = 0x55
DW_AT_object_pointer = 0x64
DW_AT_linkage_name = 0x6E
DW_AT_call_return_pc = 0x7D
DW_AT_call_value = 0x7E
DW_AT_call_origin = 0x7F
DW_AT_call_parameter = 0x80
DW_AT_call_tail_call = 0x82
DW_AT_call_data_value = 0x86
DW_AT_loclists_base = 0x8C
DW_AT_MIPS_linkage_name = 0x2007
DW_AT_GNU_call_site_value = 0x2111
DW_AT_GNU_call_site_data_value = 0x2112
DW_AT_GNU_tail_call = 0x2115
