"""The functions that each frame of a stack can be, by plain recursion outwards and inwards.

The proposal: "In some cases, the point of call may itself be in a merged function. [...] a PC that could be in either B
or D will have a return pointer that could be in either A or C. We would need to recursively determine whether we are in
A or C before we can decide whether we are in B or D."

So a frame can be a function if a function that its caller can be calls it there, and if it calls a function that the
frame inwards of it can be. If a frame can be no function, its pair with its caller is cut: both are contradicted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from icf.aliases import function_name, same_function
from icf.model import Member, MemberFlag, RuntimeAddr, Verdict, Vtable
from unwind.callgraph.jumps import jump_graph
from unwind.process.process import Process
from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.resolve.answer import OUTSIDE, one, several, unknown
from unwind.resolve.moved import SPECIAL, Moves
from unwind.resolve.places import Place, Places, is_hidden
from unwind.second_reader.pairs import Callee, Pairs
from unwind.second_reader.reach import Functions
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import Reason, ReasonCode

_REASON = Reason(ReasonCode.SEVERAL_CALLERS, "the second reader finds no fewer")


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    address: int | None
    place: Place
    is_exact: bool
    is_outside: bool  # in an unknown module
    callee: Callee | None  # None: in no function

    @property
    def functions(self) -> Sequence[int]:
        """All functions that it could be."""
        return () if self.callee is None else self.callee.body.nodes


class SecondResolver:
    """A slow resolver with the interface of `Resolver`."""

    def __init__(self, process: Process | Program, *, use_vptrs: bool = True) -> None:
        self._process = process if isinstance(process, Process) else Process.of(process)
        self._use_vptrs = use_vptrs
        self.places = Places(self._process)
        programs = list(self._process.programs())
        hides_jumps = self._process.is_whole and any(program.hides_jumps for program in programs)
        self._pairs = Pairs(jump_graph(programs), self._process.candidates, hides_jumps=hides_jumps)
        self._moves = Moves(lambda body, group: body.program.may_form(body, group))

    def resolve(
        self, addresses: Sequence[int | None], vptrs: Sequence[tuple[int, int]] = (), exact: Collection[int] = ()
    ) -> tuple[Answer, ...]:
        """Return an answer for each frame of a stack, innermost first; the arguments are those of `Resolver`."""
        frames = self._frames(addresses, dict(vptrs) if self._use_vptrs else {}, exact)
        cuts: set[int] = set()  # frames that no candidate of their caller calls

        @cache
        def outwards(idx: int, function: int) -> bool:
            """Return whether frame `idx` can be `function`, by all that is outwards of it."""
            if not called(idx, function):
                return False
            left = called_back(idx)
            return not left or function in left

        @cache
        def called_back(idx: int) -> Functions:
            """Return the functions that frame `idx` can be, as an import calls it back; empty: that says nothing."""
            frame, origin = frames[idx].callee, self._origin(frames, idx)
            if frame is None or not origin:
                return frozenset()
            outer = frames[origin]
            given = frozenset[int]().union(
                *(
                    self._pairs.called_back(outer.place.return_address, caller, frame)
                    for caller in outer.functions
                    if origin in cuts or outwards(origin, caller)
                )
            )
            return frozenset(each for each in given if called(idx, each))

        @cache
        def called(idx: int, function: int) -> bool:
            """Return whether frame `idx` can be `function`, by its caller."""
            if idx + 1 == len(frames) or not self._knows_caller(frames, idx):
                return True
            outer = frames[idx + 1]
            if not outer.functions:
                return self._may_call(frames, idx, None, function)
            return any(
                self._may_call(frames, idx, caller, function) and (idx + 1 in cuts or outwards(idx + 1, caller))
                for caller in outer.functions
            )

        @cache
        def inwards(idx: int, function: int) -> bool:
            """Return whether frame `idx` can be `function`, by all that is inwards of it."""
            if not idx or idx - 1 in cuts or not frames[idx - 1].functions or not self._knows_caller(frames, idx - 1):
                return True
            return any(
                self._may_call(frames, idx - 1, function, callee) and inwards(idx - 1, callee)
                for callee in frames[idx - 1].functions
            )

        for idx in reversed(range(len(frames))):  # in this order each question is one step from those answered
            if frames[idx].functions and not any(outwards(idx, function) for function in frames[idx].functions):
                cuts.add(idx)
        answers = []
        for idx, frame in enumerate(frames):
            left = frozenset(each for each in frame.functions if outwards(idx, each) and inwards(idx, each))
            answers.append(self._answer(frame, frozenset() if {idx, idx - 1} & cuts else left))
        return tuple(answers)

    def _origin(self, frames: Sequence[_Frame], idx: int) -> int:
        """Return the frame whose call of an import calls frame `idx` back; 0: none is known."""
        library: Program | None = None
        for outer in range(idx + 1, len(frames)):
            frame = frames[outer]
            program = self._program_of(frame)
            if program is None or not frame.place.return_address or frame.place.is_trampoline:
                return 0
            site = program.code.call_site(frame.place.return_address)
            if library is not None and program is not library:
                is_known = frame.callee is not None and bool(
                    program.given(frame.place.return_address, frame.callee.body)
                )
                if not is_known or site.kind is not SiteKind.IMPORT or frame.callee is None:
                    return 0
                return outer if self._process.c_library_with(site.symbol) is library else 0
            is_alone = frame.callee is None or frame.callee.body.settled
            if not is_alone or site.kind is not (SiteKind.INDIRECT if library is None else SiteKind.DIRECT):
                return 0
            library = program
        return 0

    def _program_of(self, frame: _Frame) -> Program | None:
        module = None if frame.address is None else self._process.module_at(RuntimeAddr(frame.address))
        return None if module is None else self._process.program(module)

    def _knows_caller(self, frames: Sequence[_Frame], idx: int) -> bool:
        """Return whether the caller of a frame is known."""
        frame, outer = frames[idx], frames[idx + 1]
        if outer.callee is not None:
            return outer.place.return_address != 0
        return outer.is_outside and not frame.is_exact

    def _may_call(self, frames: Sequence[_Frame], idx: int, caller: int | None, function: int) -> bool:
        """Return whether frame `idx` can be `function` if its caller is `caller`; None: that is outside."""
        callee = frames[idx].callee
        assert callee is not None
        if callee.body.settled:
            return True  # its name is certain with any caller
        if caller is None:
            return function in self._pairs.called_from_outside(callee)
        return function in self._pairs.called(frames[idx + 1].place.return_address, caller, callee)

    def _frames(self, addresses: Sequence[int | None], vptrs: dict[int, int], exact: Collection[int]) -> list[_Frame]:
        frames: list[_Frame] = []
        for idx, address in enumerate(addresses):
            is_exact = idx == 0 or idx in exact or frames[-1].place.is_trampoline
            if address is None:
                frames.append(_Frame(None, Place(0, None), is_exact, True, None))
                continue
            place = self.places.of(address, is_exact)
            is_outside = place.body is None and self._process.module_at(RuntimeAddr(address)) is None
            callee = None
            if place.body is not None:
                is_entry = not place.return_address and place.vaddr == place.body.start
                vptr = vptrs.get(idx, 0) - place.body.program.bias
                inner = [frame.callee.body for frame in frames if frame.callee is not None]
                hidden = [frame.place.program for frame in frames if is_hidden(frame.place)]
                is_known = any(vtable.vaddr == vptr for vtable in _vtables(place.body.program, vptr))
                counts = (
                    is_known
                    and place.body.program.knows_vtable(vptr)
                    and (is_entry or not self._may_be_moved(inner, hidden, place.body, vptr))
                )
                callee = Callee(place.body, vptr if counts else 0, is_entry)
            frames.append(_Frame(address, place, is_exact, is_outside, callee))
        return frames

    def _may_be_moved(self, inner: list[Body], hidden: list[Program | None], body: Body, vptr: int) -> bool:
        """Return whether code that ran since the frame in `body` was entered may have moved its object's vtable
        pointer.
        """
        group = body.program.vtable_group(vptr)
        names = [name for each in inner for member in each.members for name in (member.name, *member.aliases)]
        return (
            any(map(SPECIAL.search, names))
            or any(each.program.may_form(each, group) for each in (body, *inner))
            or any(program is not None and program.may_form(None, group) for program in hidden)
            or self._moves.may_be_moved(body, group)
        )

    def _answer(self, frame: _Frame, left: Functions) -> Answer:
        address, vaddr = frame.address, frame.place.vaddr
        if address is None:
            return OUTSIDE
        if frame.callee is None:
            return unknown(self._process, RuntimeAddr(address), frame.place)
        body = frame.callee.body
        if body.settled:
            return one(address, vaddr, body, 0, Verdict.UNMERGED)
        mask = body.mask_of(left)
        listed = sorted(function - body.first_node for function in left)
        is_listed = bool(listed) and listed[-1] < len(body.members)
        members = [body.members[idx] for idx in listed if idx < len(body.members)]
        if len(listed) == 1 and is_listed:
            return one(address, vaddr, body, listed[0], Verdict.UNIQUE)
        common = _common_name(members) if is_listed else ""
        if common:
            return several(address, vaddr, body, mask, Verdict.UNIQUE, common)
        verdict = Verdict.AMBIGUOUS if len(members) == len(body.members) else Verdict.NARROWED
        if not left:
            verdict, mask, members = Verdict.CONTRADICTED, body.domain, list(body.members)
        names = tuple(dict.fromkeys(member.name for member in members))
        return several(address, vaddr, body, mask, verdict, names, reason=_REASON)


def _vtables(program: Program, vptr: int) -> Sequence[Vtable]:
    """Return the vtables that an object of a frame may have: those of its module, or of the one that `vptr` lies in."""
    return (*program.vtables, *program.borrowed_vtables(vptr))


def _common_name(members: Sequence[Member]) -> str:
    """Return the name of the one function that all these are: of several files, or its clones; "": they are not."""
    source = function_name(members[0].name)
    for member in members:
        if member.flags & MemberFlag.NAMELESS or not same_function(source, function_name(member.name)):
            return ""
    names = {member.name for member in members}
    whole = sorted(name for name in names if function_name(name) == name)
    return names.pop() if len(names) == 1 else [*whole, source][0]
