"""Explain an answer: for each frame the facts, the record and rule that applied, and the excluded candidates.

One fact a line, for a reader who wants to check the answer (`icf dump`, objdump):

    #0  0x0000000000001d28  apples(int)  [unique, relocation]
            - 2 functions share the body at 0x1d20: pears(int), apples(int)
            - main calls wash_apples(int) before 0x1e37 (relocation), which tail-calls into this body
            - excluded pears(int): not reachable from that call
        0x0000000000001d38  wash_apples(int)  [unique, tail call]
            - entered by the call before 0x1e37
            - every path from the call to the frame leads through it, by its jump at 0x1d38

The facts are computed again from the records, only for stacks that are explained. The conclusions are those of the
resolver's own steps, so an explanation always belongs to the answer that was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from icf.demangle import demangle
from icf.model import ClassFlag, Evidence, Verdict
from unwind.program.parts import SiteKind
from unwind.program.program import Body
from unwind.resolve.answer import Facts
from unwind.resolve.chain import Step
from unwind.resolve.doubts import Doubt, Doubts
from unwind.resolve.resolver import Addresses, Answers, Exact, left_over
from unwind.resolve.vptrs import Vptrs
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer

NO_VPTRS: Mapping[int, int] = MappingProxyType({})
_SHOWN = 4  # names in a line


class Explained(Protocol):
    """A resolver that shows its steps."""

    def steps(self, addresses: Addresses, vptrs: Vptrs = (), exact: Exact = ()) -> list[Step]: ...


def explain(resolver: Explained, stack: Stack, answers: Answers) -> Facts:
    """Return the facts on which the answers of `resolver` to `stack` rest."""
    return explain_steps(resolver.steps(stack.addresses, stack.vptrs, stack.exact), answers, dict(stack.vptrs))


def explain_steps(steps: list[Step], answers: Sequence[Answer], vptrs: Mapping[int, int] = NO_VPTRS) -> Facts:
    """Return the facts on which the answers of a resolver's steps rest; `vptrs` by index of the frame."""
    masks = left_over(steps)
    doubts = Doubts(steps, masks)
    found: Facts = []
    for idx, (step, (left, callers), answer) in enumerate(zip(steps, masks, answers, strict=True)):
        inner = (steps[idx - 1], answers[idx - 1]) if idx else None
        found.append(_of_frame(step, left, callers, inner, answer, vptrs.get(idx, 0)))
        if answer.verdict in (Verdict.AMBIGUOUS, Verdict.NARROWED):
            found[-1] += _of_doubt(doubts.about(idx), idx, steps, masks, answers)
        for missing_idx in range(len(answer.missing)):
            found.append(_of_missing(answer.missing, missing_idx, step))
    return found


def _of_frame(
    step: Step,
    left: int,
    callers: int,
    inner: tuple[Step, Answer] | None,
    answer: Answer,
    vptr: int,
) -> list[str]:
    body = step.body
    if body is None:
        return []  # the answer has its reason
    if body.settled:
        return [f"the body at {_at(body, body.start)} has one function"]
    facts = [_shared(body)]
    if vptr:
        facts.append(_of_vptr(vptr, step, body))
    if step.relation is None or step.caller is None:
        outside = "called from outside of the image, so all of them are possible"
        facts.append("its caller is not known" if step.caller is None else outside)
    else:
        calls, why_not = _calls(step, callers)
        facts += calls
        if excluded := body.domain & ~step.possible:
            facts.append(f"excluded {_names(body, excluded)}: {why_not}")
    if answer.verdict is Verdict.CONTRADICTED:
        return [*facts, f"{answer.reason}: the two frames do not fit together; each is resolved alone"]
    if excluded := step.possible & ~left:
        facts.append(f"excluded {_names(body, excluded)}: {_not_inwards(step, inner)}")
    if step.broken and (excluded := left & ~step.repaired):
        facts.append(f"excluded {_names(body, excluded)}: not reachable from that call with one frame in between")
        left &= step.repaired
    if left & (left - 1):
        facts.append(f"possible: {_names(body, left)}: {answer.reason or 'of one name'}")
    return facts


