"""The exceptions that end processes of Windows, by their codes (ntstatus.h; winnt.h)."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {
    0x80000003: "EXCEPTION_BREAKPOINT",
    0x80000004: "EXCEPTION_SINGLE_STEP",
    0xC0000005: "EXCEPTION_ACCESS_VIOLATION",
    0xC0000006: "EXCEPTION_IN_PAGE_ERROR",
    0xC000001D: "EXCEPTION_ILLEGAL_INSTRUCTION",
    0xC000008E: "EXCEPTION_FLT_DIVIDE_BY_ZERO",
    0xC0000094: "EXCEPTION_INT_DIVIDE_BY_ZERO",
    0xC0000095: "EXCEPTION_INT_OVERFLOW",
    0xC0000096: "EXCEPTION_PRIV_INSTRUCTION",
    0xC00000FD: "EXCEPTION_STACK_OVERFLOW",
    0xC0000374: "STATUS_HEAP_CORRUPTION",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",  # of __fastfail, too
    0xE06D7363: "C++ exception",
}
_OF_MEMORY = (0xC0000005, 0xC0000006)  # their second parameter is the address that could not be accessed
_NO_EXCEPTION = 0xFFFFFFFF


def name_of_exception(code: int, parameters: Sequence[int]) -> str:
    """Return what is shown for an exception, with the address that could not be accessed; empty for none."""
    if code in (0, _NO_EXCEPTION):
        return ""
    name = _NAMES.get(code, f"exception {code:#010x}")
    return f"{name} at address {parameters[1]:#x}" if code in _OF_MEMORY and len(parameters) > 1 else name
