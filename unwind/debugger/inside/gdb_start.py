"""What gdb sources: makes the plug-in importable, and installs it.

source .../gdb_start.py             in ~/.gdbinit, or in PROGRAM-gdb.gdb beside the program
ln -s .../gdb_start.py PROGRAM-gdb.py
"""

import os
import sys


def _install() -> None:
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
    sys.path.append(root)  # only for these imports: what else is there is for another Python
    try:
        from unwind.debugger.inside import gdb_plugin
    finally:
        sys.path.remove(root)
    gdb_plugin.install()


_install()
