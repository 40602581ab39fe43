"""DWARF 2 to 5, in bulk: units, DIEs, ranges, inlined calls, lines; `icf.dwarf.units.DebugInfo` is the way in."""