def _of_doubt(
    doubt: Doubt, idx: int, steps: Sequence[Step], masks: Sequence[tuple[int, int]], answers: Sequence[Answer]
) -> list[str]:
    """Return where the doubt about frame `idx` comes from, and what would end it."""
    step, begins = steps[idx], steps[doubt.begins]
    facts = []
    if doubt.circles and step.body is not None:
        shared = [_candidates(step.body, circle) for circle in doubt.circles if len(circle) > 1]
        alone = _candidates(step.body, [circle[0] for circle in doubt.circles if len(circle) == 1])
        how = [f"calls of {names} lead to each other" for names in shared[:_SHOWN]]
        how += [f"calls of each of {alone} lead back to it"] if alone else []
        facts.append(f"{'; '.join(how)}: this frame is one of several as its caller is")
    if doubt.begins != idx and begins.body is not None:
        possible = _listed(answers[doubt.begins].linkage_names)
        why = f": {answers[doubt.begins].reason}" if answers[doubt.begins].reason else ""
        facts.append(f"the doubt begins with #{doubt.begins}, one of {possible}{why}")
    if doubt.needs_record and begins.caller is not None and begins.caller.body is not None:
        caller = _names(begins.caller.body, masks[doubt.begins][1])
        where = _at(begins.caller.body, begins.caller.return_address)
        facts.append(f"a record that names what {caller} calls before {where} would settle it")
    return facts


def _candidates(body: Body, functions: Iterable[int]) -> str:
    """Return the names of functions of any body."""
    found = [body.program.candidates[function] for function in functions]
    return _listed(_names(each, 1 << idx) for each, idx in found)


def _of_vptr(vptr: int, step: Step, body: Body) -> str:
    name = demangle(body.program.vtable_name(vptr - body.program.bias))
    fact = f"its object's vtable pointer is {vptr:#x}" + (f", {name}" if name else "")
    if step.vptr:
        return fact
    return f"{fact}: not used: the tables do not list it, or it may have changed since"


def _calls(step: Step, callers: int) -> tuple[list[str], str]:
    """Return how the frame was called, and why the excluded candidates were not called so."""
    body, caller = step.body, step.caller
    assert body is not None and caller is not None and step.relation is not None
    if caller.within is not None and (given := _given(caller.within)):
        return given, "not reachable from what is called back"
    if caller.body is None or caller.address is None:
        return ["called from outside of the image, through a pointer"], "nothing outside has its address"
    program, bias = caller.body.program, caller.body.program.bias
    return_address = caller.return_address
    where = f"before {return_address + bias:#x}"
    means: dict[tuple[int, Evidence], int] = {}
    unrecorded = callers
    for idx, callees in program.callees(return_address, caller.body).items():
        if callers >> idx & 1:
            unrecorded &= ~(1 << idx)
            for callee in callees:
                means[callee] = means.get(callee, 0) | 1 << idx
    facts, why_not = [], []
    for (node, evidence), by in list(means.items())[:_SHOWN]:
        callee_body, callee_idx = program.candidates[node]
        jumps_on = (
            "which tail-calls into this body"
            if step.relation.forward(by)
            else "which does not tail-call into this body"
        )
        facts.append(
            f"{_each(caller.body, by)} calls {_names(callee_body, 1 << callee_idx)} {where} ({evidence.name.lower()})"
            + (f", {jumps_on}" if callee_body is not body else "")
        )
    if len(means) > _SHOWN:
        facts.append(f"{len(means) - _SHOWN} more records of other callers")
    if means:
        why_not.append("not reachable from that call")
    if unrecorded:
        fact, reason = _unrecorded(step, return_address, where)
        facts.append(f"{_each(caller.body, unrecorded)} {fact}")
        why_not += [reason] if reason else []
    return facts, "; ".join(why_not)


