"""The DWARF numbers that the scan knows, spelled as the standard spells them (DWARF 5, section 7)."""

from __future__ import annotations

DW_TAG_array_type = 0x01
DW_TAG_class_type = 0x02
DW_TAG_entry_point = 0x03
DW_TAG_enumeration_type = 0x04
DW_TAG_imported_declaration = 0x08
DW_TAG_compile_unit = 0x11
DW_TAG_structure_type = 0x13
DW_TAG_subroutine_type = 0x15
DW_TAG_union_type = 0x17
DW_TAG_subprogram = 0x2E
DW_TAG_namespace = 0x39
DW_TAG_partial_unit = 0x3C
DW_TAG_type_unit = 0x41
DW_TAG_call_site = 0x48
DW_TAG_skeleton_unit = 0x4A
DW_TAG_GNU_call_site = 0x4109
DW_TAG_GNU_vtable = 0x5654  # has no number that all agree on; this one of the user range is ours ("VT")

DW_UT_compile, DW_UT_type, DW_UT_partial = 1, 2, 3
DW_UT_skeleton, DW_UT_split_compile, DW_UT_split_type = 4, 5, 6

DW_LANG_C_names = frozenset(  # languages whose DW_AT_name is the symbol's name
    {0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001}
)
