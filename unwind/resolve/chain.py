"""One frame, given its caller: the steps of the sweep from the outermost frame inwards.

A step is a frame and the candidates that are possible for it, given those of its caller. It depends on its
caller's address and candidates and on nothing further out, so the steps of all stacks together form a small
automaton: state = (address, possible candidates), input = the next address inwards.

    (root) --0x4011f0--> main {main} --0x401180--> 0x401180 {a, b} --0x401136--> 0x401136 {p, q}

A kernel follows those that were taken once (`unwind.resolve.walk`). A step carries the frame's answer for the case
that nothing further in restricts it, which `plain` steps never do: most stacks need no other work.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from icf.demangle import demangle
from icf.model import Evidence, RuntimeAddr, Verdict
from unwind.process.process import Process
from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.program.ways import bits
from unwind.resolve import reasons
from unwind.resolve.answer import BY_VPTR, OUTSIDE, one, several, unknown
from unwind.resolve.callbacks import is_frame_of, library_of_call
from unwind.resolve.callee import Callee
from unwind.resolve.findings import Finding, finding_of
from unwind.resolve.lost_frames import Function
from unwind.resolve.missing_frames import MissingFrame, MissingFrames
from unwind.resolve.places import Marked, Place, Places, Sampled
from unwind.resolve.relations import FOREIGN, Group, Relation, Relations
from unwind.samples.recording import Losses
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import Reason, ReasonCode

_WORDS: dict[Evidence | None, str] = {None: "", **{each: each.name.lower() for each in Evidence}}

CALLED_NOTHING = None  # the state of frames that wait for no call: as if their callee had no caller


@dataclass(slots=True, eq=False)
class Step:
    """A frame after its caller; `possible` are the candidates that some possible caller allows."""

    address: int | None
    vaddr: int = 0
    body: Body | None = None
    possible: int = 0
    return_address: int = 0  # of the call that it waits for, as linked; 0: it has made none
    is_outside: bool = False  # in no known module
    vptr: int = 0  # of its object, as linked, if it counts
    losses: Losses = Losses.NONE  # frames that may be missing between it and its caller
    calls: int | None = None  # the direct target of that call, as linked; -1: it has none; None: not decoded
    caller: Step | None = None  # None: the frame is the same with any caller
    relation: Relation | None = None  # to the caller; None: there is nothing to know
    by_vptr: bool = False  # without the vtable pointer of its object more candidates would be possible
    broken: bool = False  # no possible caller allows anything, so the pair was cut
    repaired: int = 0  # then: the candidates that are possible if one frame is missing in between
    plain: bool = True  # it does not restrict its caller
    is_trampoline: bool = False  # of a signal: the frame outwards of it is exact
    within: Step | None = None  # the frame that called the import to which this one belongs, if that calls back
    library: Program | None = None  # then: the C library
    answer: Answer = OUTSIDE

    @property
    def depends_on_caller(self) -> bool:
        """Whether it may be another step after another caller.

        Its function is merged, a tail call left some out, or it belongs to an import that calls back.
        """
        if self.within is not None:
            return True
        return self.body is not None and (not self.body.settled or bool(self.answer.missing))

    @property
    def state(self) -> Hashable:
        """What the steps from it depend on: callers with the same one have called the same frames."""
        if self.body is None or self.within is not None:
            return self
        return (self.address, self.possible) if self.return_address else CALLED_NOTHING

    def enters(self, body: Body) -> bool:
        """Return whether its call is known to lead straight to a body, as most calls do; not before it is decoded."""
        is_own = self.body is not None and self.body.program is body.program
        return self.calls == body.start and is_own and self.within is None


class Chains:
    """Makes the steps of one process, each once."""

    def __init__(self, process: Process, places: Places) -> None:
        self._process, self._places = process, places
        self._relations = Relations()
        self._missing = MissingFrames()
        self._left_out: dict[tuple[int, int, Body, int], tuple[Answer, ...]] = {}
        self._alone: tuple[dict[int, Step], dict[int, Step]] = {}, {}  # not changed by any caller; of exact addresses
        self._steps: dict[tuple[object, ...], Step] = {}
        self._answers: dict[tuple[object, ...], Answer] = {}
        self._names: dict[tuple[Body, int, bool], Finding] = {}
        self.root = Step(None)
        self._outside = Step(None, possible=FOREIGN, is_outside=True)
        self.size = 0  # steps and answers that are kept

    def step(self, caller: Step, frame: Sampled, is_pc: bool) -> Step:
        """Return the step from `caller` to a frame that it called."""
        if frame is None:
            return self._outside
        if caller.body is not None and not caller.return_address:
            caller = self.root  # it has called nothing
        if isinstance(frame, Marked):
            address, vptr, is_exact, losses = frame
            return self._intern(caller, address, vptr, is_pc or is_exact, losses)
        return self._intern(caller, frame, 0, is_pc, Losses.NONE)

    def _intern(self, caller: Step, address: int, vptr: int, is_exact: bool, losses: Losses) -> Step:
        alone = self._alone[is_exact].get(address)
        if alone is None:
            place = self._places.of(address, is_exact)
            if place.body is not None and not place.body.settled:
                return self._merged(caller, address, vptr, is_exact, losses, place, place.body)
            alone = self._unknown(address, place) if place.body is None else _settled(address, place, place.body, ())
            self._alone[is_exact][address] = alone
            self.size += 1
        if losses is not Losses.NONE:
            return alone
        library = self._library(caller)
        if library is not None and not is_frame_of(
            library, self._program_at(address), self._places.of(address, is_exact)
        ):
            library = None
        if library is None and (alone.body is None or caller.enters(alone.body)):
            return alone
        missing: tuple[Answer, ...] = ()
        if alone.body is not None:
            missing = self._missing_frames(caller, caller.possible, alone.body, alone.body.domain)
        if not missing and library is None:
            return alone
        within = None if library is None else caller.within or caller
        key = (address, vptr, is_exact, caller.address, caller.possible, losses, *_key_of(within))
        step = self._steps.get(key)
        if step is None:
            place = self._places.of(address, is_exact)
            if alone.body is None:
                step = replace(alone, return_address=place.return_address, possible=FOREIGN)
            else:
                step = _settled(address, place, alone.body, missing)
            step.within, step.library = within, library
            self._steps[key] = step
            self.size += 1
        return step

    def _library(self, caller: Step) -> Program | None:
        """Return the C library if a frame of it that `caller` has called belongs to an import that calls back."""
        if caller.library is not None:
            is_direct = caller.library.code.call_site(caller.return_address).kind is SiteKind.DIRECT
            return caller.library if is_direct else None
        if caller.body is None or not caller.return_address or not caller.body.program.has_callbacks:
            return None
        return library_of_call(self._process, caller.body, caller.return_address)

    def _program_at(self, address: int) -> Program | None:
        module = self._process.module_at(RuntimeAddr(address))
        return None if module is None else self._process.program(module)

    def _merged(
        self, caller: Step, address: int, vptr: int, is_exact: bool, losses: Losses, place: Place, body: Body
    ) -> Step:
        depends = (
            caller.body is not None
            or caller.within is not None
            or (
                caller.is_outside and not is_exact and losses is Losses.NONE  # what it called may be missing
            )
        )
        key: tuple[object, ...] = address, is_exact
        if depends:
            key = address, vptr, is_exact, caller.address, caller.possible, losses, *_key_of(caller.within)
        step = self._steps.get(key)
        if step is None:
            callee = Callee(body, vptr, not place.return_address and place.vaddr == body.start)
            step = self._steps[key] = self._make(caller if depends else None, address, place, callee, losses)
            self.size += 1
        return step

    def _make(self, caller: Step | None, address: int, place: Place, frame: Callee, losses: Losses) -> Step:
        body = frame.body
        step = Step(address, place.vaddr, body, body.domain, place.return_address, caller=caller, vptr=frame.vptr)
        step.losses, step.is_trampoline = losses, place.is_trampoline
        step.relation = self._relate(caller, frame, losses)
        if caller is None or step.relation is None:
            step.answer = self._answer(step, body.domain, 0, "", reasons.NO_CALLER)
            return step
        left = step.relation.left_by(caller.possible)
        if frame.vptr:
            plain = self._relate(caller, frame._replace(vptr=0), losses)
            step.by_vptr = left.allowed != (body.domain if plain is None else plain.forward(caller.possible))
        step.broken = not left.allowed
        if step.broken and losses is Losses.NONE and caller.body is not None:
            lost = self._relations.between(caller.return_address, caller.body, frame, Losses.ANY, only_lost=True)
            step.repaired = lost.forward(caller.possible)
        step.possible = left.allowed or body.domain
        step.plain = not step.broken and not left.restricts
        evidence = BY_VPTR if step.by_vptr else _WORDS[left.evidence]
        step.answer = self._answer(step, step.possible, caller.possible, evidence, left.why)
        return step

    def _relate(self, caller: Step | None, frame: Callee, losses: Losses) -> Relation | None:
        """Return the relation of a frame to its caller; None: there is nothing to know."""
        if caller is None:
            return None
        relation = self._relations.from_outside(frame) if caller.is_outside else None
        if caller.body is not None:
            relation = self._relations.between(caller.return_address, caller.body, frame, losses)
        is_whole = losses is Losses.NONE and caller.within is not None
        return self._called_back(caller, frame, relation) if is_whole else relation

    def _called_back(self, caller: Step, frame: Callee, relation: Relation | None) -> Relation | None:
        """Return the relation to a frame of the C library, less what it was not given to call back."""
        origin, library = caller.within, caller.library
        assert origin is not None and origin.body is not None and library is not None
        if library.code.call_site(caller.return_address).kind is not SiteKind.INDIRECT:
            return relation
        given = self._relations.called_back(origin.return_address, origin.body, frame)
        allowed = frame.body.domain if relation is None else relation.forward(caller.possible)
        left = allowed & given.forward(origin.possible)
        if left in (0, allowed):
            return relation
        evidence, why = given.evidence(origin.possible, left), given.why_open(origin.possible)
        return self._relations.of_one(Group(caller.possible, left, evidence, why))

    def answer(self, step: Step, left: int, callers: int, inner: tuple[Step, int] | None) -> Answer:
        """Return the answer for a merged frame with the candidates `left` and its caller's `callers`.

        `inner` is the frame that it called, with what is left of it, if that frame made the difference.
        """
        relation, by_vptr = step.relation, step.by_vptr
        why = reasons.NO_CALLER if relation is None else relation.why_open(callers)
        evidence = None if relation is None else relation.evidence(callers, left)
        if inner is not None:
            by_vptr = by_vptr or inner[0].by_vptr
            if inner[0].relation is not None:
                evidence = inner[0].relation.evidence(left, inner[1])
        return self._answer(step, left, callers, BY_VPTR if by_vptr else _WORDS[evidence], why)

    def _answer(self, step: Step, left: int, callers: int, evidence: str, why: Reason | None) -> Answer:
        missing: tuple[Answer, ...] = ()
        if step.caller is not None and step.body is not None and not step.broken and step.losses is Losses.NONE:
            missing = self._missing_frames(step.caller, callers, step.body, left)
        return self._of_merged(step, left, evidence, why or reasons.SEVERAL_CALLERS, missing)

    def _of_merged(
        self,
        step: Step,
        left: int,
        evidence: str,
        reason: Reason,
        missing: tuple[Answer, ...],
        *,
        is_certain: bool = True,
    ) -> Answer:
        """Return the answer for a merged frame that says so; equal ones are one object."""
        body = step.body
        assert body is not None
        finding = self._names.get((body, left, is_certain))
        if finding is None:
            finding = self._names[body, left, is_certain] = finding_of(body, left, is_certain=is_certain)
        evidence = evidence if finding.shows_evidence else ""
        why = None if finding.verdict is Verdict.UNIQUE else reason
        key = (step.address, step.vaddr, left, is_certain, evidence, why, missing)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = _answer(step, finding, evidence, reason, missing)
            self.size += 1
        return answer

    def _missing_frames(self, caller: Step, callers: int, body: Body, left: int) -> tuple[Answer, ...]:
        """Return the frames that tail calls left out between a frame in `body` and its caller."""
        if caller.body is None:
            return ()
        program = caller.body.program
        if caller.calls is None:
            site = program.code.call_site(caller.return_address)
            caller.calls = site.target if site.kind is SiteKind.DIRECT else -1
        if caller.enters(body):
            return ()
        key = (caller.return_address + program.bias, callers, body, left)
        answers = self._left_out.get(key)
        if answers is None:
            frames = self._missing.between(caller.return_address, caller.body, callers, body, left)
            answers = self._left_out[key] = tuple([_missing_answer(frame) for frame in frames])
        return answers

    def contradiction(self, step: Step, callee: Step, left: int, beyond: Step | None) -> Answer:
        """Return the answer for `step`, which is `callee` or the frame that called it: this pair fits nothing.

        If it fits with a frame in between, those of `left` remain that fit so, and no name is certain. But not
        if the callee fits the frame `beyond` its caller: then that caller may be what does not belong there.
        """
        caller = callee.caller
        reason = None if not callee.repaired or self._fits(callee, beyond) else self._missing_between(callee)
        if reason is None:
            left = 0
        elif step is callee:
            left &= callee.repaired
        if reason is None or not left:
            where = f"{caller.address:#x}" if caller is not None and caller.address is not None else "?"
            assert callee.address is not None
            reason = reasons.nothing_fits(where, callee.address)
        elif step is not callee:
            reason = reasons.MISSING_CALLEE
        return self._of_merged(step, left, "", reason, (), is_certain=False)

    def _fits(self, step: Step, caller: Step | None) -> bool:
        """Return whether another caller than that in the stack may have called a frame."""
        if caller is None or caller.body is None or not caller.return_address or step.body is None:
            return False
        relation = self._relations.between(caller.return_address, caller.body, _callee(step, step.body))
        return relation.forward(caller.possible) != 0

    def _missing_between(self, callee: Step) -> Reason | None:
        """Return the reason for a frame that fits its caller with one in between, whose name it has if one fits.

        None if any function could be that frame.
        """
        caller, body = callee.caller, callee.body
        assert caller is not None and caller.body is not None and body is not None
        functions: set[Function] = set()
        for idx in bits(caller.possible):
            found = self._relations.lost_frames.fitting(caller.return_address, caller.body, idx, _callee(callee, body))
            if found is None:
                return None
            functions |= found
        names = {lost.members[idx].name for lost, idx in functions if idx < len(lost.members)}
        return (
            reasons.missing_frame(demangle(names.pop())) if len(functions) == len(names) == 1 else reasons.MISSING_FRAME
        )

    def _unknown(self, address: int, place: Place) -> Step:
        """Return a frame in no function: its module is known, or it is outside of all that is."""
        runtime = RuntimeAddr(address)
        answer, is_outside = unknown(self._process, runtime, place), self._process.module_at(runtime) is None
        possible = FOREIGN if is_outside else 0
        step = Step(address, place.vaddr, is_outside=is_outside, possible=possible, answer=answer)
        step.is_trampoline = place.is_trampoline
        return step


def _key_of(within: Step | None) -> tuple[int | None, ...]:
    """Return what the frames that belong to the call of a frame depend on."""
    return () if within is None else (within.address, within.possible)


def _callee(step: Step, body: Body) -> Callee:
    return Callee(body, step.vptr, not step.return_address and step.vaddr == body.start)


def _settled(address: int, place: Place, body: Body, missing: tuple[Answer, ...]) -> Step:
    """Return a frame whose body is that of one function."""
    answer = one(address, place.vaddr, body, 0, Verdict.UNMERGED, missing=missing)
    step = Step(address, place.vaddr, body, body.domain, place.return_address, answer=answer)
    step.is_trampoline = place.is_trampoline
    return step


def _answer(
    step: Step, finding: Finding, evidence: str, reason: Reason, missing: tuple[Answer, ...], *, tail_call: bool = False
) -> Answer:
    """Return the answer for a merged frame."""
    address, vaddr, body = step.address, step.vaddr, step.body
    assert body is not None
    evidence = evidence if finding.shows_evidence else ""
    if finding.member_idx >= 0:
        return one(address, vaddr, body, finding.member_idx, finding.verdict, evidence, missing, tail_call)
    if finding.lacks_names and reason.code is not ReasonCode.MISSING_FRAME:
        reason = reasons.unnamed(body.start + body.program.bias)
    why = None if finding.verdict is Verdict.UNIQUE else reason
    return several(
        address, vaddr, body, finding.left, finding.verdict, finding.names, evidence, why, missing, tail_call
    )


def _missing_answer(frame: MissingFrame) -> Answer:
    step = Step(frame.jump + frame.body.program.bias if frame.jump else None, frame.jump, frame.body)
    if frame.body.settled:
        return one(step.address, step.vaddr, frame.body, 0, Verdict.UNMERGED, tail_call=True)
    finding = finding_of(frame.body, frame.members)
    return _answer(step, finding, "", reasons.SEVERAL_TAIL_CALLERS, (), tail_call=True)
