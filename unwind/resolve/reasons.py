"""What the caller of a frame, its call and its body leave open."""

from __future__ import annotations

from unwind.program.parts import SiteKind
from unwind.symbolize.reasons import Reason, ReasonCode

NO_CALLER = Reason(ReasonCode.NO_CALLER, "its caller is not known")
LOST_CALLER = Reason(ReasonCode.LOST_CALLER, "frames may be missing between it and its caller")
MISSING_FRAME = Reason(ReasonCode.MISSING_FRAME, "a frame is missing between it and its caller")
MISSING_CALLEE = Reason(ReasonCode.MISSING_FRAME, "a frame is missing between it and the one that it called")
SEVERAL_CALLERS = Reason(ReasonCode.SEVERAL_CALLERS, "its caller is one of several")
SEVERAL_CALLEES = Reason(ReasonCode.SEVERAL_CALLEES, "its caller may call several of them there")
SEVERAL_JUMPS = Reason(ReasonCode.SEVERAL_JUMPS, "what its caller calls there may jump to several of them")
JUMP_TO_ANYWHERE = Reason(
    ReasonCode.JUMP_TO_ANYWHERE, "what its caller calls there leaves by a jump that no table lists"
)
FROM_OUTSIDE = Reason(ReasonCode.FROM_OUTSIDE, "call from outside of the image")
SEVERAL_TAIL_CALLERS = Reason(ReasonCode.SEVERAL_TAIL_CALLERS, "more than one of them may have made the jump")
_OF_SITE = {
    SiteKind.INDIRECT: ReasonCode.INDIRECT_CALL,
    SiteKind.IMPORT: ReasonCode.IMPORT_CALL,
    SiteKind.NONE: ReasonCode.NO_CALL,
    SiteKind.UNKNOWN: ReasonCode.UNREADABLE,
}


def no_call_before(address: int) -> Reason:
    """Return the reason for an address that is not that of a frame."""
    return Reason(ReasonCode.NOT_AFTER_CALL, "{address} does not follow a call", address)


def nothing_fits(caller: str, callee: int) -> Reason:
    """Return the reason when no candidate of the caller calls any candidate of the callee."""
    text = f"nothing possible at {caller} calls a function at {{address}}"
    return Reason(ReasonCode.CONTRADICTED, text, callee)


def missing_frame(name: str) -> Reason:
    """Return the reason for a frame that fits its caller only if a frame of one function is missing between them."""
    return MISSING_FRAME._replace(text=f"a frame of {name} is missing between it and its caller")


def unnamed(start: int) -> Reason:
    """Return the reason for a body with members that the tables lack."""
    return Reason(ReasonCode.UNNAMED_MEMBERS, "functions that nothing names may share the body at {address}", start)


def open_site(kind: SiteKind, return_address: int) -> Reason:
    """Return the reason for a call site whose code does not show the callee."""
    if kind is SiteKind.DIRECT:
        return Reason(ReasonCode.NO_RECORD, "no record of the direct call before {address}", return_address)
    return Reason(_OF_SITE[kind], f"{kind.value} before {{address}}", return_address)


def slot_call(slot: int, return_address: int) -> Reason:
    """Return the reason for a virtual call."""
    return Reason(ReasonCode.VIRTUAL_CALL, f"call of slot {slot} of a vtable before {{address}}", return_address)


def pointer_jump(start: int) -> Reason:
    """Return the reason for a recorded callee that may tail-call the body of the frame."""
    text = "what its caller calls there may jump through a pointer to the body at {address}"
    return Reason(ReasonCode.POINTER_JUMP, text, start)
