"""Why a frame has no name, or more than one: the words."""

from __future__ import annotations

OUTSIDE = "outside of the image"
NO_FUNCTION = "in no function of the image"
NO_MODULE = "in no module whose image is known"
NO_CALLER = "its caller is not known"
SEVERAL_CALLERS = "its caller is one of several"
SEVERAL_CALLEES = "its caller may call several of them there"
SEVERAL_WAYS = "what its caller calls there may jump to several of them"
JUMP_TO_ANYWHERE = "what its caller calls there leaves by a jump that no table lists"
FROM_OUTSIDE = "call from outside of the image"
SEVERAL_JUMPS = "more than one of them may have made the jump"


def no_call_before(address: int) -> str:
    """The address is none of a frame."""
    return f"{address:#x} does not follow a call"


def nothing_fits(caller: str, callee: int) -> str:
    """A frame and the one that called it fit in no way."""
    return f"nothing possible at {caller} calls a function at {callee:#x}"


def unnamed(start: int) -> str:
    """Members are missing from the tables."""
    return f"functions that nothing names may share the body at {start:#x}"


def open_site(kind: str, return_address: int) -> str:
    """The code at a call site does not say what is called."""
    return f"{kind} before {return_address:#x}"


def no_record(return_address: int) -> str:
    """A call whose machine target is the body of several functions."""
    return f"no record of the direct call before {return_address:#x}"


def slot_call(slot: int, return_address: int) -> str:
    """A virtual call."""
    return f"call of slot {slot} of a vtable before {return_address:#x}"


def pointer_jump(start: int) -> str:
    """A record names the callee, which may go on to where the frame is."""
    return f"what its caller calls there may jump through a pointer to the body at {start:#x}"
