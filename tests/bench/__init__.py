"""Measures speed and memory.

An installed `icf` has its bytecode. One that runs from sources writes it on first use, unless this variable forbids it:
then each process translates all modules again, which takes twice as long as the pass over a small program.
"""

from __future__ import annotations

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
