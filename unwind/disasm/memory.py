"""Code in memory that no image has: a compiler made it while the process ran.

    callq  *0x69(%rip)        # 0x7f19fdf1d358 -> JITRT_UnlinkFrame(_ts*)
    movabs $0x7f19f8a01c40, %rax    # maybe PyNumber_Add

Such code refers to functions by constants: in instructions, and in a pool of literals beside it. The contents of the
pool are read from the memory, and `Names` finds the functions and data at addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from icf.elf.types import Machine
from unwind.disasm.instructions import WORD, Decoder, Instruction, Kind, Reference, Use
from unwind.disasm.listing import Line
from unwind.disasm.notes import Data, Function, Likely, Note, Place, Pointer
from unwind.disasm.registers import find_references
from unwind.disasm.select import Region

_POINTER_BYTES = 8


class Names(Protocol):
    """The functions and data at addresses of a process."""

    def at(self, address: int) -> Place | None:
        """Return the function or data at an address; None: it is not known."""


class MemoryListing:
    """Annotates code at run-time addresses; `read` returns the memory from an address on, as much as exists."""

    def __init__(self, machine: Machine, read: Callable[[int, int], bytes], names: Names) -> None:
        self._machine, self._names = machine, names
        self._decoder = Decoder(machine)
        self._read = read

    def lines(self, region: Region) -> Iterator[Line]:
        """Yield the instructions of a region, and the words of its pool of literals, and what is known of each."""
        for each in self._instructions(region):
            yield each, self._notes(each, region)

    def _instructions(self, region: Region) -> Iterator[Instruction]:
        """Yield code up to each word that code before it loads, that word, and the code after it."""
        of_code: dict[int, Reference] = {}
        if self._machine is Machine.AARCH64:
            of_code = find_references(list(self._decoder.decode(self._view, region.start, region.end)), {})
        pool: set[int] = set()
        at = region.start
        while at < region.end:
            stop = min((word for word in pool if word >= at), default=region.end)
            if at == stop:
                word = self._read(at, _POINTER_BYTES)
                if len(word) < _POINTER_BYTES:
                    return
                yield Instruction(at, word, WORD, hex(int.from_bytes(word, "little")), Kind.OTHER, None)
                at += len(word)
                continue
            start = at
            for each in self._decoder.decode(self._view, at, stop):
                if each.vaddr in of_code:
                    each = each._replace(references=(of_code[each.vaddr],))
                words = {
                    reference.vaddr
                    for reference in each.references
                    if reference.use is Use.LOAD
                    and reference.size_bytes in (0, _POINTER_BYTES)
                    and each.end <= reference.vaddr <= region.end - _POINTER_BYTES
                }
                yield each
                at = each.end
                if not words <= pool:
                    pool |= words
                    break  # it may be nearer than the end of decoding
            if at == start:
                return  # no memory is there

    def _view(self, address: int, size_bytes: int) -> memoryview:
        return memoryview(self._read(address, size_bytes))

    def _notes(self, each: Instruction, region: Region) -> list[Note]:
        notes: list[Note | None] = []
        if each.mnemonic == WORD:
            notes.append(self._names.at(int(each.operands, 16)))
        if each.target is not None and not (region.start <= each.target < region.end and each.kind is not Kind.CALL):
            notes.append(self._names.at(each.target))
        notes += [self._referenced(reference, region) for reference in each.references]
        return [note for note in notes if note is not None]

    def _referenced(self, reference: Reference, region: Region) -> Note | None:
        place = self._names.at(reference.vaddr)
        if reference.use is Use.NUMBER:
            is_exact = isinstance(place, Function) and place.offset == 0
            is_exact |= isinstance(place, Data) and bool(place.names) and place.offset == 0
            return Likely(place) if place is not None and is_exact else None
        if reference.use is not Use.LOAD or reference.size_bytes not in (0, _POINTER_BYTES):
            return place
        held = self._read(reference.vaddr, _POINTER_BYTES)
        if len(held) < _POINTER_BYTES:
            return place
        target = self._names.at(int.from_bytes(held, "little"))
        if target is None:
            return place
        is_inside = region.start <= reference.vaddr < region.end
        return Pointer(place if isinstance(place, Data) else Data(reference.vaddr), target, is_inside, is_current=True)
