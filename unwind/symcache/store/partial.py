"""A partial symcache: answers to the questions that were asked, and nothing else; also that there is no answer.

The sections of its file, for a few to some 100,000 answers, each found by bisection and decoded on use:

    addrs     u64, ascending: the addresses that were asked for
    addrat    u32, one more: where the answer for each begins in
    addrdat   JSON, one after the other: null for an address in no function, else
              [start, size in bytes, is complete, [[name, flags, [alias ...], [frame ...]] for each member]]
              with a frame [linkage name, file, line, column, 1 if inlined]
    hashes    u32, ascending: CRC-32 of the names that were asked for
    hashat    u32, one more: where the answer for each begins in
    hashdat   JSON: [name, [address ...]]; all addresses of the name, none if it is not there

An answer is complete: it has all addresses of its name.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from icf.errors import FormatError
from icf.model import MemberFlag
from unwind.program.frame import Frame
from unwind.symcache.format.container import Container
from unwind.symcache.reader.found import CachedMember, Located
from unwind.symcache.reader.symcache import SymCache


class Answer(NamedTuple):
    """The answer for an address: `located` is None where it lies in no function."""

    located: Located | None
    frames: tuple[tuple[Frame, ...], ...]  # for each member


NOTHING = Answer(None, ())


def answer_of(cache: SymCache, vaddr: int) -> Answer:
    """Return the answer of a symcache for an address."""
    located = cache.find(vaddr) if 0 <= vaddr < 1 << 64 else None
    if located is None:
        return NOTHING
    return Answer(located, tuple(tuple(cache.frames(vaddr, at)) for at in range(len(located.members))))


class PartialFile:
    """A file of answers. Every method raises a `FormatError` where the file breaks its format."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._addrs = self._column("addrs", "Q")
        self._hashes = self._column("hashes", "I")
        for name, keys in (("addrat", self._addrs), ("hashat", self._hashes)):
            if container.section_size_bytes(name) != 4 * (len(keys) + 1):
                raise FormatError(container.path, name, 0, f"must have {len(keys) + 1} numbers")

    def answer(self, vaddr: int) -> Answer | None:
        """Return the answer for an address; None if it was not asked for."""
        at = bisect_left(self._addrs, vaddr)
        if at == len(self._addrs) or self._addrs[at] != vaddr:
            return None
        return self._decoded(at)

    def addresses(self, name: str) -> list[int] | None:
        """Return the addresses of a name; None if it was not asked for."""
        key = _hash(name)
        at = bisect_left(self._hashes, key)
        while at < len(self._hashes) and self._hashes[at] == key:
            found, addresses = self._named(at)
            if found == name:
                return addresses
            at += 1
        return None

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """Yield all addresses."""
        for at, vaddr in enumerate(self._addrs):
            yield vaddr, self._decoded(at)

    def names(self) -> Iterator[tuple[str, list[int]]]:
        """Yield all names."""
        for at in range(len(self._hashes)):
            yield self._named(at)

    def entries(self) -> Entries:
        """Return all answers, as they are in the file."""
        answers = {vaddr: self._text("addr", at) for at, vaddr in enumerate(self._addrs)}
        return Entries(answers, {self._text("hash", at): key for at, key in enumerate(self._hashes)})

    def _column(self, name: str, kind: Literal["I", "Q"]) -> memoryview:
        section = self.container.section(name)
        if len(section) % array(kind).itemsize:
            raise FormatError(self.container.path, name, 0, f"{len(section)} bytes are not a whole column")
        return section.cast(kind)

    def _text(self, kind: str, at: int) -> bytes:
        start, end = self.container.piece(f"{kind}at", 4 * at, 8).cast("I")
        return bytes(self.container.piece(f"{kind}dat", start, end - start))

    def _value(self, kind: str, at: int) -> Any:
        try:
            return json.loads(self._text(kind, at))
        except (ValueError, RecursionError):
            raise self._error(kind, at) from None

    def _decoded(self, at: int) -> Answer:
        value = self._value("addr", at)
        if value is None:
            return NOTHING
        try:
            start, size_bytes, is_complete, listed = value
            members, frames = [], []
            for name, flags, aliases, chain in listed:
                members.append(CachedMember(_str(name), MemberFlag(_int(flags)), tuple(map(_str, aliases))))
                frames.append(tuple(map(_frame, chain)))
            located = Located(_int(start), _int(size_bytes), tuple(members), bool(is_complete))
            return Answer(located, tuple(frames))
        except (TypeError, ValueError):
            raise self._error("addr", at) from None

    def _named(self, at: int) -> tuple[str, list[int]]:
        try:
            name, addresses = self._value("hash", at)
            return _str(name), list(map(_int, addresses))
        except (TypeError, ValueError):
            raise self._error("hash", at) from None

    def _error(self, kind: str, at: int) -> FormatError:
        return FormatError(self.container.path, f"{kind}at", 4 * at, "leads to no answer")


class Entries(NamedTuple):
    """The contents of a file: stored answers, by address; and those about names, with the hash of each."""

    answers: dict[int, bytes]
    names: dict[bytes, int]

    def add(self, answers: Mapping[int, Answer], names: Mapping[str, list[int]]) -> None:
        for vaddr, answer in answers.items():
            self.answers[vaddr] = _json(_plain(answer))
        for name, addresses in names.items():
            self.names[_json([name, addresses])] = _hash(name)

    def pack(self) -> dict[str, bytes]:
        """Return the sections."""
        vaddrs = sorted(self.answers)
        texts = [self.answers[vaddr] for vaddr in vaddrs]
        lists = sorted(self.names, key=lambda text: (self.names[text], text))
        return {
            "addrs": array("Q", vaddrs).tobytes(),
            "addrat": _starts(texts),
            "addrdat": b"".join(texts),
            "hashes": array("I", map(self.names.__getitem__, lists)).tobytes(),
            "hashat": _starts(lists),
            "hashdat": b"".join(lists),
        }


def _plain(answer: Answer) -> object:
    located = answer.located
    if located is None:
        return None
    members = [
        [member.name, int(member.flags), list(member.aliases), [[*frame[:4], int(frame.is_inlined)] for frame in chain]]
        for member, chain in zip(located.members, answer.frames, strict=True)
    ]
    return [located.start, located.size_bytes, int(located.is_complete), members]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _starts(texts: list[bytes]) -> bytes:
    starts = array("I", [0])
    for text in texts:
        starts.append(starts[-1] + len(text))
    return starts.tobytes()


def _hash(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


def _frame(value: Any) -> Frame:
    linkage_name, file, line, column, is_inlined = value
    return Frame(_str(linkage_name), _str(file), _int(line), _int(column), bool(is_inlined))


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise TypeError
    return value
