"""The registers of a frame that a debugger knows, by DWARF number.

An unwinder recovers those that functions preserve. Debuggers show others in outer frames, too, with the values of the
innermost one: these are not asked for, unless the frame's address is a program counter.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Tuple

_X86_64 = (
    "rax",
    "rdx",
    "rcx",
    "rbx",
    "rsi",
    "rdi",
    "rbp",
    "rsp",
    *["r{}".format(number) for number in range(8, 16)],
    "rip",
)
_AARCH64 = (*["x{}".format(number) for number in range(31)], "sp", "pc")
_PRESERVED = {_X86_64: (3, 6, 7, 12, 13, 14, 15, 16), _AARCH64: (*range(19, 30), 31, 32)}


def wanted(is_aarch64: bool, is_exact: bool) -> Iterator[Tuple[int, str]]:
    """Yield number and name of each register that may be asked for."""
    names = _AARCH64 if is_aarch64 else _X86_64
    numbers: Iterable[int] = range(len(names)) if is_exact else _PRESERVED[names]
    for number in numbers:
        yield number, names[number]
