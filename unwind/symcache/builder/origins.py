"""The inlined functions of a group: each of their DIEs is read once, for its name and for where it is declared."""

from __future__ import annotations

import numpy as np

from icf.columns import I64
from icf.dwarf.dies import resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.units import DebugInfo
from icf.sets import rows_of_runs


class Origins:
    """What the inlined calls of some functions call.

    Attributes:
        identity: of each inlined function, ascending by its DIE.
        of_node: by inlined call the row of its function; -1 for calls of other functions.
    """

    def __init__(self, debug: DebugInfo, scan: InlineScan, described: I64) -> None:
        functions = np.unique(described[described >= 0])
        first, last = scan.functions.first_node[functions], scan.functions.last_node[functions]
        _, nodes = rows_of_runs(first, last - first)
        dies, rows = np.unique(scan.nodes.origin[nodes], return_inverse=True)
        self.identity = resolve(debug, dies)
        self.of_node: I64 = np.full(len(scan.nodes.origin), -1, np.int64)
        self.of_node[nodes] = rows.reshape(-1)
