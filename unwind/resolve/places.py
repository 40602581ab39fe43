"""The place of each frame: how its address is meant, and which call it waits for.

The first address of a stack is a program counter. The others are return addresses, as they lie on the stack or less
one, as in unwinders that look the caller up (libdw, perf's DWARF unwinder, pprof, sanitizers); some mix both
in one stack. The code shows which one it is, for each frame by itself:

    a      follows a call          raw: the frame is looked up at a - 1, and a is the key of the call
    a + 1  follows a call          less one: looked up at a, key a + 1

A call is two bytes or more, so both cannot be; if the bytes look like it, the boundaries of the instructions decide.
An address that fits neither does not belong to a frame (a wrong base, a damaged stack, a binary that was rebuilt
since): the frame is unknown, and restricts no neighbour. The exceptions are

    the start of a function       put on the stack by hand (the entry of a fibre), or interrupted there: that function
    a signal trampoline           the kernel has put the return address there: `mov $15,%rax; syscall`

and the frame outwards of a trampoline is the one that the signal interrupted: its address is *exact*, a program
counter, as is one that the caller of the resolver marks. An exact frame has called nothing: the kernel called the frame
inwards of it. On AArch64 the signature that a return address may have in its upper bits is removed.

Code that cannot be read contradicts nothing: then `a` counts as raw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from icf.model import RuntimeAddr, Vaddr
from unwind.process.process import Module, Process
from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.resolve.reasons import no_call_before
from unwind.samples.recording import Losses
from unwind.symbolize.reasons import Reason

_NO_CALL = (SiteKind.NONE, SiteKind.UNKNOWN)
_ADDRESS_BITS, _SIDE_BIT = 48, 55  # of AArch64: the address bits of a pointer, and the bit that is 0 in user space
_KEPT_PLACES = 1 << 20
_KEPT_ADDRESSES = 1 << 12


class Marked(NamedTuple):
    """A frame with more facts than its address."""

    address: int
    vptr: int = 0  # the vtable pointer of its object, if that counts
    is_exact: bool = False
    losses: Losses = Losses.NONE  # frames that may be missing between it and its caller in the stack


Sampled = int | None | Marked  # a frame as it was sampled; None: outside of all images


class Place(NamedTuple):
    """The meaning of an address."""

    vaddr: int  # as linked: the program counter, or a byte inside of the call
    body: Body | None
    return_address: int = 0  # as linked: the key of the call that the frame waits for; 0: it has made none
    problem: Reason | None = None  # why the address does not belong to a frame
    is_trampoline: bool = False
    program: Program | None = None  # what it is an address of, if that is known


@dataclass(slots=True)
class Tally:
    """The distinct return addresses in one module, and how they fit its code."""

    program: Program
    count: int = 0
    fits: int = 0  # those that follow a call
    outside: int = 0  # those where the module has no code
    addresses: list[Vaddr] = field(default_factory=list)  # some of them


class Places:
    """The places in one process, each found once."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._known: tuple[dict[int, Place], dict[int, Place]] = {}, {}  # return addresses; exact ones
        self.tallies: dict[Module, Tally] = {}
        self.trampolines: set[int] = set()  # addresses whose place is one: as a return address, or if exact

    def of(self, address: int, is_exact: bool) -> Place:
        """Return the place of a program counter (`is_exact`) or of a return address, raw or less one."""
        known = self._known[is_exact]
        place = known.get(address)
        if place is None:
            if len(known) >= _KEPT_PLACES:
                known.clear()
            place = known[address] = self._find(self._unsigned(RuntimeAddr(address)), is_exact or not address)
            if place.is_trampoline:
                self.trampolines.add(address)
        return place

    def _find(self, address: RuntimeAddr, is_exact: bool) -> Place:
        process = self._process
        if is_exact:
            module = process.module_at(address)
            if module is None:
                return Place(address, None)
            program, vaddr = process.program(module), module.linked(address)
            is_trampoline = program.code.returns_from_signal(vaddr)
            return Place(vaddr, program.body_at(vaddr), is_trampoline=is_trampoline, program=program)
        module = process.module_at(RuntimeAddr(address - 1)) or process.module_at(address)
        if module is None:
            return Place(address - 1, None)
        program = process.program(module)
        at = module.linked(address)
        place = _returned_to(program, at)
        self._count(module, program, at, place)
        return place

    def _count(self, module: Module, program: Program, at: Vaddr, place: Place) -> None:
        tally = self.tallies.get(module)
        if tally is None:
            tally = self.tallies[module] = Tally(program)
        if program.code.call_site(place.vaddr + 1).kind is not SiteKind.UNKNOWN:
            tally.fits += bool(place.return_address or place.is_trampoline)
        elif place.body is None:
            tally.outside += 1
        else:
            return  # a function whose code cannot be read
        tally.count += 1
        if len(tally.addresses) < _KEPT_ADDRESSES:
            tally.addresses.append(at)

    def _unsigned(self, address: RuntimeAddr) -> RuntimeAddr:
        """Return the address without a signature."""
        if not address >> _ADDRESS_BITS or address >> _SIDE_BIT & 1:
            return address
        plain = RuntimeAddr(address & (1 << _ADDRESS_BITS) - 1)
        module = self._process.module_at(plain)
        return plain if module is not None and self._process.program(module).code.signs_pointers else address


def is_hidden(place: Place) -> bool:
    """Return whether the code of a frame may be that of any function of its module: no function has it, and no stub."""
    return place.body is None and place.program is not None and not place.program.code.in_stub(place.vaddr)


def has_frame(place: Place) -> bool:
    """Return whether the code of a function shows that its frame pointer leads to its caller; False: not known."""
    body = place.body
    if body is None:
        return False
    code = body.program.code
    if place.return_address:
        return code.calls_have_frame(body.start, body.end)
    return code.has_frame(body.start, body.end, place.vaddr)


def _returned_to(program: Program, at: Vaddr) -> Place:
    """Return the place of the return address `at`."""
    code = program.code
    return_address: int = followed_call(program, at)
    if not return_address and code.call_site(at).kind is code.call_site(at + 1).kind is SiteKind.UNKNOWN:
        return_address = at
    if return_address:
        return Place(return_address - 1, program.body_at(return_address - 1), return_address, program=program)
    for entry in (at, at + 1):
        is_trampoline = code.returns_from_signal(entry)
        body = program.body_at(entry)
        if is_trampoline or (body is not None and body.start == entry):
            return Place(entry, body, is_trampoline=is_trampoline, program=program)
    is_function = program.body_at(at - 1) is not None or program.body_at(at) is not None
    return Place(at - 1, None, problem=no_call_before(at + program.bias) if is_function else None, program=program)


def followed_call(program: Program, at: int) -> int:
    """Return `at` if that follows a call, else `at + 1` if that does; 0 if neither does."""
    is_raw = program.code.call_site(at).kind not in _NO_CALL
    if program.code.call_site(at + 1).kind in _NO_CALL:
        return at if is_raw else 0
    calls = (at, at + 1) if is_raw else (at + 1,)
    # not a raw address, or bytes that can be read both ways
    ends = {each: _ends_call(program, each) for each in calls}
    for left in ([each for each in calls if ends[each]], [each for each in calls if ends[each] is not False]):
        if len(left) == 1:
            return left[0]
    return 0


def _ends_call(program: Program, at: int) -> bool | None:
    """Return whether an instruction that is a call ends there; None: not known."""
    body = program.body_at(at - 1)
    ends = None if body is None else program.code.ends_call(body.start, body.end, at)
    return ends or program.has_record(at) or ends
