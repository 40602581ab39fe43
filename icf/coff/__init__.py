"""COFF objects, the inputs of links for Windows: `icf.coff.objectfile` reads one."""
