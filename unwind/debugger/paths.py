"""Where the plug-ins are, and the command that runs their helper."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def plugin_path(debugger: str) -> str:
    """Return the file that `gdb` or `lldb` loads."""
    return str(Path(__file__).resolve().parent / "inside" / f"{debugger}_start.py")


def helper_command() -> str:
    """Return the command that runs `icf` as it runs now, quoted for a shell.

    The script `icf` if that is what was called, else this Python; -P keeps it from importing what lies in the current
    directory.
    """
    script = os.path.abspath(sys.argv[0])
    is_script = os.path.basename(script) == "icf" and os.access(script, os.X_OK)
    return shlex.join([script] if is_script else [sys.executable, "-P", "-m", "icf"])
