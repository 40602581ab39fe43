"""Variables at addresses: llvm-symbolizer's answers to `DATA`, as ThreadSanitizer asks for them.

    global_counter            its name
    16512 4                   where it begins, as linked, and its size, both decimal
    ??:?                      no place: a symbol has none

A symcache has functions only, so these are looked up in the symbol table of the image. An address in no variable has
no answer; llvm-symbolizer names the variable before it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icf.debugfiles.opening import open_with_debug
from icf.elf.types import STB_LOCAL, STT_OBJECT
from unwind.symbolize.styles import Options, namer


class Datum(NamedTuple):
    """A variable; of several of one address and size the names are joined."""

    linkage_names: tuple[str, ...]
    start: int
    size_bytes: int


_NONE = Datum((), 0, 0)


class DataSymbols:
    """The variables of the image at a path, none without one. It raises IcfError for a file that is not an image."""

    def __init__(
        self, path: str | None, debug_file: str | None = None, debug_roots: Sequence[str] = (), problem: str = ""
    ) -> None:
        self.problem = problem  # why there are none
        self._start = self._size = np.empty(0, np.uint64)
        if path is None:
            return
        with open_with_debug(path, debug_file, debug_roots) as image:
            symbols = image.symbols
            rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined & (symbols.size_bytes != 0))
            rows = rows[np.argsort(symbols.bind[rows] == STB_LOCAL, kind="stable")]  # global ones first
            self._start, self._size = symbols.value[rows], symbols.size_bytes[rows]
            self._names = symbols.names(rows.tolist())

    def find(self, vaddr: int) -> Datum:
        """Return the variable that holds the address, the smallest if they nest."""
        at = np.uint64(vaddr)
        rows = np.flatnonzero((self._start <= at) & (at - self._start < self._size))
        if not len(rows):
            return _NONE
        start, size_bytes = min((int(self._size[row]), int(self._start[row])) for row in rows.tolist())[::-1]
        same = rows[(self._start[rows] == start) & (self._size[rows] == size_bytes)]
        return Datum(tuple(dict.fromkeys(self._names[row] for row in same.tolist())), start, size_bytes)


def write_datum(found: Datum, address: int, image: str, options: Options, problem: str = "") -> str:
    """Return the answer as text, in the style of the options; `problem` is why the image has none."""
    name = " | ".join(map(namer(options), found.linkage_names))
    if options.form == "json":
        data = {"Name": name, "Size": hex(found.size_bytes), "Start": hex(found.start)}
        said = {"Error": {"Message": problem}} if problem else {"Data": data}
        answer = {"Address": hex(address), **said, "ModuleName": image}
        return json.dumps(answer, separators=(",", ":")) + "\n"
    head = f"{address:#x}{': ' if options.pretty else chr(10)}" if options.addresses else ""
    return f"{head}{name or '??'}\n{found.start} {found.size_bytes}\n??:?\n" + "\n" * (options.form == "llvm")
