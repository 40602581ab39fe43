"""A symcache that keeps only what was asked for: for images whose symcache would be large and rarely used.

    with open_or_build("/usr/bin/shop", lazy=True) as cache:
        cache.frames(0x401136)
        cache.addresses("main")

Answers are remembered in memory first. They are written when there are many new ones, when the last writing is long
ago, and at the end: `close`, the end of the `with` block, the end of the interpreter, or when the object is deleted.
Answers that another process has written meanwhile are kept as well. That there is no function at an address, or no
address of a name, is an answer like others. A damaged file with answers is dropped, and the questions are asked
again.

Unknown answers come from the image: the first time from the bodies in question alone, then from all of it, in
memory.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from icf.errors import FormatError, IcfError
from unwind.program.frame import Frame
from unwind.symcache.format.container import STALE_TABLES, Identity, pack
from unwind.symcache.format.identity import Recognized
from unwind.symcache.format.sources import SECTION, Sought, Sources
from unwind.symcache.reader.found import Located
from unwind.symcache.reader.symcache import NotCached, SymCache
from unwind.symcache.store.folder import Folder, complain, warn_if_stale
from unwind.symcache.store.locks import locked
from unwind.symcache.store.making import Made, make
from unwind.symcache.store.ownership import PARTIAL
from unwind.symcache.store.partial import NOTHING, Answer, Entries, PartialFile, answer_of
from unwind.symcache.store.room import keep

WRITTEN_AFTER = 256  # new answers, or half of what is on disk
WRITTEN_AFTER_S = 5.0
_WAIT_S = 2.0  # for another process that writes


class LazySymCache:
    """A symcache with the look-ups of `SymCache`; use it in a `with` block, or call `close`."""

    def __init__(self, folder: Folder, sought: Sought, recognized: Recognized) -> None:
        self.identity: Identity = recognized.identity
        self.is_complete = False
        self._answers = _Answers(folder, sought, recognized)
        self._at_end = weakref.finalize(self, self._answers.write)

    def close(self) -> None:
        """Write the new answers."""
        self._at_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self) -> None:
        """Write the new answers, and go on."""
        self._answers.write()

    def find(self, vaddr: int) -> Located | None:
        """Return the body that holds the address, None if none does."""
        return self._answers.of([vaddr])[0].located

    def frames(self, vaddr: int, member_idx: int = 0) -> list[Frame]:
        """Return the frames at an address in one member, innermost first.

        Raise IndexError for a member that does not exist.
        """
        answer = self._answers.of([vaddr])[0]
        return list(answer.frames[member_idx]) if answer.located is not None else []

    def frames_many(self, vaddrs: Iterable[int]) -> list[list[Frame]]:
        """Return the frames at each address in the first member."""
        return [list(answer.frames[0]) if answer.frames else [] for answer in self._answers.of(list(vaddrs))]

    def addresses(self, name: str) -> list[int]:
        """Return all addresses of a linkage name; none if it is not in the image."""
        return list(self._answers.of_name(name))


class _Answers:
    """The known answers: on disk, in memory and not on disk yet, and from the image."""

    def __init__(self, folder: Folder, sought: Sought, recognized: Recognized) -> None:
        self._folder, self._sought, self._recognized = folder, sought, recognized
        self._name = f"{recognized}{PARTIAL}"
        self._lock = threading.RLock()
        self._known: dict[int, Answer] = {}
        self._known_names: dict[str, list[int]] = {}
        self._new: set[int] = set()
        self._new_names: set[str] = set()
        self._next_s = time.monotonic() + WRITTEN_AFTER_S
        self._count = 0  # on disk
        self._source = _Source(folder, sought, recognized)
        self._file = self._read()

    def of(self, vaddrs: Sequence[int]) -> list[Answer]:
        with self._lock:
            missing = [vaddr for vaddr in dict.fromkeys(vaddrs) if not self._has(vaddr)]
            if missing:
                for vaddr, answer in self._source.answers(missing):
                    self._known[vaddr] = answer
                    if 0 <= vaddr < 1 << 64:
                        self._new.add(vaddr)
            found = [self._known[vaddr] for vaddr in vaddrs]
            self._write_at_times()
            return found

    def of_name(self, name: str) -> list[int]:
        with self._lock:
            found = self._known_names.get(name)
            if found is None and self._file is not None:
                try:
                    found = self._file.addresses(name)
                except FormatError:
                    self._drop()
            if found is None:
                found = self._source.whole().addresses(name)
                self._new_names.add(name)
            self._known_names[name] = found
            self._write_at_times()
            return found

    def _has(self, vaddr: int) -> bool:
        if vaddr in self._known:
            return True
        try:
            answer = self._file.answer(vaddr) if self._file is not None else None
        except FormatError:
            self._drop()
            return False
        if answer is None:
            return False
        self._known[vaddr] = answer
        return True

    # The file

    def _read(self) -> PartialFile | None:
        """Return the file, if it is whole and valid."""
        try:
            kept = self._folder.open(self._name)
            if kept is None:
                return None
            sources = Sources.parse(kept.section(SECTION), kept.path)
            if sources.problem(self._sought.path, self._sought.debug_file, self._sought.debug_roots):
                return None
            warn_if_stale(kept, self._sought.path)
            return PartialFile(kept)
        except FormatError:
            self._folder.remove(self._name)
            return None

    def _drop(self) -> None:
        self._file = None
        self._folder.remove(self._name)

    def _write_at_times(self) -> None:
        count = len(self._new) + len(self._new_names)
        is_long_ago = time.monotonic() > self._next_s
        if count and (is_long_ago or count >= max(WRITTEN_AFTER, self._count // 2)):
            self.write()

    def write(self) -> None:
        """Write the new answers together with those that the file has now; warn once if that is not possible."""
        with self._lock:
            if self._source.made is None or not (self._new or self._new_names):
                return
            start_s = time.monotonic()
            try:
                with locked(self._folder, self._name, _WAIT_S):
                    self._write(self._source.made)
            except OSError as error:
                complain(self._folder, (error.strerror or str(error)).lower())
            self._new.clear()
            self._new_names.clear()
            took_s = time.monotonic() - start_s
            self._next_s = start_s + max(WRITTEN_AFTER_S, 20 * took_s)

    def _write(self, made: Made) -> None:
        other = self._read()
        try:
            entries = other.entries() if other is not None else Entries({}, {})
        except FormatError:
            entries = Entries({}, {})
        self._count = len(entries.answers) + len(entries.names)
        new_names = {name: self._known_names[name] for name in self._new_names}
        entries.add({vaddr: self._known[vaddr] for vaddr in self._new}, new_names)
        sections = entries.pack()
        sections[SECTION] = bytes(made.sections[SECTION])
        keep(
            self._folder,
            self._name,
            pack(made.head._replace(flags=made.head.flags & STALE_TABLES), sections, made.origin),
        )
        self._file = self._read()


class _Source:
    """The image: read for a few addresses first, then in full."""

    def __init__(self, folder: Folder, sought: Sought, recognized: Recognized) -> None:
        self._folder, self._sought, self._recognized = folder, sought, recognized
        self._whole: SymCache | None = None
        self._was_asked = False
        self.made: Made | None = None  # the result of the last reading

    def answers(self, vaddrs: list[int]) -> Iterator[tuple[int, Answer]]:
        within = [vaddr for vaddr in vaddrs if 0 <= vaddr < 1 << 64]
        cache = self.whole() if self._was_asked else self._read(within)
        self._was_asked = True
        for vaddr in vaddrs:
            try:
                yield vaddr, answer_of(cache, vaddr)
            except NotCached:  # asked for, and not there
                yield vaddr, NOTHING

    def whole(self) -> SymCache:
        if self._whole is None:
            self._whole = self._read(None)
            self._was_asked = True
        return self._whole

    def _read(self, wanted: list[int] | None) -> SymCache:
        self.made = made = make(self._sought, self._folder, wanted)
        if made.recognized != self._recognized:
            raise IcfError(f"{self._sought.path}: has changed since it was opened")
        return SymCache.from_container(made.in_memory())
