"""Logs of valgrind's lackey as traces, where DynamoRIO is not at hand.

    valgrind --tool=lackey --trace-mem=yes --vex-guest-chase=no --log-file=LOG ./shop

    I  04016e36,3       an instruction, its size
     L 1ffeffe7e,8      a load; S: a store, M: both

The log has neither bytes nor the kinds of branches: both come from the image, at its addresses as linked, so the
program must be static, and not position-independent. Signals are not in a log, nor are threads distinguished.

Source: valgrind, lackey/lk_main.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from icf.elf.types import Machine
from icf.errors import IcfError
from unwind.disasm.instructions import Decoder, Kind
from unwind.trace import layout as k
from unwind.trace.writer import TraceWriter

_LINE = re.compile(rb"(I | L| S| M) +([0-9a-f]{1,16}),(\d{1,5})\s*$")
_TIME = 0x2F000000000000  # microseconds since 1601: a log has no time
_ACCESSES = {b" L": (k.READ,), b" S": (k.WRITE,), b" M": (k.READ, k.WRITE)}
_CODE = b"I "

Read = Callable[[int, int], bytes]  # of an image: address as linked, how many bytes


class _Static(NamedTuple):
    """An instruction of the image."""

    kind: int
    code: bytes
    repeats: bool


def convert(lines: Iterable[bytes], path: str, read: Read, machine: Machine, trace: TraceWriter) -> int:
    """Write the trace of a log; return how many instructions it has.

    Raises `IcfError` for a line that is not one of lackey's, and for an instruction that is not in the image.
    """
    known: dict[int, _Static] = {}
    decoder = Decoder(machine)
    latest: tuple[int, _Static] | None = None
    accesses: list[tuple[int, int, int]] = []
    count = 0
    trace.begin(1, 1, _TIME)
    for number, what, address, size in _parsed(lines, path):
        if what != _CODE:
            accesses += [(kind, address, size) for kind in _ACCESSES[what]]
            continue
        if not 1 <= size <= k.LONGEST_BYTES:
            raise IcfError(f"{path}:{number}: instruction of {size} bytes; it has 1 to {k.LONGEST_BYTES}")
        if latest is not None:
            _write(trace, *latest, address, accesses)
        static = known.get(address)
        if static is None or len(static.code) != size:
            code = bytes(read(address, size))
            if len(code) != size:
                raise IcfError(f"{path}:{number}: instruction at {address:#x} is not in the image")
            static = known[address] = _static(decoder, address, code)
        if static.repeats and latest is not None and latest[0] == address:
            static = static._replace(kind=k.NO_FETCH)
        latest, accesses = (address, static), []
        count += static.kind != k.NO_FETCH
    if latest is not None:
        _write(trace, *latest, 0, accesses)
    return count


def _parsed(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, bytes, int, int]]:
    for number, line in enumerate(lines, 1):
        found = _LINE.match(line)
        if found is not None:
            yield number, found[1], int(found[2], 16), int(found[3])
        elif line.strip() and not line.startswith((b"==", b"--", b"**", b"##")):
            raise IcfError(f"{path}:{number}: is not a line of lackey: I, L, S or M, an address, a size")


def _static(decoder: Decoder, address: int, code: bytes) -> _Static:
    view = memoryview(code)
    decoded = next(decoder.decode(lambda at, size: view[at - address :][:size], address, address + len(code)))
    is_direct = decoded.target is not None
    kind = k.INSTRUCTION
    if decoded.kind is Kind.CALL:
        kind = k.DIRECT_CALL if is_direct else k.INDIRECT_CALL
    elif decoded.kind is Kind.JUMP:
        kind = k.DIRECT_JUMP if is_direct else k.INDIRECT_JUMP
    elif decoded.kind is Kind.BRANCH:
        kind = k.TAKEN_JUMP
    elif decoded.kind is Kind.RETURN and "ret" in decoded.mnemonic:
        kind = k.RETURN
    return _Static(kind, code, decoded.mnemonic.startswith("rep"))


def _write(
    trace: TraceWriter, address: int, static: _Static, following: int, accesses: list[tuple[int, int, int]]
) -> None:
    """Write an instruction, now that the one after it is known."""
    kind, target = static.kind, None
    if kind == k.TAKEN_JUMP and following == address + len(static.code):
        kind = k.UNTAKEN_JUMP
    elif kind in (k.INDIRECT_JUMP, k.INDIRECT_CALL, k.RETURN):
        target = following
    trace.instruction(kind, address, static.code, target)
    for access in accesses:
        trace.data(*access)
