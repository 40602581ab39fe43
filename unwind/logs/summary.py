"""Rewrite the line that sums up the report of a sanitizer: it names a frame of the report's first stack.

    SUMMARY: AddressSanitizer: heap-buffer-overflow /src/shop.cpp:7:49 in List<User>::last()
    SUMMARY: AddressSanitizer: heap-buffer-overflow (/usr/bin/shop+0x139984) (BuildId: b13b462b)
    SUMMARY: ThreadSanitizer: data race /src/shop.cpp:7:49 in List<User>::last()

The frame is found by its text: the first line of the report that had this place and this function. A later stack may
have the same text for another function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unwind.logs.rewrite import Replaced
from unwind.readers import sanitizer

_MARK = b"SUMMARY: "
_KEPT = 1 << 10  # lines of a report


NewName = tuple[tuple[bytes, bytes], bytes]  # place and function of a line, and how a summary names what it is now


def new_names(lines: Iterable[Replaced]) -> Iterator[NewName]:
    """Yield the names of the frames that lines show now, those that stayed as well."""
    for old, text in lines:
        _, _, name, where, place, _ = old.parts
        key = where if old.file else place, name
        if text is None:
            yield key, _named(*key)
        elif (new := sanitizer.parse(text)) is not None:
            yield key, _named(new.parts[3] if new.file else new.parts[4], new.parts[2])


class Summary:
    """The lines of a report, as they were and as they are."""

    def __init__(self) -> None:
        self._new: dict[tuple[bytes, bytes], bytes] = {}

    def note(self, lines: Iterable[NewName]) -> None:
        """Take note of lines of a report."""
        if len(self._new) < _KEPT:
            for place, now in lines:
                self._new.setdefault(place, now)

    def rewrite(self, line: bytes) -> bytes:
        """Return a line that shows no frame; that which ends a report with the new name of its frame."""
        if _MARK not in line:
            return line
        new, self._new = self._new, {}
        end = len(line.rstrip())
        text = line[:end]
        for (where, name), now in new.items():
            for old in (_named(where, name), where):
                if where and text.endswith(b" " + old):
                    if now == old:
                        return line
                    return text[: -len(old)] + now + line[end:].lstrip(b" ")
        return line


def _named(where: bytes, name: bytes) -> bytes:
    return where + b" in " + name if name else where
