"""Chooses the functions that have to stay apart so that no evidence leaves two members of a body.

Of the members of a body that one piece of evidence allows together (`linkpass.distinct.evidence_sets`) all but one have
to be kept apart. The others stay folded with that one. A function that is kept apart differs from its siblings for its
callers, too, so callees come first, and members that already differ by what they call need nothing:

    grow<A> grow<B>   both in vtables                        keep grow<A> apart
    add<A>  add<B>    both in vtables, call grow<A>, <B>     they differ now

Members in one section of one object stay together, whatever is marked: the compiler has merged them. The search is
greedy. The copies of a body are alike, so the choice makes no difference in size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from icf.model import FoldClass
from icf.tables.dcall import DirectCalls
from icf.tables.foldtable import IcfTable
from linkpass.distinct.evidence_sets import Node, evidence_sets
from linkpass.keep_unique import callees_first, known_callees


class Plan(NamedTuple):
    """What has to stay apart: members by class index and member index."""

    apart: list[Node]
    remaining: list[tuple[Node, ...]]  # members of a body that stay together


def make_plan(
    table: IcfTable,
    calls: DirectCalls,
    place_of: Callable[[Node], Hashable | None],
    wanted: Callable[[FoldClass], Sequence[int]] | None = None,
) -> Plan:
    """Return the functions to keep apart.

    Args:
        table: the tables of the image.
        calls: its direct calls.
        place_of: returns the section that a member can be kept apart by; None if it cannot.
        wanted: returns the sets of members, as masks, that are to be distinguished; None: those of all evidence.
    """
    classes = table.classes
    if wanted is None:
        sets = evidence_sets(table)
    else:
        sets = {idx: set(masks) for idx, fold in enumerate(classes) if fold.merged and (masks := wanted(fold))}
    callees = known_callees(classes, table.tail_calls, calls)
    group: dict[Node, int] = {}  # members of a class that have one group are identical
    plan = Plan([], [])
    for class_idx in callees_first(classes, callees):
        members = range(len(classes[class_idx].members))
        alike: dict[tuple[int, ...], list[Node]] = {}
        for idx in members:
            signature = tuple(group.get(each[idx], 0) for each in callees.get(class_idx, ()))
            alike.setdefault(signature, []).append((class_idx, idx))
        for number, identical in enumerate(alike.values()):
            group.update((node, number) for node in identical)
            units = _units(identical, sets.get(class_idx, set()), place_of)
            for unit in _to_part(units, plan.remaining):
                plan.apart.append(unit[0])
                group.update((node, -1 - node[1]) for node in unit)
    return plan


class _Units(NamedTuple):
    """Members that can be parted from each other; those in `fixed` from no other that is in it."""

    units: list[tuple[Node, ...]]
    fixed: set[int]
    sets: set[frozenset[int]]  # of units that are to be distinguished
    together: list[tuple[Node, ...]]  # that are to be distinguished, and are one unit


def _units(identical: Sequence[Node], masks: set[int], place_of: Callable[[Node], Hashable | None]) -> _Units:
    every = sum(1 << idx for _, idx in identical)
    masks = {mask & every for mask in masks if mask & every & ((mask & every) - 1)}
    by_place: dict[object, list[Node]] = {}
    for node in identical if masks else ():
        if any(mask >> node[1] & 1 for mask in masks):
            place = place_of(node)
            by_place.setdefault(node if place is None else (place,), []).append(node)
    units = [tuple(nodes) for nodes in by_place.values()]
    fixed = {at for at, key in enumerate(by_place) if key == units[at][0]}
    of_member = {idx: at for at, unit in enumerate(units) for _, idx in unit}
    sets, together = set(), []
    for mask in sorted(masks):
        found: dict[int, list[Node]] = {}
        for node in identical:
            if mask >> node[1] & 1:
                found.setdefault(of_member[node[1]], []).append(node)
        sets.add(frozenset(found))
        together += [tuple(nodes) for nodes in found.values() if len(nodes) > 1]
    return _Units(units, fixed, sets, together)


def _to_part(given: _Units, remaining: list[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    """Return the units to keep apart, so that no set has two of the others."""
    stuck = [tuple(given.units[at][0] for at in sorted(each & given.fixed)) for each in given.sets]
    for nodes in (*given.together, *sorted(each for each in stuck if len(each) > 1)):
        if nodes not in remaining:
            remaining.append(nodes)
    together, apart = set(given.fixed), []
    counts = {at: sum(at in each for each in given.sets) for at in range(len(given.units))}
    for at in sorted(set(counts) - together, key=lambda at: (counts[at], at)):
        if any(at in each and each & together for each in given.sets):
            apart.append(given.units[at])
        else:
            together.add(at)
    return apart
