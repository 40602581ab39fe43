"""The PDB of a PE image from the symbol servers that `_NT_SYMBOL_PATH` lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.errors import FormatError

if TYPE_CHECKING:
    from icf.pe.image import PeImage


def attach_pdb_of_server(image: PeImage) -> None:
    """Find the PDB of an image there and attach it."""
    from icf.remote.symbolserver import find_pdb, kept_path

    codeview = image.codeview
    if codeview is None or not codeview.path:
        return
    try:
        path, later = find_pdb(codeview, image.path), kept_path(codeview, image.path)
    except FormatError:  # what the image says is not the name of a file
        return
    image.looked_for.append(path or later)
    if path is not None:
        from icf.pdb.file import Pdb

        image.attach_pdb(Pdb.open(path))
