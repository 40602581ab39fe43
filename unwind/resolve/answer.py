"""Make the answers of resolvers: the one function that a frame is, or the functions that it can be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from icf.model import MemberFlag, RuntimeAddr, Verdict
from unwind.process.process import Process
from unwind.program.program import Body
from unwind.program.ways import bits
from unwind.resolve.places import Place
from unwind.symbolize import reasons
from unwind.symbolize.answer import Answer, Candidate
from unwind.symbolize.reasons import Reason

BY_VPTR = "vptr"  # the vtable pointer of an object decided
Facts = list[list[str]]  # why, for each frame and each that tail calls left out, in the order of the output

OUTSIDE = Answer(None, Verdict.UNKNOWN, reason=reasons.OUTSIDE)


def unknown(process: Process, address: RuntimeAddr, place: Place) -> Answer:
    """Return the answer for a frame in no function."""
    module = process.module_at(address)
    reason = place.problem or (reasons.NO_MODULE if module is None else reasons.NO_FUNCTION)
    return Answer(address, Verdict.UNKNOWN, vaddr=place.vaddr, reason=reason, module=module.path if module else "")


def one(
    address: int | None,
    vaddr: int,
    body: Body,
    member_idx: int,
    verdict: Verdict,
    evidence: str = "",
    missing: tuple[Answer, ...] = (),
    tail_call: bool = False,
) -> Answer:
    """Return the answer for a frame that is one member of its body."""
    program, member = body.program, body.members[member_idx]
    is_nameless = verdict is Verdict.UNIQUE and member.flags & MemberFlag.NAMELESS
    return Answer(
        address,
        verdict,
        None if is_nameless else member.name,
        vaddr,
        body.start + program.bias,
        body.fold.size_bytes,
        evidence=evidence,
        module=program.path,
        member_idx=member_idx,
        lines=program.lines,
        source_name=member.name if is_nameless else None,
        aliases=member.aliases,
        missing=missing,
        tail_call=tail_call,
        members=body.members,
    )


def several(
    address: int | None,
    vaddr: int,
    body: Body,
    left: int,
    verdict: Verdict,
    names: tuple[str, ...] | str,
    evidence: str = "",
    reason: Reason | None = None,
    missing: tuple[Answer, ...] = (),
    tail_call: bool = False,
) -> Answer:
    """Return the answer for a frame that can be any of the candidates `left`, of these names, or all of this one."""
    program, listed = body.program, left & body.listed
    common, names = (names, ()) if isinstance(names, str) else (None, names)
    return Answer(
        address,
        verdict,
        common,
        vaddr,
        body.start + program.bias,
        body.fold.size_bytes,
        is_complete=left == listed,
        linkage_names=names,
        candidates=None if common else partial(_candidates, body, listed, vaddr),
        evidence=evidence,
        reason=reason,
        module=program.path,
        lines=program.lines,
        missing=missing,
        tail_call=tail_call,
        members=body.members,
    )


def _candidates(body: Body, listed: int, vaddr: int) -> Iterator[Candidate]:
    for idx in bits(listed):
        yield Candidate(body.members[idx].name, body.program.lines, vaddr, idx)
