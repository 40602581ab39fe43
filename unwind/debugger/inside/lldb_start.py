"""What lldb imports (`command script import`): makes the plug-in importable, and adds its command.

command script import .../lldb_start.py
script lldb_start.set_command("/usr/bin/icf")
"""

import os
import sys

_ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.append(_ROOT)  # only for this import: what else is there is for another Python
try:
    from unwind.debugger.inside.lldb_plugin import bt, set_command
finally:
    sys.path.remove(_ROOT)

__all__ = ["bt", "set_command"]


def __lldb_init_module(debugger, _):  # type: ignore[no-untyped-def]
    """Add the command `icf bt`; lldb calls this."""
    debugger.HandleCommand("command container add --overwrite --help 'Names of merged functions.' icf")
    debugger.HandleCommand(
        "command script add --overwrite --function {}.bt --help 'Show the stack of the selected thread, or of all"
        " threads (icf bt all), with the functions that were called.' icf bt".format(__name__)
    )
