"""Finds the PE image of a module by its identity: time stamp and size, and GUID and age of its PDB. In this order:

    the image that `-e` names
    the path itself               of a process that ran here: an emulator, Wine
    R/app.exe                     R is each `--module-root`, then each `--debug-root`
    R/TREE/app.exe                app.exe/TIMESTAMPSIZE/app.exe, as symbol servers keep it (`icf.pe.keys`)
    symbol servers                of `_NT_SYMBOL_PATH` (`icf.remote.symbolserver`)

Names are tried as they are spelled, and in lower case. A file of another identity is never taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from icf.errors import FormatError, IcfError
from icf.pe.debugdirectory import CodeView, codeview_of
from icf.pe.identity import PeIdentity
from icf.pe.image import PeImage
from icf.pe.keys import guid_digits, image_key, spellings


def find_pe(path: str, identity: PeIdentity, roots: Sequence[str], given: Sequence[str] = ()) -> PeImage | str:
    """Return the image of a module, or why there is none, which begins with a path.

    Args:
        path: of the module, as Windows has it.
        identity: what was recorded of it.
        roots: directories that the user has named.
        given: images that the user has named.
    """
    try:
        key = image_key(path, identity.timestamp, identity.image_size_bytes)
        wanted = codeview_of(identity.entries, path)
    except FormatError as error:
        return str(error)
    problem = f"{path}: no such file"
    for candidate in dict.fromkeys((*given, *_candidates(path, key, roots))):
        if os.path.isfile(candidate):
            image, wrong = _open(candidate, identity, wanted)
            if image is not None:
                return image
            problem = wrong
    from icf.remote.symbolserver import find

    fetched = find(key, lambda there: _check(there, identity, wanted))
    return problem if fetched is None else PeImage.open(fetched)


def kept_id(identity: PeIdentity, path: str) -> bytes:
    """Return the build id of the image, as `PeImage.build_id`; empty if it is not known."""
    try:
        codeview = codeview_of(identity.entries, path)
    except FormatError:
        return b""
    return b"" if codeview is None else _key(codeview)


def _candidates(path: str, key: str, roots: Sequence[str]) -> Iterator[str]:
    if os.path.isabs(path):
        yield path
    for root in roots:
        for spelled in (*spellings(key.partition("/")[0]), *spellings(key)):
            yield os.path.join(root, spelled)


def _open(path: str, identity: PeIdentity, wanted: CodeView | None) -> tuple[PeImage | None, str]:
    """Return the image at a path; None and a line if it is another one."""
    try:
        image = PeImage.open(path)
    except IcfError as error:
        return None, str(error)
    try:
        problem = _difference(image, identity, wanted)
    except IcfError as error:
        problem = str(error)
    if not problem:
        return image, ""
    image.close()
    return None, problem


def _check(path: str, identity: PeIdentity, wanted: CodeView | None) -> str:
    image, problem = _open(path, identity, wanted)
    if image is not None:
        image.close()
    return problem


def _difference(image: PeImage, identity: PeIdentity, wanted: CodeView | None) -> str:
    """Return what shows that an image is another one; empty if nothing does."""
    headers, found = image.headers, image.codeview
    here = f"time stamp {headers.timestamp:#010x} and {headers.image_size_bytes} bytes"
    there = f"{identity.timestamp:#010x} and {identity.image_size_bytes}"
    if (headers.timestamp, headers.image_size_bytes) != (identity.timestamp, identity.image_size_bytes):
        return f"{image.path}: has {here}, not {there}"
    if wanted is not None and (found is None or _key(found) != _key(wanted)):
        has = "no PDB" if found is None else f"a PDB of {_shown(found)}"
        return f"{image.path}: has {has}, not of {_shown(wanted)}"
    return ""


def _key(codeview: CodeView) -> bytes:
    return codeview.signature + codeview.age.to_bytes(4, "little")


def _shown(codeview: CodeView) -> str:
    return f"GUID {guid_digits(codeview.signature)} age {codeview.age}"
