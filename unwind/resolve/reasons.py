"""Why a frame has no name, or more than one: a code for programs, a text for people.

reason.code.value    "no-record"
reason.address       0x401136, where the code has an address
str(reason)          "no record of the direct call before 0x401136"
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from unwind.program.parts import SiteKind


class ReasonCode(Enum):
    """The value is what `--out json` writes; the comment says what `Reason.address` is, if there is one."""

    # verdict unknown
    OUTSIDE = "outside-of-image"
    NO_FUNCTION = "in-no-function"
    NO_MODULE = "in-no-module"
    NOTHING_MAPPED = "nothing-mapped"
    NOT_AFTER_CALL = "follows-no-call"  # the return address
    # the caller
    NO_CALLER = "caller-unknown"
    SEVERAL_CALLERS = "caller-ambiguous"
    FROM_OUTSIDE = "called-from-outside"
    # the call
    NO_RECORD = "no-record"  # the return address
    INDIRECT_CALL = "indirect-call"  # the return address
    VIRTUAL_CALL = "virtual-call"  # the return address
    IMPORT_CALL = "import-call"  # the return address
    NO_CALL = "no-call"  # the return address
    UNREADABLE = "unreadable-code"  # the return address
    # what the call leads to
    SEVERAL_CALLEES = "several-callees"
    SEVERAL_JUMPS = "several-jumps"
    JUMP_TO_ANYWHERE = "unlisted-jump"
    POINTER_JUMP = "jump-through-pointer"  # the body that it may lead to
    # the frame
    SEVERAL_TAIL_CALLERS = "several-tail-callers"
    UNNAMED_MEMBERS = "unnamed-members"  # the body
    CONTRADICTED = "contradicted"  # the callee's


class Reason(NamedTuple):
    """What keeps an answer from being one name; `text` may have `{address}`."""

    code: ReasonCode
    text: str
    address: int | None = None

    def __str__(self) -> str:
        return self.text if self.address is None else self.text.format(address=f"{self.address:#x}")


OUTSIDE = Reason(ReasonCode.OUTSIDE, "outside of the image")
NO_FUNCTION = Reason(ReasonCode.NO_FUNCTION, "in no function of the image")
NO_MODULE = Reason(ReasonCode.NO_MODULE, "in no module whose image is known")
NOTHING_MAPPED = Reason(ReasonCode.NOTHING_MAPPED, "nothing is mapped there")
NO_CALLER = Reason(ReasonCode.NO_CALLER, "its caller is not known")
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
    """Return the address is not that of a frame."""
    return Reason(ReasonCode.NOT_AFTER_CALL, "{address} does not follow a call", address)


def nothing_fits(caller: str, callee: int) -> Reason:
    """Return the reason when no candidate of the caller calls any candidate of the callee."""
    text = f"nothing possible at {caller} calls a function at {{address}}"
    return Reason(ReasonCode.CONTRADICTED, text, callee)


def unnamed(start: int) -> Reason:
    """Return members are missing from the tables."""
    return Reason(ReasonCode.UNNAMED_MEMBERS, "functions that nothing names may share the body at {address}", start)


def open_site(kind: SiteKind, return_address: int) -> Reason:
    """Return the code at a call site does not tell what is called."""
    if kind is SiteKind.DIRECT:
        return Reason(ReasonCode.NO_RECORD, "no record of the direct call before {address}", return_address)
    return Reason(_OF_SITE[kind], f"{kind.value} before {{address}}", return_address)


def slot_call(slot: int, return_address: int) -> Reason:
    """Return a virtual call."""
    return Reason(ReasonCode.VIRTUAL_CALL, f"call of slot {slot} of a vtable before {{address}}", return_address)


def pointer_jump(start: int) -> Reason:
    """Return a record names the callee, which may tail-call the body of the frame."""
    text = "what its caller calls there may jump through a pointer to the body at {address}"
    return Reason(ReasonCode.POINTER_JUMP, text, start)
