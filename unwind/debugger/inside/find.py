"""The command `icf`, where the settings of a debugger do not name it."""

from __future__ import annotations

import os
import shlex
import shutil


def default_command() -> str:
    """Return the `icf` of the search path, else the one of the environment that this file is installed in."""
    found = shutil.which("icf")
    folder = os.path.dirname(os.path.realpath(__file__))
    while not found and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        beside = os.path.join(folder, "bin", "icf")
        found = beside if os.access(beside, os.X_OK) else None
    return shlex.quote(found or "icf")