def _given(caller: Step) -> list[str]:
    """Return what the candidates of a frame pass to the import that it calls."""
    body = caller.body
    assert body is not None
    program, where = body.program, f"before {_at(body, caller.return_address)}"
    means: dict[tuple[int, Evidence], int] = {}
    for idx, given in program.given(caller.return_address, body).items():
        if caller.possible >> idx & 1:
            means[given] = means.get(given, 0) | 1 << idx
    symbol = demangle(program.code.call_site(caller.return_address).symbol.partition("@")[0])
    facts = []
    for (node, evidence), by in list(means.items())[:_SHOWN]:
        callee, idx = program.candidates[node]
        names = f"{_each(body, by)} passes {_names(callee, 1 << idx)} to {symbol}"
        facts.append(f"{names} {where} ({evidence.name.lower()}), which calls it back")
    if len(means) > _SHOWN:
        facts.append(f"{len(means) - _SHOWN} more records of other callers")
    return facts


def _unrecorded(step: Step, return_address: int, where: str) -> tuple[str, str]:
    """Return what the code before a return address shows, and why some candidates do not fit it."""
    assert step.caller is not None and step.caller.body is not None and step.body is not None
    program = step.caller.body.program
    site = program.code.call_site(return_address)
    if site.kind is SiteKind.DIRECT:
        target = program.body_at(site.target)
        if target is step.body:
            return f"calls the body {where}, and no record says which function of it", ""
        called = _names(target, target.listed) if target else "no function"
        return (
            f"calls {called} at {site.target + program.bias:#x} {where} (decoded)",
            "that function does not tail-call it",
        )
    if site.kind is SiteKind.IMPORT:
        return f"calls the import {demangle(site.symbol)} {where} (decoded)", "not reachable by that name"
    if site.kind is SiteKind.INDIRECT:
        call = program.slot_calls.get(return_address)
        if call is None:
            return (
                f"calls through a pointer {where}",
                "no pointer leads to it: its address is not taken, and no vtable has it",
            )
        table = "that vtable" if step.vptr else "a vtable"
        why_not = f"{table} does not have it in slot {call.slot}, and the function there does not tail-call it"
        return f"calls by slot {call.slot} of a vtable {where} ({call.evidence.name.lower()})", why_not
    return f"may call anything: {site.kind.value} {where}", ""


def _not_inwards(step: Step, inner: tuple[Step, Answer] | None) -> str:
    assert inner is not None and step.body is not None
    name = inner[1].name or "a function of the frame inside"
    return_address = step.return_address + step.body.program.bias
    return f"its call before {return_address:#x} does not lead to {name}"


def _of_missing(missing: Iterable[Answer], idx: int, inner: Step) -> list[str]:
    """Return the facts of a frame that tail calls left out; the last one is the called function."""
    frames = list(missing)
    facts = []
    if idx + 1 == len(frames):
        caller = inner.caller
        at = f" before {_at(caller.body, caller.return_address)}" if caller is not None and caller.body else ""
        facts.append(f"entered by the call{at}")
    elif frames[idx + 1].address is not None:
        facts.append(f"entered by the jump at {frames[idx + 1].address:#x}")
    jump = "one of several jumps" if frames[idx].address is None else f"its jump at {frames[idx].address:#x}"
    facts.append(f"every path from the call to the frame leads through it, by {jump}")
    if frames[idx].linkage_names:
        facts.append(f"possible: {_listed(frames[idx].linkage_names)}: {frames[idx].reason}")
    return facts


def _shared(body: Body) -> str:
    complete = body.fold.flags & ClassFlag.MEMBERS_COMPLETE
    more = "" if complete else ", and maybe others"
    return (
        f"{len(body.members):,} functions share the body at {_at(body, body.start)}: {_names(body, body.listed)}{more}"
    )


def _at(body: Body, vaddr: int) -> str:
    return f"{vaddr + body.program.bias:#x}"


def _each(body: Body, mask: int) -> str:
    return ("each of " if mask & (mask - 1) else "") + _names(body, mask)


def _names(body: Body, mask: int) -> str:
    """Return the members of a mask, a few of them by name."""
    names = [member.name for idx, member in enumerate(body.members) if mask >> idx & 1]
    if mask >> len(body.members):
        names.append("a function that no table lists")
    return _listed(names)


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(demangle(name) for name in distinct[:_SHOWN])
    return shown + (f" and {len(distinct) - _SHOWN:,} more" if len(distinct) > _SHOWN else "")
