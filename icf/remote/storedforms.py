"""Other forms in which a tree of a symbol server keeps a file: as a pointer to another place, or compressed.

    app.pdb/KEY/file.ptr    PATH:/srv/builds/17/app.pdb      the file is there
                            MSG: removed in 2021             it is gone, and why
    app.pdb/KEY/app.pd_     a cabinet that has it

Sources: Microsoft, SymStore, "file.ptr"; SymSrv, compressed files.
"""

from __future__ import annotations

import os

from icf.log import warn

_POINTER = "file.ptr"
_POINTER_LIMIT_BYTES = 1 << 12


def stored_path(path: str) -> str:
    """Return where the file is that a tree should have at a path: there, or where a pointer beside it says.

    A pointer that leads nowhere, and a compressed file, are reported.
    """
    if os.path.isfile(path):
        return path
    pointer = os.path.join(os.path.dirname(path), _POINTER)
    if os.path.isfile(pointer):
        return _pointed(pointer) or path
    compressed = f"{path[:-1]}_"
    if os.path.isfile(compressed):
        warn(f"{compressed}: is compressed: not used; 'cabextract' makes {os.path.basename(path)} of it")
    return path


def _pointed(pointer: str) -> str | None:
    """Return the file that a pointer names; None, reported, if there is none."""
    try:
        with open(pointer, "rb") as file:
            text = file.read(_POINTER_LIMIT_BYTES).decode("utf-8", "surrogateescape").strip()
    except OSError as error:
        warn(f"{pointer}: {error.strerror}: not used")
        return None
    kind, _, value = text.partition(":")
    if kind == "PATH" and "\0" not in value and os.path.isfile(value):
        return value
    # the text is of others: one line, without control characters
    said = "".join(char if char.isprintable() else " " for char in text[:200])
    warn(f"{pointer}: {said!r} names no file of this machine: not used")
    return None
