"""How often commands look for garbage: seldom, as they keep nearly all that they make, in hardly any cycles.

Python's collector walks all new objects after each 700 of them, and all objects now and then. Of half a million rows
that is a tenth to a sixth of the time. `icf.cli` restores what a caller of `main` had.
"""

from __future__ import annotations

import gc

_ALLOCATIONS_BETWEEN_COLLECTIONS = 1 << 20


def collect_seldom() -> None:
    """Let a million objects be made between two looks for garbage."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
