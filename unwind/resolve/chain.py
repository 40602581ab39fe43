"""One frame, given its caller: the steps of the sweep from the outermost frame inwards.

A step is a frame and the candidates that are possible for it, given those of its caller. It depends on its
caller's address and candidates and on nothing further out, so the steps of all stacks together form a small
automaton: state = (address, possible candidates), input = the next address inwards.

    (root) --0x4011f0--> main {main} --0x401180--> 0x401180 {a, b} --0x401136--> 0x401136 {p, q}

A kernel follows those that were taken once (`unwind.resolve.walk`). A step carries the frame's answer for the case
that nothing further in restricts it, which `plain` steps never do: most stacks need no other work.
"""

from __future__ import annotations

from dataclasses import dataclass

from icf.aliases import function_name, same_function
from icf.demangle import demangle
from icf.model import Member, MemberFlag, RuntimeAddr, Verdict
from unwind.process.process import Process
from unwind.program.dispatch import bits
from unwind.program.parts import SiteKind
from unwind.program.program import Body
from unwind.resolve import reasons
from unwind.resolve.answer import BY_VPTR, OUTSIDE, one, several, unknown
from unwind.resolve.callee import Callee
from unwind.resolve.lost_frames import Function
from unwind.resolve.missing_frames import MissingFrame, MissingFrames
from unwind.resolve.places import Marked, Place, Places, Sampled
from unwind.resolve.relations import FOREIGN, Relation, Relations
from unwind.samples.recording import Losses
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import Reason, ReasonCode


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
    answer: Answer = OUTSIDE

    @property
    def depends_on_caller(self) -> bool:
        """Whether it may be another step after another caller: its function is merged, or a tail call left some out."""
        return self.body is not None and (not self.body.settled or bool(self.answer.missing))

    def enters(self, body: Body) -> bool:
        """Return whether its call is known to lead straight to a body, as most calls do; not before it is decoded."""
        return self.calls == body.start and self.body is not None and self.body.program is body.program


class Chains:
    """Makes the steps of one process, each once."""

    def __init__(self, process: Process, places: Places) -> None:
        self._process, self._places = process, places
        self._relations = Relations()
        self._missing = MissingFrames()
        self._left_out: dict[tuple[int, int, Body, int], tuple[Answer, ...]] = {}
        self._alone: tuple[dict[int, Step], dict[int, Step]] = {}, {}  # not changed by any caller; of exact addresses
        self._steps: dict[tuple[int | None | Losses, ...], Step] = {}
        self._answers: dict[tuple[object, ...], Answer] = {}
        self.root = Step(None)
        self._outside = Step(None, possible=FOREIGN, is_outside=True)

    def __len__(self) -> int:
        return len(self._steps) + len(self._alone[0]) + len(self._alone[1]) + len(self._answers)

    def step(self, caller: Step, frame: Sampled, is_pc: bool) -> Step:
        """Return the step from `caller` to a frame that it called."""
        if frame is None:
            return self._outside
        if caller.body is not None and not caller.return_address:
            caller = self.root  # it has called nothing
        if isinstance(frame, Marked):
            return self._intern(caller, Marked(frame.address, frame.vptr, is_pc or frame.is_exact, frame.losses))
        return self._intern(caller, Marked(frame, is_exact=is_pc))

    def _intern(self, caller: Step, frame: Marked) -> Step:
        address, vptr, is_exact, losses = frame
        alone = self._alone[is_exact].get(address)
        if alone is None:
            place = self._places.of(address, is_exact)
            if place.body is not None and not place.body.settled:
                return self._merged(caller, frame, place, place.body)
            alone = self._unknown(address, place) if place.body is None else _settled(address, place, place.body, ())
            self._alone[is_exact][address] = alone
        if alone.body is None or losses is not Losses.NONE:
            return alone
        missing = self._missing_frames(caller, caller.possible, alone.body, alone.body.domain)
        if not missing:
            return alone
        key = (address, vptr, is_exact, caller.address, caller.possible)
        step = self._steps.get(key)
        if step is None:
            place = self._places.of(address, is_exact)
            step = self._steps[key] = _settled(address, place, alone.body, missing)
        return step

    def _merged(self, caller: Step, frame: Marked, place: Place, body: Body) -> Step:
        address, vptr, is_exact, losses = frame
        depends = caller.body is not None or (
            caller.is_outside and not is_exact and losses is Losses.NONE  # what it called may be missing
        )
        key: tuple[int | None | Losses, ...] = (address, 0, is_exact, None, 0)
        if depends:
            key = (address, vptr, is_exact, caller.address, caller.possible, losses)
        step = self._steps.get(key)
        if step is None:
            callee = Callee(body, vptr, not place.return_address and place.vaddr == body.start)
            step = self._steps[key] = self._make(caller if depends else None, address, place, callee, losses)
        return step

    def _make(self, caller: Step | None, address: int, place: Place, frame: Callee, losses: Losses) -> Step:
        body = frame.body
        step = Step(address, place.vaddr, body, body.domain, place.return_address, caller=caller, vptr=frame.vptr)
        step.losses = losses
        step.relation = self._relate(caller, frame, losses)
        if caller is not None and step.relation is not None:
            allowed = step.relation.forward(caller.possible)
            if frame.vptr:
                plain = self._relate(caller, frame._replace(vptr=0), losses)
                step.by_vptr = allowed != (body.domain if plain is None else plain.forward(caller.possible))
            step.broken = not allowed
            if step.broken and losses is Losses.NONE and caller.body is not None:
                lost = self._relations.between(caller.return_address, caller.body, frame, Losses.ANY, only_lost=True)
                step.repaired = lost.forward(caller.possible)
            step.possible = allowed or body.domain
            step.plain = allowed != 0 and step.relation.backward(caller.possible, allowed) == caller.possible
        step.answer = self.answer(step, step.possible, caller.possible if caller else 0, None)
        return step

    def _relate(self, caller: Step | None, frame: Callee, losses: Losses) -> Relation | None:
        """Return the relation of a frame to its caller; None: there is nothing to know."""
        if caller is not None and caller.body is not None:
            return self._relations.between(caller.return_address, caller.body, frame, losses)
        return self._relations.from_outside(frame) if caller is not None and caller.is_outside else None

    def answer(self, step: Step, left: int, callers: int, inner: tuple[Step, int] | None) -> Answer:
        """Return the answer for a merged frame with the candidates `left` and its caller's `callers`.

        `inner` is the frame that it called, with what is left of it, if that frame made the difference.
        """
        missing: tuple[Answer, ...] = ()
        if step.caller is not None and step.body is not None and not step.broken and step.losses is Losses.NONE:
            missing = self._missing_frames(step.caller, callers, step.body, left)
        inner_key = inner and (inner[0].relation, inner[1])
        key = (step.address, step.vaddr, left, step.relation, callers, inner_key, missing)
        answer = self._answers.get(key)
        if answer is None:
            if inner is not None and inner[0].relation is not None:
                evidence = inner[0].relation.evidence(left, inner[1])
            else:
                evidence = step.relation.evidence(callers, left) if step.relation else None
            word = "" if evidence is None else evidence.name.lower()
            if step.by_vptr or (inner is not None and inner[0].by_vptr):
                word = BY_VPTR
            answer = self._answers[key] = _answer(step, left, word, _why_open(step.relation, callers), missing)
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
        key = ("contradicted", step.address, step.vaddr, callee.address, caller and caller.address, left)
        answer = self._answers.get(key)
        if answer is None:
            if reason is None or not left:
                where = f"{caller.address:#x}" if caller is not None and caller.address is not None else "?"
                assert callee.address is not None
                reason = reasons.nothing_fits(where, callee.address)
            elif step is not callee:
                reason = reasons.MISSING_CALLEE
            answer = self._answers[key] = _answer(step, left, "", reason, is_certain=False)
        return answer

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
        return Step(address, place.vaddr, is_outside=is_outside, possible=possible, answer=answer)


