"""The files that the modules of a list need: images, and what has their debug information, found by identity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from icf.errors import IcfError
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.module_list import LoadedModule


class NeededFile(NamedTuple):
    """A file that a module needs; `path` is "" where it was not found, and `problem` says why."""

    module: str  # the path of the module
    kind: str  # "image", "debug" or "pdb"
    path: str = ""
    problem: str = ""


def needed_files(module: LoadedModule, images: ImageFinder, debug_roots: Sequence[str]) -> Iterator[NeededFile]:
    """Yield the files of a module, each fetched from a server if it is not on this machine.

    Args:
        module: of a list.
        images: finds ELF images.
        debug_roots: directories to search for debug information, besides /usr/lib/debug.
    """
    if module.pe is None:
        yield from _elf_files(module, images, debug_roots)
    else:
        yield from _pe_files(module)


def _elf_files(module: LoadedModule, images: ImageFinder, debug_roots: Sequence[str]) -> Iterator[NeededFile]:
    from icf.debugfiles.opening import attach_debug

    image = images.find(Sought(module.path, module.build_id))
    if isinstance(image, str):
        yield NeededFile(module.path, "image", problem=image)
        return
    yield NeededFile(module.path, "image", image.path)
    attach_debug(image, debug_roots)
    if image.debug is not image:
        yield NeededFile(module.path, "debug", image.debug.path)
    elif image.section(".debug_info") is None:
        yield NeededFile(module.path, "debug", problem="no file with its debug information")


def _pe_files(module: LoadedModule) -> Iterator[NeededFile]:
    from icf.pe.debugdirectory import codeview_of
    from icf.pe.keys import image_key, pdb_key
    from icf.remote.symbolserver import find, find_pdb

    assert module.pe is not None
    key = image_key(module.path, module.pe.timestamp, module.pe.image_size_bytes)
    path = find(key, partial(_wrong_image, module))
    yield NeededFile(module.path, "image", path or "", "" if path else f"{key}: not in _NT_SYMBOL_PATH")
    codeview = codeview_of(module.pe.entries, module.path)
    if codeview is None:
        yield NeededFile(module.path, "pdb", problem="its debug directory names none")
        return
    path = find_pdb(codeview, module.path)
    problem = "" if path else f"{pdb_key(codeview, module.path)}: not in _NT_SYMBOL_PATH"
    yield NeededFile(module.path, "pdb", path or "", problem)


def _wrong_image(module: LoadedModule, path: str) -> str:
    from icf.pe.identity import read_identity

    assert module.pe is not None
    try:
        found = read_identity(path)
    except IcfError as error:
        return str(error)
    ours, theirs = (
        f"time stamp {each.timestamp:#010x} and size {each.image_size_bytes:#x}" for each in (module.pe, found)
    )
    return "" if ours == theirs else f"has {theirs}, not {ours}"
