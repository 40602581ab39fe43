"""Objects that a compiler driver makes for a link and deletes after it: `c++ a.cc -o prog`.

    TMPDIR=FOLDER/objects    there the driver makes them
    -BFOLDER/linker          the driver runs the script there, which runs the linker and then links the objects into
                             FOLDER/kept; --ld-path=SCRIPT where the command names a linker by its path

Without that the objects are read only if this process gets to them before the driver deletes them, which on a busy
machine is a matter of luck; and tables must not depend on luck. The linked program is the same to the byte.
"""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from linkpass.link.command import LinkCommand, chosen_name
from linkpass.link.driver import place_of_driver, program_of

_SCRIPT = """#!/bin/sh
{linker} "$@"
status=$?
for object in {made}/*.o; do
    ln "$object" {kept} || cp "$object" {kept}
done 2>/dev/null
exit $status
"""


class DriverObjects(NamedTuple):
    """How a link is to be run so that the objects stay, and where."""

    command: LinkCommand
    environment: dict[str, str]  # what to set
    made: str  # the directory in which the driver makes the objects
    kept: str  # where they stay

    def second_name(self, path: str) -> str:
        """Return where an object stays; "" for any other file."""
        folder, name = os.path.split(path)
        return os.path.join(self.kept, name) if folder == self.made else ""


def keep_driver_objects(command: LinkCommand, folder: str) -> DriverObjects | None:
    """Prepare a link in an empty `folder`, the temporary one of the link.

    None if the driver does not say which linker it would run.
    """
    chosen = chosen_name(command.arguments)
    name = f"ld.{command.linker.name}" if command.linker.name else "ld"
    linker = chosen if os.path.isabs(chosen) else program_of(command, name)
    if not linker:
        return None
    made, kept, scripts = (os.path.join(folder, each) for each in ("objects", "kept", "linker"))
    for each in (made, kept, scripts):
        os.mkdir(each)
    path = os.path.join(scripts, name)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as script:
        script.write(_SCRIPT.format(linker=shlex.quote(linker), made=shlex.quote(made), kept=shlex.quote(kept)))
        os.fchmod(script.fileno(), 0o700)
    if linker == chosen:
        words = (*command.command, f"--ld-path={path}")
    else:
        at = place_of_driver(command) + 1
        words = (*command.command[:at], f"-B{scripts}", *command.command[at:])  # of several -B the first one counts
    return DriverObjects(command._replace(command=words), {"TMPDIR": made}, made, kept)