def _callee(step: Step, body: Body) -> Callee:
    return Callee(body, step.vptr, not step.return_address and step.vaddr == body.start)


def _settled(address: int, place: Place, body: Body, missing: tuple[Answer, ...]) -> Step:
    """Return a frame whose body is that of one function."""
    answer = one(address, place.vaddr, body, 0, Verdict.UNMERGED, missing=missing)
    return Step(address, place.vaddr, body, body.domain, place.return_address, answer=answer)


def _answer(
    step: Step,
    left: int,
    evidence: str,
    reason: Reason,
    missing: tuple[Answer, ...] = (),
    tail_call: bool = False,
    *,
    is_certain: bool = True,
) -> Answer:
    """Return the verdict for the candidates `left` of a merged frame, which rest on `evidence`.

    None left: contradicted. One left, and not `is_certain`: narrowed.
    """
    body = step.body
    assert body is not None
    listed = left & body.listed
    if is_certain and left == listed and left and not left & (left - 1):
        idx = left.bit_length() - 1
        return one(step.address, step.vaddr, body, idx, Verdict.UNIQUE, evidence, missing, tail_call)
    verdict = Verdict.AMBIGUOUS if listed == body.listed else Verdict.NARROWED
    if not left:
        verdict, left, listed = Verdict.CONTRADICTED, body.domain, body.listed
    word = evidence if verdict is Verdict.NARROWED else ""
    members = [body.members[idx] for idx in bits(listed)]
    is_certain &= left == listed and verdict is not Verdict.CONTRADICTED
    common = _common_name(members) if is_certain else ""
    if common:
        return several(step.address, step.vaddr, body, left, Verdict.UNIQUE, common, word, None, missing, tail_call)
    names = tuple(dict.fromkeys([member.name for member in members]))
    if (
        verdict is not Verdict.CONTRADICTED
        and reason.code is not ReasonCode.MISSING_FRAME
        and (not listed or (left != listed and len(names) == 1))
    ):
        reason = reasons.unnamed(body.start + body.program.bias)
    return several(step.address, step.vaddr, body, left, verdict, names, word, reason, missing, tail_call)


def _common_name(members: list[Member]) -> str:
    """Return the one name that all members have: functions of one name from different files, or a function and its
    clones.

    Which one it is stays open, but not what it is called; "" if that does, too.
    """
    source = function_name(members[0].name)
    if not all(
        same_function(source, function_name(member.name)) and not member.flags & MemberFlag.NAMELESS
        for member in members
    ):
        return ""
    names = {member.name for member in members}
    if len(names) == 1:
        return names.pop()
    return min((name for name in names if function_name(name) == name), default=source)


def _missing_answer(frame: MissingFrame) -> Answer:
    step = Step(frame.jump + frame.body.program.bias if frame.jump else None, frame.jump, frame.body)
    if frame.body.settled:
        return one(step.address, step.vaddr, frame.body, 0, Verdict.UNMERGED, tail_call=True)
    return _answer(step, frame.members, "", reasons.SEVERAL_TAIL_CALLERS, tail_call=True)


def _why_open(outer: Relation | None, callers: int) -> Reason:
    """Return why the caller does not settle a frame: the first cause there is."""
    if outer is None:
        return reasons.NO_CALLER
    return outer.why_open(callers) or reasons.SEVERAL_CALLERS
