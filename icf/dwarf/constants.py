"""DWARF numbers that more than one part needs, spelled as the standard spells them (DWARF 5, section 7)."""

from __future__ import annotations

DW_TAG_GNU_vtable = 0x5654  # a number without a common assignment; this one of the user range is ours ("VT")

DW_LANG_C_names = frozenset(  # languages whose DW_AT_name is the symbol's name
    {0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001}
)
