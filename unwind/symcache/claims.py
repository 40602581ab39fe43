"""Whose inline tree and whose lines are those of a member: its function in the debug information.

A body with one member has the first function that is described at its start: descriptions of copies that the linker
discarded come to the kept one's address with gold and bfd, and say the same. With several members each has its own:
the DIE that the tables name, or else the one of its name among those at this address. A member whose
description the linker tombstoned has none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.dies import resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.model import FoldClass, Member, MemberFlag
from unwind.symcache.bodies import Bodies
from unwind.symcache.names import Names

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
_STB_LOCAL = 0


class Claims(NamedTuple):
    """One row for each member, by body, then as the body has them."""

    body: I64
    is_merged: NDArray[np.bool_]  # the body has more members
    name: NDArray[np.uint32]
    flags: NDArray[np.uint32]
    aliases: dict[int, list[int]]  # names, by row
    function: I64  # row in the scan, -1 if it has none


class _Functions:
    """Functions of the scan by address."""

    def __init__(self, scan: InlineScan) -> None:
        ranges = scan.function_ranges
        order = np.lexsort((ranges.owner, ranges.low))
        self.low, self.high, self.owner = ranges.low[order], ranges.high[order], ranges.owner[order]
        self.die = scan.functions.die

    def first_at(self, starts: U64) -> I64:
        """The first function described at each address, or else around it; -1 for none."""
        if not len(self.low):
            return np.full(len(starts), -1, np.int64)
        last = np.searchsorted(self.low, starts, side="right") - 1
        at = np.searchsorted(self.low, self.low[np.maximum(last, 0)], side="left")
        holds = (last >= 0) & (self.high[at] > starts)
        return np.where(holds, self.owner[at], -1)

    def at(self, start: int) -> list[int]:
        """All functions that are described at an address."""
        first, last = (int(np.searchsorted(self.low, np.uint64(start), side=side)) for side in ("left", "right"))
        return sorted(set(self.owner[first:last].tolist()))


def find_claims(image: Image, debug: DebugInfo | None, scan: InlineScan | None, bodies: Bodies, names: Names) -> Claims:
    """The members of all bodies."""
    folds = [(row, bodies.folds[row]) for row in sorted(bodies.folds)]
    body: list[int] = []
    flags: list[int] = []
    text: list[int] = []
    aliases: dict[int, list[int]] = {}
    for row, fold in folds:
        for member in fold.members:
            if member.aliases:
                aliases[len(body)] = [names.of_text(alias) for alias in member.aliases]
            body.append(row)
            flags.append(int(member.flags))
            text.append(names.of_text(member.name))
    only = np.flatnonzero(bodies.symbol >= 0)
    unnamed = np.flatnonzero(bodies.function >= 0)
    is_local = image.symbols.bind[bodies.symbol[only]] == _STB_LOCAL
    all_bodies = np.concatenate([np.array(body, np.int64), only, unnamed])
    function = np.full(len(all_bodies), -1, np.int64)
    unnamed_names = np.zeros(len(unnamed), np.uint32)
    if scan is not None and debug is not None:
        functions = _Functions(scan)
        counts = np.bincount(all_bodies, minlength=len(bodies.start))
        alone = counts[all_bodies] == 1
        function[alone] = functions.first_at(bodies.start[all_bodies[alone]])
        _claim_merged(debug, functions, folds, function)
        owner = scan.function_ranges.owner[bodies.function[unnamed]]
        identity = resolve(debug, scan.functions.die[owner])
        unnamed_names = names.of_references(np.where(identity.linkage_name != 0, identity.linkage_name, identity.name))
    name = np.concatenate([np.array(text, np.uint32), names.of_symbols(bodies.symbol[only]), unnamed_names])
    flag = np.zeros(len(all_bodies), np.uint32)
    flag[: len(flags)] = flags
    flag[len(flags) : len(flags) + len(only)] = np.where(is_local, int(MemberFlag.LOCAL), 0)
    order = np.argsort(all_bodies, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    all_bodies = all_bodies[order]
    counts = np.bincount(all_bodies, minlength=len(bodies.start))
    return Claims(
        all_bodies, counts[all_bodies] > 1, name[order], flag[order],
        {int(place[row]): found for row, found in aliases.items()}, function[order],
    )  # fmt: skip


def _claim_merged(debug: DebugInfo, functions: _Functions, folds: list[tuple[int, FoldClass]], function: I64) -> None:
    """Fill in the functions of the members of bodies that have several; theirs are the first rows."""
    rows: list[tuple[int, Member, list[int]]] = []
    at = 0
    for _, fold in folds:
        if len(fold.members) > 1:
            here = functions.at(fold.vaddr)
            rows += [(at + i, member, here) for i, member in enumerate(fold.members)]
        at += len(fold.members)
    described = sorted({owner for _, _, here in rows for owner in here})
    if not described:
        return
    identity = resolve(debug, functions.die[np.array(described, np.int64)])
    references = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name).tolist()
    name_of = {owner: debug.string(text) for owner, text in zip(described, references, strict=True)}
    external = dict(zip(described, identity.external.tolist(), strict=True))
    for row, member, here in rows:
        if member.die and not member.flags & MemberFlag.SYNTHETIC:
            function[row] = next((owner for owner in here if int(functions.die[owner]) == member.die), -1)
            if function[row] >= 0 or not member.flags & MemberFlag.KEPT:
                continue
        known = {text.encode("utf-8", "surrogateescape") for text in (member.name, *member.aliases)}
        same = [owner for owner in here if name_of[owner] in known]
        if len(same) == 1 or (same and all(external[owner] for owner in same)):
            function[row] = same[0]
