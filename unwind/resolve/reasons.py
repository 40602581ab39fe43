"""Why a frame has no name, or more than one: the words."""

from __future__ import annotations

OUTSIDE = "outside of the image"
NO_FUNCTION = "in no function of the image"
NO_MODULE = "in no module whose image is known"
NO_CALLER = "its caller is not known"
SEVERAL_CALLERS = "its caller is one of several"
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
