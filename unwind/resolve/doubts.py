"""Where the ambiguity of a frame begins, and the circles of callers that pass it on.

A frame passes on the doubt about its caller if each function that the caller can be calls one function there. So does
that caller, perhaps; the doubt begins where a frame has another reason:

    #0  p or q    a calls p, b calls q                     passes it on
    #1  a or b    main calls through a pointer             here it begins

Functions of a recursion pass it on without end. The calls that the frames of a stack show are a graph, and its
strongly connected components are these circles:

    #0  f or g    f calls g, and g calls f
    #1  f or g    its caller is not known                  here it begins
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx

from unwind.callgraph.questions import circles_among
from unwind.program.parts import SiteKind
from unwind.program.ways import bits
from unwind.resolve.chain import Step

Circle = list[int]  # functions, as numbers of candidates


class Doubt(NamedTuple):
    """Why a frame can be several functions."""

    begins: int  # the frame with which it begins, by its index
    circles: list[Circle]  # whose calls pass it on from frame to frame
    needs_record: bool  # a record of one callee for the call of that frame would end it


class Doubts:
    """The doubts about the frames of one stack.

    Args:
        steps: its steps, innermost first.
        left: what is left of each frame and of its caller (`unwind.resolve.resolver.left_over`).
    """

    def __init__(self, steps: Sequence[Step], left: Sequence[tuple[int, int]]) -> None:
        self._steps, self._left = steps, left
        self._passes_on = [_passes_on(step, *masks) for step, masks in zip(steps, left, strict=True)]
        calls: nx.DiGraph[int] = nx.DiGraph()
        for idx, passes_on in enumerate(self._passes_on):
            calls.add_edges_from(_calls(steps[idx], *left[idx]) if passes_on else ())
        self._circles = circles_among(calls, calls)

    def about(self, idx: int) -> Doubt:
        """Return the doubt about a frame that can be several functions."""
        begins = idx
        while self._passes_on[begins]:
            begins += 1
        return Doubt(begins, self._circles_of(idx), _needs_record(self._steps[begins], self._left[begins][1]))

    def _circles_of(self, idx: int) -> list[Circle]:
        """Return the circles that a frame and its caller are in, whichever functions they are."""
        if not self._passes_on[idx]:
            return []
        mine, callers = (self._functions(each) for each in (idx, idx + 1))
        found = [circle for circle in self._circles if not mine.isdisjoint(circle)]
        return found if (mine | callers).issubset(function for circle in found for function in circle) else []

    def _functions(self, idx: int) -> set[int]:
        body = self._steps[idx].body
        return set() if body is None else {body.first_node + each for each in bits(self._left[idx][0])}


def _passes_on(step: Step, left: int, callers: int) -> bool:
    """Return whether a frame can be several functions only because its caller can."""
    if step.relation is None or step.broken or step.caller is None or step.caller.body is None:
        return False
    return bool(left & (left - 1) and callers & (callers - 1)) and step.relation.why_open(callers) is None


def _calls(step: Step, left: int, callers: int) -> list[tuple[int, int]]:
    """Return caller and callee for each function that the caller of a frame can be."""
    assert step.relation is not None and step.body is not None and step.caller is not None
    outer, first_node = step.caller.body, step.body.first_node
    assert outer is not None
    return [
        (outer.first_node + caller, first_node + callee)
        for group in step.relation.groups
        for caller in bits(group.callers & callers)
        for callee in bits(group.allowed & left)
    ]


def _needs_record(step: Step, callers: int) -> bool:
    """Return whether a frame was called by one function, directly, and just the record of its callee is missing."""
    outer = step.caller.body if step.caller is not None else None
    if (
        outer is None
        or step.caller is None
        or step.body is None
        or callers not in (1 << idx for idx in bits(outer.listed))
    ):
        return False
    if not outer.settled and not outer.members[callers.bit_length() - 1].die:
        return False  # a record could not name it
    return_address = step.caller.return_address
    site = outer.program.code.call_site(return_address)
    enters = site.kind is SiteKind.DIRECT and outer.program.body_at(site.target) is step.body
    return enters and callers.bit_length() - 1 not in outer.program.callees(return_address, outer)
