"""The calls through pointers of an image, and the jumps through pointers that leave a function.

    jmp *16(%rax)          slot 2 of the vtable of the object in the first argument, where that is proven
    mov 8(%rdi), %rax      jmp *%rax: any pointer that the program has stored
    jmp *%rax              any pointer
    mov %rax, (%rsp)  ret  any pointer: a retpoline
    jmp callback@plt       a function of another module, which may jump back through any pointer

A jump to `operator delete`, `free` and their kind does not count: they call no pointer from their arguments, unless the
image replaces a function that they tail-call (`icf.code.imports`). The slot
does not depend on the member, so a jump belongs to all members of its body.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.aliases import is_cold_part
from icf.code.branch_kinds import JUMP
from icf.code.branches import find_branches
from icf.code.imports import comes_back
from icf.code.indirect import NO_OBJECT, PATH_COLUMNS, Indirect, find_indirect
from icf.code.jumps import find_retpolines, is_retpoline
from icf.columns import I64, U64
from icf.dwarf.cfi.landing_pads import LandingPads
from icf.dwarf.scan import Functions
from icf.elf.image import Image
from icf.elf.types import SHT_RELA, STB_LOCAL, Machine
from icf.folds.functions import Bodies
from icf.image import AnyImage
from icf.model import ANY_POINTER
from icf.sets import difference, distinct, is_in, union
from icf.vtables.words import CODE, LoadedData

_OUTLINED = "OUTLINED_FUNCTION_"
_GOT = (".got", ".got.plt")
_WORD_BYTES = 8


class PointerJumps(NamedTuple):
    """Jumps out of bodies and calls, each by address."""

    jump: U64
    slot: I64  # of a vtable, STORED_POINTER or ANY_POINTER
    object: I64  # rows, as in `icf.code.indirect`
    body: U64  # the body that makes the jump
    call_end: U64  # return addresses of all calls through pointers
    call_slot: I64  # of a vtable, or ANY_POINTER
    call_object: I64
    holder: U64  # the registers that point to the objects of calls and jumps, as in `icf.code.indirect`
    holder_end: U64
    holder_register: I64
    holder_offset: I64
    known_end: U64  # return addresses of calls through pointers that lead to one function,
    known_target: U64  # that function,
    known_source: U64  # and the instruction that forms or loads its address


_NO_PLACES, _NO_SLOTS = np.empty(0, np.uint64), np.empty(0, np.int64)
_NO_PATHS = np.empty((0, PATH_COLUMNS), np.int64)
NO_POINTER_JUMPS = PointerJumps(
    _NO_PLACES, _NO_SLOTS, _NO_PATHS, _NO_PLACES, _NO_PLACES, _NO_SLOTS, _NO_PATHS, _NO_PLACES, _NO_PLACES,
    _NO_SLOTS, _NO_SLOTS, _NO_PLACES, _NO_PLACES, _NO_PLACES,
)  # fmt: skip


def find_pointer_jumps(image: Image, bodies: Bodies, functions: Functions, threads: int = 1) -> PointerJumps:
    """Return the pointer jumps of all bodies of an image."""
    defined = _defined_names(image)
    stubs = [stub for stub, symbol in image.plt_stubs.items() if _comes_back(symbol, defined)]
    parts = _parts(image, bodies, functions)
    # the machine outliner's functions change any register, and may be without a symbol
    called = np.array(sorted(image.plt_stubs), np.uint64)
    keepers = union(difference(distinct(bodies.symbol_value), parts), called)
    found = find_indirect(image, bodies.start, bodies.end, parts, LandingPads(image), keepers, threads)
    jumps = _jumps_of(image, bodies, found, _places_of_leaves(image, defined), stubs)
    known = known_calls(image, found)
    return jumps._replace(known_end=known.end, known_target=known.target, known_source=known.source)


def jumps_of(image: AnyImage, bodies: Bodies, stubs: Iterable[int] = ()) -> PointerJumps:
    """Return the pointer jumps of bodies; a jump to one of `stubs` may lead to a function of the image."""
    return _jumps_of(image, bodies, find_indirect(image, bodies.start, bodies.end, _NO_PLACES), _NO_PLACES, stubs)


class KnownCalls(NamedTuple):
    """Calls through pointers that lead to one function of the image, by return address."""

    end: U64
    target: U64
    source: U64  # the instruction that forms or loads the function's address


def known_calls(image: Image, found: Indirect) -> KnownCalls:
    """Return the calls of functions whose address an instruction forms, or loads from the GOT.

    The linker fills a slot without a symbol, and nothing changes it. One with a symbol may be that of another module.
    """
    target = found.known_target.copy()
    places = distinct(found.known_place[found.known_place != 0])
    places = places[places % np.uint64(_WORD_BYTES) == 0]
    inside = np.zeros(len(places), np.bool_)
    for section in image.sections:
        if section.name in _GOT and section.is_alloc:
            start, end = np.uint64(section.vaddr), np.uint64(section.vaddr + section.size_bytes)
            inside |= (places >= start) & (places < end)
    if inside.any():
        words = LoadedData(image).words(places[inside])
        is_code = (words.kind == CODE) & (words.symbol == 0)
        places, value = words.place[is_code], words.value[is_code]
        rows = np.flatnonzero(is_in(found.known_place, places))
        target[rows] = value[np.searchsorted(places, found.known_place[rows])]
    known = target != 0
    return KnownCalls(found.known_end[known], target[known], found.known_source[known])


def _jumps_of(image: AnyImage, bodies: Bodies, found: Indirect, leaves: U64, stubs: Iterable[int]) -> PointerJumps:
    """Return the jumps among `found`; `leaves` are places of pointers that lead to no function of the image."""
    keep = ~is_in(found.jump_place, leaves)
    retpolines = find_retpolines(image)
    # gcc's thunks have no size, so they are in no body: a function that jumps to one tail-calls its target
    row = np.searchsorted(bodies.start, retpolines[bodies.at(retpolines) < 0], side="right") - 1
    thunks = [thunk for thunk in bodies.start[row[row >= 0]].tolist() if is_retpoline(image, thunk)]
    imports = find_branches(image, _NO_PLACES, np.array(sorted({*stubs, *thunks}), np.uint64))
    size_bytes = np.where(imports.kind == JUMP, 5, 6)
    if image.machine is Machine.AARCH64:
        size_bytes[:] = 4
    others = np.concatenate([imports.end - size_bytes.astype(np.uint64), retpolines])
    jump = np.concatenate([found.jump[keep], others])
    slot = np.concatenate([found.jump_slot[keep], np.full(len(others), ANY_POINTER)])
    holder = np.concatenate([found.jump_object[keep], np.full((len(others), PATH_COLUMNS), NO_OBJECT)])
    body = bodies.starts_at(jump)
    order = np.lexsort((slot, jump))
    order = order[body[order] != 0]
    return PointerJumps(
        jump[order], slot[order], holder[order], body[order], found.call_end, found.call_slot, found.call_object,
        found.holder, found.holder_end, found.holder_register, found.holder_offset, _NO_PLACES, _NO_PLACES, _NO_PLACES,
    )  # fmt: skip


def _parts(image: Image, bodies: Bodies, functions: Functions) -> U64:
    """Return bodies that are outlined parts of functions."""
    symbols = image.symbols
    rows = bodies.symbol_rows
    maybe = np.flatnonzero(symbols.holds(b".cold", rows) | symbols.holds(_OUTLINED.encode(), rows))
    names = symbols.names(rows[maybe].tolist())
    parts = maybe[[is_cold_part(name) or name.startswith(_OUTLINED) for name in names]]
    return distinct(np.concatenate([functions.low[functions.part > 0], bodies.symbol_value[parts]]))


def _defined_names(image: Image) -> frozenset[str]:
    """Return the names that an image defines for all modules; runtime libraries have them from it, too."""
    symbols = image.dynamic_symbols
    return frozenset(symbols.names(np.flatnonzero(symbols.is_defined & (symbols.bind != STB_LOCAL)).tolist()))


def _comes_back(symbol: str, defined: frozenset[str]) -> bool:
    def is_replaced(name: str) -> bool:
        if name.endswith("*"):
            return any(each.startswith(name[:-1]) for each in defined)
        return name in defined

    return comes_back(symbol, is_replaced)


def _places_of_leaves(image: Image, defined: frozenset[str]) -> U64:
    """Return the slots in which the loader puts addresses of imported functions that call no pointer from their
    arguments.
    """
    places = []
    for section in image.sections:
        relocations = image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
        if relocations is None or not relocations.count:
            continue
        symbols = relocations.symbols
        leaves = [
            row for row in distinct(relocations.symbol).tolist() if row and not _comes_back(symbols.name(row), defined)
        ]
        places.append(relocations.offset[is_in(relocations.symbol, np.array(leaves, np.uint32))])
    return np.concatenate([np.empty(0, np.uint64), *places])
