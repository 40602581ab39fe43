"""Look addresses and names up in a symcache; no numpy, no ELF, no DWARF.

    cache = SymCache.open(path)
    found = cache.find(0x401136)                # the body: start, size, members; None: there is no function
    for frame in cache.frames(0x401136):        # innermost inlined call first, the function itself last
        print(frame.linkage_name, frame.file, frame.line)
    cache.addresses("main")                     # where the functions of a linkage name start

Columns are read in place by `memoryview.cast` and `bisect`; what is in the file is explained in
`unwind.symcache.records`. Whatever breaks a rule is a `FormatError`, raised by what reads it.
"""

from __future__ import annotations

import gc
import os
import zlib
from array import array
from bisect import bisect_left, bisect_right

from icf.demangle import demangle
from icf.errors import FormatError, IcfError
from icf.typed import TYPE_CHECKING, NamedTuple
from unwind.symcache._records import decode
from unwind.symcache.container import COMPLETE, Container, Head, Identity
from unwind.symcache.records import ALL_KNOWN, META, REST, SIZED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal, Protocol, Self, TypeVar

    import numpy as np
    from numpy.typing import NDArray

    from icf.model import MemberFlag

_STR = "surrogateescape"
_MIN_NODES = 64
_FEW, _KEPT_MEMBERS = 16, 1 << 18
_MANY = 1000  # addresses for which it pays to check all names at once


class NotCached(IcfError):
    """A partial symcache does not know: this was never asked when it was made."""


class CachedFrame(NamedTuple):
    """One function at an address; "" and 0 where something is not known."""

    linkage_name: str
    file: str
    line: int
    column: int
    is_inlined: bool

    @property
    def name(self) -> str:
        """The demangled name."""
        return demangle(self.linkage_name)


Frames = tuple[CachedFrame, ...]  # innermost first, the function that has the machine code last

if TYPE_CHECKING:
    T = TypeVar("T", Frames, str)
    T_co = TypeVar("T_co", Frames, str, covariant=True)

    class Make(Protocol[T_co]):
        """What to make of frames; what is made is added up."""

        def inner(self, name: str, file: str, line: int, column: int, is_inlined: bool) -> T_co:
            """Of the innermost."""

        def outer(self, name: str, file: str, line: int, column: int, is_inlined: bool) -> T_co:
            """Of one around it, once for many addresses."""

        @property
        def nothing(self) -> T_co: ...


class _MakeFrames:
    """The frames themselves."""

    nothing: Frames = ()

    def inner(self, name: str, file: str, line: int, column: int, is_inlined: bool) -> Frames:
        return (_new(CachedFrame, (name, file, line, column, is_inlined)),)

    outer = inner


_new: Callable[[type[CachedFrame], tuple[str | int, ...]], CachedFrame] = tuple.__new__  # twice as fast as the class
FRAMES = _MakeFrames()


class CachedMember(NamedTuple):
    """Who may be at a body."""

    name: str  # linkage name, as in the symbol table
    flags: MemberFlag
    aliases: tuple[str, ...]


class Located(NamedTuple):
    """A body and its members; merged if there are two or more."""

    start: int
    size_bytes: int
    members: tuple[CachedMember, ...]
    is_complete: bool  # there are no other members


class Record(NamedTuple):
    """A body as the file has it."""

    start: int
    size_bytes: int
    is_complete: bool
    names: tuple[tuple[int, ...], ...]  # of each member: name, aliases
    flags: tuple[int, ...]
    payloads: tuple[tuple[int, int], ...]  # of each member: where in `records`


