"""Instructions of a trace as text, each decoded once: the cache is keyed by the code, which changes with its bytes.

A program executes millions of instructions, but a few thousand different ones. The reader numbers those
(`unwind.trace.columns`: codes): an address with other bytes has another number, so what was decoded for the old bytes
is not used for the new ones.

A trace without bytes takes them from the images (`unwind.trace.image_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from icf.elf.types import Machine
from icf.errors import UnsupportedError
from unwind.trace import columns as c
from unwind.trace import layout as k

if TYPE_CHECKING:
    from unwind.disasm.instructions import Instruction

Bytes = Callable[[int, int], bytes]  # of a program's code: address, how many
_KEPT = 1 << 20


def machine_of(filetype: int, path: str) -> Machine:
    """Return the machine that a trace is of; x86-64 for an old one that does not say it.

    Raises `UnsupportedError` for others.
    """
    if filetype & (k.IS_ARM32 | k.IS_X86_32 | k.IS_REGDEPS):
        raise UnsupportedError(f"{path}: is of a machine that is not decoded; x86-64 and AArch64 are")
    return Machine.AARCH64 if filetype & k.IS_AARCH64 else Machine.X86_64


def code_bytes(codes: memoryview, number: int) -> bytes:
    """Return the bytes of an instruction as the trace has them; zeros if it has none."""
    low, high, size = (codes[number, each] for each in (c.CODE_LOW, c.CODE_HIGH, c.CODE_SIZE))
    return (low | high << 64).to_bytes(16, "little")[:size]


class DecodeCache:
    """The instructions of a trace by the number of their code."""

    def __init__(self, machine: Machine, read: Bytes | None = None) -> None:
        from unwind.disasm.instructions import Decoder  # imports capstone

        self._decoder = Decoder(machine)
        self._read = read  # of a trace that has no bytes itself
        self._known: dict[int, Instruction] = {}

    def instruction(self, codes: memoryview, number: int) -> Instruction:
        """Return an instruction; undecodable bytes come as one, too."""
        known = self._known.get(number)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            address, size = codes[number, c.CODE_ADDRESS], codes[number, c.CODE_SIZE]
            code = code_bytes(codes, number) if self._read is None else self._read(address, size)
            known = self._known[number] = self._decoded(code, address)
        return known

    def _decoded(self, code: bytes, address: int) -> Instruction:
        view = memoryview(code)
        pieces = self._decoder.decode(
            lambda at, size: view[at - address : at - address + size], address, address + len(code)
        )
        first = next(pieces)
        return first._replace(code=code)
