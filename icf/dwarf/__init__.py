"""DWARF 2 to 5, in bulk: units, DIEs, ranges, inlined calls, lines; begin with `icf.dwarf.units.DebugInfo`."""
