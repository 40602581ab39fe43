"""What gdb sources: makes the plug-in importable, and installs it.

source .../gdb_start.py             in ~/.gdbinit, or in PROGRAM-gdb.gdb beside the program
ln -s .../gdb_start.py PROGRAM-gdb.py
"""

import os
import sys


def _install() -> None:
    # not __file__: sourced by a script, this file has that of the script
    own = os.path.realpath(_install.__code__.co_filename)
    root = os.path.abspath(os.path.join(os.path.dirname(own), "..", "..", ".."))
    sys.path.append(root)  # only for these imports: what else is there is for another Python
    try:
        from unwind.debugger.inside import gdb_plugin
    finally:
        sys.path.remove(root)
    gdb_plugin.install()


_install()
