"""Answers as resolvers give them, made by hand."""

from __future__ import annotations

from icf.model import Member, Verdict
from unwind.program.frame import Frame
from unwind.symbolize.answer import Answer

ORDER, PAYMENT = "_ZN4ListI5OrderE4growEv", "_ZN4ListI7PaymentE4growEv"
MERGED = Member(ORDER), Member(PAYMENT)
UNKNOWN = Answer(None, Verdict.UNKNOWN)


def unique(address: int, name: str, vaddr: int = 0, *, missing: tuple[Answer, ...] = (), inlined: str = "") -> Answer:
    """Return the answer for a frame in a body of two functions that is this one, at line 20 of list.h."""
    inner = (Frame(inlined, "copy.h", 3, 1, True),) if inlined else ()
    frames = (*inner, Frame(name, "list.h", 20, 7, False))
    return Answer(address, Verdict.UNIQUE, name, vaddr, vaddr & ~0xFF, 64, frames, missing=missing, members=MERGED)


def either(address: int, vaddr: int = 0) -> Answer:
    """Return the answer for a frame that can be both functions of the body."""
    return Answer(
        address,
        Verdict.AMBIGUOUS,
        None,
        vaddr,
        vaddr & ~0xFF,
        64,
        (Frame("", "", 0, 0, False),),
        linkage_names=(ORDER, PAYMENT),
        members=MERGED,
    )


def unmerged(address: int, name: str, vaddr: int = 0) -> Answer:
    """Return the answer for a frame of a function that shares its body with no other, at line 5 of main.cc."""
    frames = (Frame(name, "main.cc", 5, 3, False),)
    return Answer(address, Verdict.UNMERGED, name, vaddr, vaddr & ~0xFF, 64, frames, members=(Member(name),))


def left_out(name: str) -> Answer:
    """Return the answer for a frame that a tail call left out."""
    return Answer(
        None, Verdict.UNIQUE, name, frames=(Frame(name, "tail.cc", 8, 1, False),), tail_call=True, members=MERGED
    )
