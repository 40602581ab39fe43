"""Where a program lay in a process that a text is of, by the functions that the text names.

    #4  0x000055e97535da5f main                   main is at 0x29a0, 240 bytes: the program lay at
    #9  0x000055e97535d591 _start                 ..53500 to ..5350bf, _start says the same: 0x55e97535b000

A symbolizer's name is right where its function has a body for itself. So each such frame leaves few places, of whole
pages; a place counts if frames of two functions or more have it, and none contradicts. It rests on the image being that
of the process, as `-e` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from itertools import islice

from icf.demangle import demangle, qualified_name
from icf.elf.image import Image
from icf.elf.types import ET_EXEC
from icf.log import note
from unwind.program.program import Body, Program
from unwind.samples.recording import RecordedModule
from unwind.target.search import SearchPaths

_PAGE_BYTES = 4096
_FUNCTIONS = 2  # that have to agree
_FRAMES = 256  # of a stack that are looked at
_NAMES = 1 << 12  # that are looked for: each search goes through all symbols
_NAMED_ALIKE = 1 << 12  # functions whose names have a word: more are not looked through
_WORD = re.compile(r"[A-Za-z_]\w*")
_CLONE = re.compile(r" (?:\[clone [^\]]*\]|\(\.[^)]*\))\Z")


class NamedPlaces:
    """Finds the place of one program; to be closed."""

    def __init__(self, path: str, search: SearchPaths) -> None:
        self.module = RecordedModule(path)
        self._path, self._search, self._opened = path, search, ExitStack()
        self._known: dict[str, Body | None] = {}
        self._told: set[int] = set()

    def bias(self, frames: Iterable[tuple[int | None, str]]) -> int | None:
        """Return what was added to the addresses of the image; None if the frames of a stack do not say it.

        `frames` are run-time addresses, and the names of the functions that were called.
        """
        low, high = 0, 1 << 64
        bodies: set[Body] = set()
        for address, name in islice(frames, _FRAMES):
            body = self._body(name) if address is not None and name else None
            if body is not None and address is not None:
                low, high = max(low, address - body.end), min(high, address - body.start)
                bodies.add(body)
        bias = -(-low // _PAGE_BYTES) * _PAGE_BYTES
        if len(bodies) < _FUNCTIONS or not bias <= high < bias + _PAGE_BYTES:
            return None
        if bias not in self._told:
            self._told.add(bias)
            note(f"{self._path}: lay at {bias:#x}, as the addresses of {len(bodies)} functions show that are named")
        return bias

    def close(self) -> None:
        """Close the image."""
        self._opened.close()

    def _body(self, name: str) -> Body | None:
        """Return the body that one function of this name has for itself."""
        name = _CLONE.sub("", name)
        if name not in self._known:
            if len(self._known) >= _NAMES:
                return None
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Body | None:
        if self._image.headers.elf_type == ET_EXEC:
            return None
        words = _WORD.findall(qualified_name(demangle(name)))
        symbols = self._image.symbols
        rows = symbols.functions
        if not words or not len(rows):
            return None
        named_alike = rows[symbols.holds(words[-1].encode(), rows)]
        if len(named_alike) > _NAMED_ALIKE:
            return None
        vaddrs = {
            int(symbols.value[row])
            for row, linkage in zip(named_alike.tolist(), symbols.names(named_alike), strict=True)
            if name in (linkage, text := demangle(linkage), qualified_name(text))
        }
        body = self._program.body_at(vaddrs.pop()) if len(vaddrs) == 1 else None
        return body if body is not None and body.settled else None

    @cached_property
    def _image(self) -> Image:
        return self._opened.enter_context(Image.open(self._path))

    @cached_property
    def _program(self) -> Program:
        return self._search.program(self._search.open(self._path), self._path, self._opened)
