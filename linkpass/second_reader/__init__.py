"""A second reader of the tables: pyelftools for ELF and DWARF, plain Python for the rest, to compare with the first.

It shares no code with what writes the tables or with `icf.tables`. So it finds a mistake that writer and first reader
have in common, so that each understands the other.

tables   the bytes of .debug_dcall, .debug_vcall and .debug_icf to rows
check    rows against symbols, DIEs and instructions; against the first reader's rows
"""
