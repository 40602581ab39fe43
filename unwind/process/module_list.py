"""Read `--modules`: which images a process had loaded where, so that stacks may hold run-time addresses.

    [{"path": "/usr/bin/shop", "build_id": "5d0c...", "load_address": "0x555500000000"},
     {"path": "libx.so", "bias": 140737348354048}]

`load_address` is where the image's lowest page lies: the start of its first line in /proc/PID/maps. `bias` is what was
added to its link-time addresses: `l_addr` of the loader, `dlpi_addr` of dl_iterate_phdr; for most shared objects and
position-independent programs the same number, for a program linked at a fixed address 0. Instead of these an entry may
be a mapping, as perf.data and others have it: the one that holds the code, or an entry for each.

    {"path": "/usr/bin/shop", "start": "0x555500001000", "end": "0x555500003000", "offset": "0x0"}

`icf snapshot` writes such a list, with what else identifies each module (`unwind.process.module_identity`).

The program headers then say where the image was loaded. (A mapping's start less its offset is not a load address:
linkers place code at addresses other than its offset.) Numbers may be strings in hexadecimal (`0x...`). Unknown keys
are passed over. Instead of the list the file may be the text of /proc/PID/maps as it is, or hold it as the log of a
Java VM does (`unwind.process.hs_err_maps`), or hold lldb's `image list` (`unwind.process.lldb_images`).

The list is written where the process ran; the images may be elsewhere now (`unwind.process.image_finder`). Where no
file is found, the symcache of the build serves as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from icf.elf.types import Segment
from icf.errors import IcfError
from icf.image import AnyImage
from icf.pe.identity import PeIdentity
from unwind.process.hs_err_maps import maps_in
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.lldb_images import ListedImage, parse_list
from unwind.process.load_address import bias_of_listed, biases_of
from unwind.process.maps import Mapping, parse_maps
from unwind.process.module_identity import number_of, parse_identity
from unwind.process.pe_images import kept_id
from unwind.program.exports import Exports, ListedExports
from unwind.program.image_exports import ImageExports
from unwind.program.pe_facts import pe_exports
from unwind.symcache.reader.program import KeptFacts, has_program
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_by_build_id

_MAPS = re.compile(rb"[0-9a-f]+-[0-9a-f]+ [r-][w-][x-][ps] ")
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """An image of the list: `load_address`, `bias`, or what is known of its mappings."""

    path: str
    build_id: bytes
    load_address: int | None = None
    bias: int | None = None
    mappings: tuple[Mapping, ...] = ()  # all of its file, from /proc/PID/maps
    places: tuple[tuple[int, int], ...] = ()  # start and offset of mappings
    pe: PeIdentity | None = None  # of a PE image


@dataclass(frozen=True, slots=True)
class Placed:
    """An image that was found, and where it lay: `start` and `end` are run-time addresses."""

    path: str  # as in the list
    found: str  # where the image is; "" if only its symcache is there
    cache: SymCache | None  # that one
    exports: Exports
    bias: int
    start: int
    end: int


def read_modules(path: str, *, with_addresses: bool = True) -> list[LoadedModule]:
    """Return the entries of a list; `IcfError` names the first that is wrong.

    Without addresses entries may lack them, as those of files by themselves, and be of several processes.
    """
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise IcfError(f"{path}: {error.strerror}") from error
    if _MAPS.match(text):
        return _of_maps(parse_maps(text, path))
    if (maps := maps_in(text)) is not None:
        return _of_maps(parse_maps(maps, path))
    if images := parse_list(text):
        return _of_lldb(images, path)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IcfError(f"{path}: is neither JSON nor the text of /proc/PID/maps: {error}") from error
    if not isinstance(listed, list):
        raise IcfError(f"{path}: must be a list of modules")
    modules = [_entry(entry, f"{path}: module {number}", with_addresses) for number, entry in enumerate(listed, 1)]
    pids = {entry.get("pid") if isinstance(entry.get("pid"), int) else None for entry in listed}
    if len(pids) > 1 and with_addresses:
        raise IcfError(f"{path}: has the modules of {len(pids)} processes", hint="icf snapshot --process PID")
    # the mappings of one file make one module
    places: dict[tuple[str, bytes, PeIdentity | None], tuple[tuple[int, int], ...]] = {}
    for module in modules:
        if module.places:
            key = module.path, module.build_id, module.pe
            places[key] = places.get(key, ()) + module.places
    merged = [LoadedModule(path, build_id, places=listed, pe=pe) for (path, build_id, pe), listed in places.items()]
    return [module for module in modules if not module.places] + merged


def _of_maps(mappings: Sequence[Mapping]) -> list[LoadedModule]:
    """Return the files with code among the mappings of a process."""
    of_file: dict[tuple[int, int], list[Mapping]] = {}
    for mapping in mappings:
        if mapping.is_of_file:
            of_file.setdefault(mapping.file_id, []).append(mapping)
    return [
        LoadedModule(each[0].path_once, b"", mappings=tuple(each))
        for each in of_file.values()
        if any(mapping.is_executable for mapping in each)
    ]


def _of_lldb(images: Sequence[ListedImage], path: str) -> list[LoadedModule]:
    """Return the modules that lldb has listed, in lists of one process."""
    starts = {each.path: each.start for each in images}
    for each in images:
        if each.start != starts[each.path]:
            places = f"{each.start:#x} and {starts[each.path]:#x}"
            raise IcfError(f"{path}: lists {each.path} at {places}, as modules of several processes are")
    return [LoadedModule(each.path, each.build_id, load_address=each.start) for each in images]


def _entry(entry: Any, place: str, with_addresses: bool) -> LoadedModule:
    if not isinstance(entry, dict):
        raise IcfError(f"{place}: must be an object with path and load_address")
    path = entry.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        raise IcfError(f"{place}: path must be a string")
    identity = parse_identity(entry, place)
    address_count = [entry.get(key) is None for key in ("load_address", "bias", "start")].count(False)
    if address_count > 1 or (with_addresses and not address_count):
        raise IcfError(f"{place}: needs one of load_address, bias, and start with offset")
    start = number_of(entry.get("start"), f"{place}: start", 0)
    if start is None:
        places: tuple[tuple[int, int], ...] = ()
    else:
        offset, end = (number_of(entry.get(key), f"{place}: {key}", 0) for key in ("offset", "end"))
        if offset is None:
            raise IcfError(f"{place}: start needs the mapping's offset in the file")
        if end is not None and end <= start:
            raise IcfError(f"{place}: end must lie above start")
        places = ((start, offset),)
    return LoadedModule(
        path,
        identity.build_id or (kept_id(identity.pe, path) if identity.pe is not None else b""),
        number_of(entry.get("load_address"), f"{place}: load_address", 0),
        number_of(entry.get("bias"), f"{place}: bias", -1 << 63),
        places=places,
        pe=identity.pe,
    )


def find_images(
    modules: Sequence[LoadedModule], images: ImageFinder, cache_dir: str | None
) -> tuple[list[Placed], list[str]]:
    """Return the modules whose images were found, or symcaches of them, by address, and a line for each other one.

    Raises `IcfError` where two modules overlap.
    """
    placed: list[Placed] = []
    missing: list[str] = []
    for module in modules:
        image, exports, segments = _found(module, images)
        if not isinstance(image, str):
            at = _loaded(module, segments)
            placed += [_place(each, image.path, None, image.span, exports) for each in at]
            if not at:
                missing.append(f"{image.path}: no segment of it is mapped as {module.path} is")
        elif (cache := kept_cache(module.build_id, cache_dir)) is not None:
            facts = KeptFacts(cache)
            at = _loaded(module, ())
            placed += [_place(each, "", cache, facts.span, facts.exports) for each in at]
            if not at:
                missing.append(f"{module.path}: where it was loaded is not known without its program headers")
        else:
            missing.append(image)
    placed.sort(key=lambda each: each.start)
    for below, above in zip(placed, placed[1:], strict=False):
        if above.start < below.end:
            raise IcfError(f"{above.path} at {above.start:#x} overlaps {below.path}, which ends at {below.end:#x}")
    return placed, missing


def _found(module: LoadedModule, images: ImageFinder) -> tuple[AnyImage | str, Exports, Sequence[Segment]]:
    """Return the image of a module, or why there is none, its exports and its segments; a PE image has none."""
    if module.pe is not None:
        pe = images.find_pe(Sought(module.path, pe=module.pe))
        return pe, ListedExports(() if isinstance(pe, str) else pe_exports(pe)), ()
    image = images.find(Sought(module.path, module.build_id))
    return (image, ListedExports(), ()) if isinstance(image, str) else (image, ImageExports(image), image.segments)


def _loaded(module: LoadedModule, segments: Sequence[Segment]) -> list[LoadedModule]:
    """Return the module with a load address or bias, once for each time that it is loaded.

    Without `segments` only a mapping of the file's first page says that.
    """
    if not module.mappings and not module.places:
        return [module]
    if not segments:
        places = module.places or [(each.start, each.offset) for each in module.mappings]
        return [replace(module, load_address=start) for start, offset in places if offset == 0][:1]
    if module.mappings:
        return [replace(module, bias=bias) for bias in biases_of(module.mappings, segments)]
    bias = bias_of_listed(module.places, segments)
    return [] if bias is None else [replace(module, bias=bias)]


def _place(module: LoadedModule, found: str, cache: SymCache | None, span: tuple[int, int], exports: Exports) -> Placed:
    low, high = span[0] // _PAGE_BYTES * _PAGE_BYTES, span[1]
    if low == high:
        raise IcfError(f"{found}: has nothing that is loaded")
    bias = module.load_address - low if module.load_address is not None else module.bias
    assert bias is not None
    if bias >= 1 << 63:
        bias -= 1 << 64  # how the loader writes a bias below zero
    if not 0 <= low + bias <= high + bias <= 1 << 64:
        raise IcfError(f"{module.path}: does not fit the address space at {low + bias:#x}")
    return Placed(module.path, found, cache, exports, bias, low + bias, high + bias)


def kept_cache(build_id: bytes, cache_dir: str | None) -> SymCache | None:
    """Return the symcache that is kept of a build, if there is one that resolves stacks."""
    if not build_id:
        return None
    try:
        cache = open_by_build_id(build_id, cache_dir=cache_dir)
    except IcfError:
        return None
    return cache if has_program(cache) else None
