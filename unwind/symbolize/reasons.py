"""Why a frame has no name, or more than one: a code for programs, a text for people.

reason.code.value    "no-record"
reason.address       0x401136, where the code has an address
str(reason)          "no record of the direct call before 0x401136"
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ReasonCode(Enum):
    """Why an answer is not one name; `--out json` writes the value, and the comment describes `Reason.address`."""

    # verdict unknown
    OUTSIDE = "outside-of-image"
    NO_FUNCTION = "in-no-function"
    NO_MODULE = "in-no-module"
    NOTHING_MAPPED = "nothing-mapped"
    NOT_AFTER_CALL = "follows-no-call"  # the return address
    # the caller
    NO_CALLER = "caller-unknown"
    LOST_CALLER = "caller-may-be-missing"
    MISSING_FRAME = "frame-missing"
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
    """Why an answer is not one name; `str` returns it as a text for people.

    Attributes:
        code: for programs.
        text: for people, with `{address}` for the address.
        address: the address that `code` is about; None if it is about none.
    """

    code: ReasonCode
    text: str
    address: int | None = None

    def __str__(self) -> str:
        return self.text if self.address is None else self.text.format(address=f"{self.address:#x}")


OUTSIDE = Reason(ReasonCode.OUTSIDE, "outside of the image")
NO_FUNCTION = Reason(ReasonCode.NO_FUNCTION, "in no function of the image")
NO_MODULE = Reason(ReasonCode.NO_MODULE, "in no module whose image is known")
NOTHING_MAPPED = Reason(ReasonCode.NOTHING_MAPPED, "nothing is mapped there")
