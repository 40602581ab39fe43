"""Find the PDB of an image by its identity: beside the image, where the linker wrote it, in trees of symbol servers.

    the folder of the image             app.pdb
    the path in the image               as the linker wrote it
    each directory that the user named  app.pdb, and app.pdb/GUIDAGE/app.pdb in both spellings

A PDB of another link is never used: the GUID, and the age of its DBI stream, must be those of the image.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.log import warn
from icf.pe.keys import guid_digits, pdb_key, spellings

if TYPE_CHECKING:
    from icf.pdb.file import Pdb
    from icf.pe.debugdirectory import CodeView
    from icf.pe.image import PeImage

MISSING_HINT = "name its PDB with --debug-file, or a directory with --debug-root"


def attach_pdb(image: PeImage, given: str | None, roots: Sequence[str]) -> None:
    """Find the PDB of an image and attach it.

    A file that was found in its place and does not belong is refused with a warning; one that the user has `given`
    by an IcfError.
    """
    image.debug_roots = tuple(roots)
    if given is not None:
        pdb, problem = _open(image.build_id, given)
        if problem:
            raise IcfError(f"{given}: does not belong to {image.path}: {problem}")
        assert pdb is not None
        image.attach_pdb(pdb)
        return
    codeview = image.codeview
    if codeview is None or not codeview.path:
        return
    for path in dict.fromkeys(_candidates(image, codeview, roots)):
        image.looked_for.append(path)
        if not os.path.exists(path):
            continue
        try:
            pdb, problem = _open(image.build_id, path)
        except IcfError as error:
            warn(f"{error}: not used")
            continue
        if pdb is not None:
            image.attach_pdb(pdb)
            return
        warn(f"{path}: does not belong to {image.path}: {problem}: not used")


def _candidates(image: PeImage, codeview: CodeView, roots: Sequence[str]) -> Iterator[str]:
    name = re.split(r"[\\/]", codeview.path)[-1]
    folder = os.path.dirname(os.path.realpath(image.path))
    if name.strip(". "):
        yield os.path.join(folder, name)
    if os.path.isabs(codeview.path):
        yield codeview.path
    for root in roots if name.strip(". ") else ():
        yield os.path.join(root, name)
        for key in spellings(pdb_key(codeview, image.path)):
            yield os.path.join(root, key)


def wrong_pdb(path: str, key: bytes) -> str:
    """Return why a file is not the PDB of a link; empty if it is.

    Args:
        path: of the file.
        key: GUID and age, as `Pdb.key` and the build id of an image have them.
    """
    try:
        pdb, problem = _open(key, path)
    except IcfError as error:
        return str(error)
    if pdb is not None:
        pdb.close()
    return problem


def _open(key: bytes, path: str) -> tuple[Pdb | None, str]:
    """Return the PDB at a path; if it is of another link None, and the two identities."""
    from icf.pdb.file import Pdb

    pdb = Pdb.open(path)
    if pdb.key == key:
        return pdb, ""
    pdb.close()
    return None, f"{_shown(pdb.key)}, not {_shown(key)}"


def _shown(key: bytes) -> str:
    if not key:
        return "without a PDB"
    kind, digits = ("GUID", guid_digits(key[:-4])) if len(key) == 20 else ("signature", key[-5::-1].hex().upper())
    return f"{kind} {digits} age {int.from_bytes(key[-4:], 'little')}"