class SymCache:
    """An open symcache."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.path = container.path
        meta = container.piece("meta", 0, META.size)
        self._base, width, self._count, self._name_count, self._file_count, *_ = META.unpack(meta)
        if width not in (4, 8):
            raise self._error("meta", 8, f"addresses of {width} bytes")
        code: Literal["I", "Q"] = "I" if width == 4 else "Q"
        self._starts = self._column("starts", code, self._count)
        self._sizes = self._column("sizes", code, self._count)
        self._infos = self._column("infos", "I", self._count + 1)
        self._texts: dict[int, str] = {}
        self._paths: dict[int, str] = {}
        self._nodes = array("I")  # what `decode` works in
        self._all_names: tuple[memoryview[int], memoryview[int]] | None = None
        self._index: tuple[Any, ...] | None = None
        self._merged: dict[int, Record] = {}  # by entry: those that take long to read

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Map a file; `FormatError` if it is no symcache, or damaged where it was read."""
        return cls(Container.open(path))

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """Of a container that is open."""
        return cls(container)

    @property
    def head(self) -> Head:
        return self.container.head

    @property
    def identity(self) -> Identity:
        return self.container.head.identity

    @property
    def is_complete(self) -> bool:
        """Whether it has all of the image: then what it does not have is not there."""
        return bool(self.container.head.flags & COMPLETE)

    def find(self, vaddr: int) -> Located | None:
        """The body whose code holds `vaddr`; None: no function has it. `NotCached`: a partial cache does not know."""
        entry = self.entry_at(vaddr)
        return self.located(entry) if entry >= 0 else None

    def located(self, entry: int) -> Located | None:
        """The body of an entry, as `locate_many` numbers them; None: known to be in no function."""
        from icf.model import MemberFlag

        record = self._record(entry)
        if not record.names:
            return None
        members = tuple(
            CachedMember(self._name(names[0]), MemberFlag(flags), tuple(self._name(name) for name in names[1:]))
            for names, flags in zip(record.names, record.flags, strict=True)
        )
        return Located(record.start, record.size_bytes, members, record.is_complete)

    def frames(self, vaddr: int, member_idx: int = 0) -> list[CachedFrame]:
        """What is at `vaddr` if its body is that member: innermost inlined call first, the function itself last.

        Empty where no function is. `IndexError` for a member that the body does not have.
        """
        entry = self.entry_at(vaddr)
        if entry < 0:
            return []
        record = self._record(entry)
        if not record.names:
            return []
        return list(self.chains(record, [vaddr], FRAMES, member_idx)[0])

    def frames_many(self, vaddrs: Sequence[int]) -> list[list[CachedFrame]]:
        """`frames` of each address, of the first member; faster, as each function's record is read once."""
        if len(vaddrs) >= _MANY:
            was_collecting = gc.isenabled()
            gc.disable()  # there is no garbage, and half a million new objects would be looked through time and again
            try:
                return self._frames_of(vaddrs)
            finally:
                if was_collecting:
                    gc.enable()
        return self._frames_of(vaddrs)

    def _frames_of(self, vaddrs: Sequence[int]) -> list[list[CachedFrame]]:
        found: list[list[CachedFrame]] = [[] for _ in vaddrs]
        for record, places in self.by_body(vaddrs):
            here = [vaddrs[i] for i in places]
            for i, frames in zip(places, self.chains(record, here, FRAMES), strict=True):
                found[i] = list(frames)
        return found

    def by_body(self, vaddrs: Sequence[int]) -> Iterator[tuple[Record, list[int]]]:
        """The bodies that hold some of the addresses, and which: their places in `vaddrs`, addresses ascending."""
        if len(vaddrs) >= _MANY and self._all_names is None:
            offsets = self._column("nameoff", "I", self._name_count + 1)
            self._all_names = offsets, self.container.section("names")
        order = sorted(range(len(vaddrs)), key=vaddrs.__getitem__)
        at = 0
        while at < len(order):
            entry = self.entry_at(vaddrs[order[at]])
            if entry < 0:
                at += 1
                continue
            end = self._base + self._starts[entry] + self._sizes[entry]
            last = at
            while last < len(order) and vaddrs[order[last]] < end:
                last += 1
            record = self._record(entry)
            if record.names:
                yield record, order[at:last]
            at = last

    def linkage_names(self, record: Record) -> list[str]:
        """The names of the members of a body."""
        return [self._name(names[0]) for names in record.names]

    def addresses(self, name: str) -> list[int]:
        """Where the functions of a linkage name start; empty: the image has none."""
        encoded = name.encode("utf-8", _STR)
        hashes = self._column("hashes", "I", self.container.section_size_bytes("hashes") // 4)
        entries = self._column("nameidx", "I", len(hashes))
        value = zlib.crc32(encoded)
        found = set()
        for i in range(bisect_left(hashes, value), bisect_right(hashes, value)):
            if entries[i] >= self._count:
                raise self._error("nameidx", 4 * i, f"entry {entries[i]} is none of {self._count}")
            record = self._record(entries[i])
            if any(self._name(number) == name for names in record.names for number in names):
                found.add(record.start)
        if not self.is_complete:
            raise NotCached(f"{self.path}: is partial: nobody asked where {name} is")
        return sorted(found)

    def locate_many(self, vaddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The entry that holds each address, -1 where none does: for bulk work; `located` tells of an entry."""
        import numpy as np

        from unwind.symcache._records import locate, make_index

        if self._index is None:
            starts = np.asarray(self._starts).astype(np.uint64)
            sizes = np.asarray(self._sizes).astype(np.uint64)
            span = int(starts[-1] + sizes[-1]) if len(starts) else 0
            shift = max((span // max(2 * len(starts), 1)).bit_length() - 1, 0)
            index = np.empty((span >> shift) + 1, np.uint32)
            make_index(starts.data, shift, index.data)
            self._index = starts.data, sizes.data, shift, index.data
        starts, sizes, shift, index = self._index
        asked = np.ascontiguousarray(vaddrs, np.uint64)
        found = np.empty(len(asked), np.int64)
        locate(starts, sizes, self._base, shift, index, asked.data, found.data)
        return found

    def _error(self, section: str, offset: int, problem: str) -> FormatError:
        return FormatError(self.path, section, offset, problem)

    def _column(self, section: str, code: Literal["I", "Q"], count: int) -> memoryview[int]:
        size_bytes = count * (8 if code == "Q" else 4)
        if self.container.section_size_bytes(section) < size_bytes:
            raise self._error(section, 0, f"is shorter than {count} numbers")
        return self.container.piece(section, 0, size_bytes).cast(code)

    def entry_at(self, vaddr: int) -> int:
        """The entry that holds an address, -1 for none; `located` tells of it."""
        offset = vaddr - self._base
        entry = bisect_right(self._starts, offset) - 1
        if entry >= 0 and offset < self._starts[entry] + self._sizes[entry]:
            return entry
        if not self.is_complete:
            raise NotCached(f"{self.path}: is partial: nobody asked what is at {vaddr:#x}")
        return -1

    def _record(self, entry: int) -> Record:
        """Who is at an entry, or at the function that goes on there."""
        known = self._merged.get(entry)
        if known is not None:
            return known
        record = self._read_record(entry)
        if len(record.names) > _FEW:
            if sum(len(each.names) for each in self._merged.values()) > _KEPT_MEMBERS:
                self._merged.clear()
            self._merged[entry] = record
        return record

    def _read_record(self, entry: int) -> Record:
        reader = _Uleb(self, self._infos[entry], self._infos[entry + 1])
        head = reader.next()
        if head & REST:
            distance = reader.next()
            if not 0 < distance <= entry:
                raise reader.error("the function that goes on here is before all entries")
            entry -= distance
            reader = _Uleb(self, self._infos[entry], self._infos[entry + 1])
            head = reader.next()
            if head & REST:
                raise reader.error("the function that goes on here does not begin here")
        size_bytes = reader.next() if head & SIZED else self._sizes[entry]
        member_count = head >> 3
        names, flags, payloads = [], [], []
        for i in range(member_count):
            own = [reader.next()]
            bits = reader.next()
            if bits & 1:
                for _ in range(reader.next()):
                    own.append(reader.next())
            size = reader.next() if i < member_count - 1 else reader.end - reader.at
            payloads.append((reader.at, size))
            reader.skip(size)
            names.append(tuple(own))
            flags.append(bits >> 1)
        start = self._base + self._starts[entry]
        return Record(start, size_bytes, bool(head & ALL_KNOWN), tuple(names), tuple(flags), tuple(payloads))

    def chains(self, record: Record, vaddrs: list[int], make: Make[T], member_idx: int = 0) -> list[T]:
        """What is at addresses, ascending, of one body, made by `make` of its frames."""
        if not 0 <= member_idx < len(record.names):
            raise IndexError(f"member {member_idx} of {len(record.names)}")
        at, size_bytes = record.payloads[member_idx]
        own_name = self._name(record.names[member_idx][0])
        if not size_bytes:
            return [make.inner(own_name, "", 0, 0, False)] * len(vaddrs)
        data = self.container.piece("records", at, size_bytes)
        offsets = memoryview(array("Q", [vaddr - record.start for vaddr in vaddrs]))
        found = memoryview(bytearray(16 * len(vaddrs))).cast("I", (4, len(vaddrs)))
        width = _MIN_NODES
        while True:
            if len(self._nodes) < 8 * width:
                self._nodes = array("I", bytes(32 * width))
            width = len(self._nodes) // 8
            state = memoryview(bytearray(16)).cast("Q")
            nodes = memoryview(self._nodes).cast("B").cast("I", (8, width))
            count = decode(data, offsets, nodes, found, state)
            if count >= -1:
                break
            width = -2 - count + 1
        if count < 0:
            raise self._error("records", at + state[0], "lines and inlined calls break a rule")
        return self._made(own_name, width, found.tolist(), make)

    def _made(self, own_name: str, width: int, found: Any, make: Make[T]) -> list[T]:
        """What `make` makes of places that `decode` found and the nodes it left, `width` in a column."""
        nodes, text, path, inner = self._nodes, self._name, self._file, make.inner
        around = {0: make.nothing}  # what is around a node
        answers = []
        for node, file, line, column in zip(*found, strict=True):
            if not node:
                answers.append(inner(own_name, path(file), line, column, False))
                continue
            if node not in around:
                calls = [node]
                while (parent := nodes[calls[-1]]) not in around:
                    calls.append(parent)
                for call in reversed(calls):
                    parent = nodes[call]
                    name = text(nodes[width + parent]) if parent else own_name
                    file_of_call, line_of_call = path(nodes[2 * width + call]), nodes[3 * width + call]
                    outer = make.outer(name, file_of_call, line_of_call, nodes[4 * width + call], parent != 0)
                    around[call] = outer + around[parent]
            answers.append(inner(text(nodes[width + node]), path(file), line, column, True) + around[node])
        return answers

    def _name(self, number: int) -> str:
        text = self._texts.get(number)
        if text is None:
            if number >= self._name_count:
                raise self._error("records", 0, f"name {number} is none of {self._name_count}")
            if self._all_names is None:
                start, end = self.container.piece("nameoff", 4 * number, 8).cast("I")
                piece = self.container.piece("names", start, end - start - 1)
            else:
                offsets, names = self._all_names
                piece = names[offsets[number] : offsets[number + 1] - 1]
            text = self._texts[number] = str(piece, "utf-8", _STR)
        return text

    def _file(self, number: int) -> str:
        path = self._paths.get(number)
        if path is None:
            if number >= self._file_count:
                raise self._error("records", 0, f"file {number} is none of {self._file_count}")
            directory, base = self.container.piece("fileoff", 8 * number, 8).cast("I")
            path = self._paths[number] = self._string("files", directory) + self._string("files", base)
        return path

    def _string(self, section: str, start: int) -> str:
        limit = self.container.section_size_bytes(section)
        step = 128
        while start < limit:
            piece = bytes(self.container.piece(section, start, min(step, limit - start)))
            end = piece.find(0)
            if end >= 0:
                return str(piece[:end], "utf-8", _STR)
            if step >= limit - start:
                break
            step *= 4
        raise self._error(section, start, "string has no end")


class _Uleb:
    """LEB128 numbers of a record."""

    def __init__(self, cache: SymCache, start: int, end: int) -> None:
        self._cache = cache
        self.at, self.end = start, end
        if end < start:
            raise self.error("record ends before it begins")
        self._first = start
        self._data = cache.container.piece("records", start, end - start)

    def next(self) -> int:
        value = shift = 0
        while shift < 64:
            if self.at >= self.end:
                raise self.error("record is cut short")
            byte = self._data[self.at - self._first]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise self.error("number has more than 64 bits")

    def skip(self, size_bytes: int) -> None:
        if size_bytes > self.end - self.at:
            raise self.error("record is cut short")
        self.at += size_bytes

    def error(self, problem: str) -> FormatError:
        return FormatError(self._cache.path, "records", self.at, problem)
