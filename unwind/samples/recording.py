"""What a profiler or a crash tool has written: samples, before anything of them is looked up.

    Recording            the format it came in, what its weights count, and its samples
      Sample             a stack with its weights, its labels, and the process that it is of
        RecordedFrame    an address in a module, or only the name that the recording has for it
          RecordedModule a file that was mapped, as the recording identifies it

A reader makes each frame and each module once and hands out the same object again: what is known of a frame is then
kept by the object, and millions of samples cost one look-up for each distinct frame. So frames are compared by
identity.

How the address of a frame is meant, depends on the format:

    Base.LINKED      as the linker placed it: sanitizers' `(shop+0x1136)`
    Base.LOWEST      from the lowest address of the image: the Firefox Profiler's
    Base.OFFSET      an offset in the file: `perf script` up to 6.3
    Base.RUN_TIME    where it lay in the process; the module's `start`, `end` and `offset` are the mapping's

The first frame is a program counter, the others are return addresses, raw or less one: which, is found in the code
(`unwind.resolve.places`). `in_call` marks those that are less one, or less four on AArch64: there the start of a call
can follow another call. `is_exact` marks further program counters: the function that a signal or a system call
interrupted. `callee` marks calls that the processor noted, which have the address of the call instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from icf.pe.identity import PeIdentity


class Base(Enum):
    """What the addresses in a module are relative to."""

    LINKED = "linked"
    LOWEST = "lowest"
    OFFSET = "offset"
    RUN_TIME = "run-time"


class Losses(Enum):
    """Which frames an unwinder may have left out; frames that tail calls leave out are not meant."""

    NONE = "none"
    FRAME_POINTERS = "fp"  # those of functions without a frame, and of the caller of a function that has none yet
    ANY = "any"  # one between each two frames

    __hash__ = object.__hash__  # of the steps' keys; that of Enum is not compiled


@dataclass(frozen=True, slots=True)
class RecordedModule:
    """A file that was mapped into a process; equal ones are the same."""

    path: str
    build_id: bytes = b""  # empty: not known
    base: Base = Base.LINKED
    start: int = 0  # of the mapping that holds the code; 0 unless addresses are run-time ones
    end: int = 0
    offset: int = 0  # in the file, of `start`
    file_id: tuple[int, int] | None = None  # device and inode as the kernel has recorded them
    pe: PeIdentity | None = None  # of a PE image


class Inlined(NamedTuple):
    """A function that was inlined in a frame, as the recording says, and its place there."""

    name: str
    file: str = ""
    line: int = 0


@dataclass(eq=False, slots=True)
class RecordedFrame:
    """A frame as it was recorded.

    `name`, `file`, `line` and `inlined` are what the recording says, which may be wrong."""

    address: int | None = None  # None: only the name is known
    module: RecordedModule | None = None  # None: in no file, as kernel code and code made at run time, or not known
    name: str = ""
    file: str = ""
    line: int = 0
    is_exact: bool = False
    inlined: tuple[Inlined, ...] = ()  # innermost first
    is_certain: bool = False  # no linker has folded what `name` is of: kernel functions, code made at run time
    in_call: bool = False  # the address of a call, or a return address less one; else a return address may be raw, too
    callee: int = 0  # what the processor saw called: then the address is that where the call instruction starts


@dataclass(eq=False, slots=True)
class RecordedProcess:
    """A process, as far as the recording knows it: the modules that can call each other."""

    pid: int = 0  # 0: not known
    modules: list[RecordedModule] = field(default_factory=list)  # a reader may add to it as long as it reads
    root: str = ""  # where the process saw its root directory: "/proc/PID/root" of a container; "": here
    is_whole: bool = False  # else it may have modules that are not listed


class Label(NamedTuple):
    """What else was recorded with a sample: `tid`, `comm`, `event`, a label of a pprof profile."""

    key: str
    value: str | int
    unit: str = ""


class Sample(NamedTuple):
    """A stack, innermost frame first, and how much it counts."""

    frames: tuple[RecordedFrame, ...]
    process: RecordedProcess
    weights: tuple[int, ...] = (1,)  # one for each of the recording's values
    labels: tuple[Label, ...] = ()
    time_ns: int = 0  # since an epoch of the recording's own; 0: not known
    is_called: bool = False  # the first frame is a return address, too: heap profiles, glibc's backtrace()
    vptrs: tuple[tuple[int, int], ...] = ()  # (frame index, run-time vtable pointer that the frame's `this` held)
    origin: object = None  # the reader's own record of it, for a writer of the same format


class Value(NamedTuple):
    """What a weight counts: `samples`, `count`; `cpu`, `nanoseconds`; `inuse_space`, `bytes`."""

    name: str = "samples"
    unit: str = "count"


@dataclass(slots=True)
class Recording:
    """The result of a reader; `samples` can be read once."""

    format: str  # as `--format` names it
    samples: Iterable[Sample]
    values: tuple[Value, ...] = (Value(),)
    losses: Losses = Losses.NONE
    origin: object = None  # the reader's own form of the whole, for a writer of the same format
    shown: int = -1  # index of the value that formats of one value show

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)
