"""The columns of a thread in a processed profile of the Firefox Profiler, checked where they are read.

Versions differ in where a table stands: strings in `stringArray` or `stringTable` of the thread, or all tables in
`shared`; libraries in the thread (before version 41) or in the profile. A column may be missing where the format has
come to be without it. Source: firefox-devtools/profiler, src/types/profile.ts and CHANGELOG-formats.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from math import isfinite

from icf.errors import FormatError

Json = object
_DEEPEST = 1 << 14  # frames in a stack


def threads_of(profile: Json, path: str) -> list[FirefoxThread]:
    """Return the threads of a profile; `FormatError` if it has none of that format."""
    if not isinstance(profile, dict) or not isinstance(profile.get("threads"), list):
        raise FormatError(path, "JSON", 0, "is not a processed profile: it has no list of threads")
    meta = profile.get("meta")
    if not isinstance(meta, dict) or not isinstance(meta.get("preprocessedProfileVersion"), int):
        problem = "is not a processed profile: meta has no preprocessedProfileVersion"
        if isinstance(meta, dict) and "version" in meta:
            problem = "is a profile in Firefox's own format: open it in the Firefox Profiler, and save it there"
        raise FormatError(path, "JSON", 0, problem)
    shared = profile.get("shared")
    return [
        FirefoxThread(thread, shared if isinstance(shared, dict) else {}, profile.get("libs"), f"threads[{idx}]", path)
        for idx, thread in enumerate(profile["threads"])
    ]


class FirefoxThread:
    """A thread; rows are given by number."""

    def __init__(self, thread: Json, shared: dict[str, Json], libs: Json, where: str, path: str) -> None:
        self._path, self._where = path, where
        if not isinstance(thread, dict):
            raise self.error("is not an object")
        self.tables = {**shared, **thread}
        self._row_counts: dict[str, int] = {}
        self.name = str(thread.get("name", ""))
        self.pid, self.tid = str(thread.get("pid", "")), _int_or_text(thread.get("tid", 0))
        strings = self.tables.get("stringArray", self.tables.get("stringTable"))
        if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
            raise self.error("stringArray is not a list of strings")
        self._strings: list[str] = strings
        listed = thread.get("libs", libs)
        self._libs: Sequence[Json] = listed if isinstance(listed, list) else ()
        self._stack_frames = self._rows("stackTable", "frame")
        self._prefixes = self._rows("stackTable", "prefix")
        self._addresses, self._funcs = self._rows("frameTable", "address"), self._rows("frameTable", "func")
        self._depths = self._optional_rows("frameTable", "inlineDepth")
        self._symbols = self._optional_rows("frameTable", "nativeSymbol")
        self._lines = self._optional_rows("frameTable", "line")
        self._names, self._resources = self._rows("funcTable", "name"), self._rows("funcTable", "resource")
        self._files = self._optional_rows("funcTable", "fileName")
        self._sources = self._optional_rows("funcTable", "source")
        self._are_scripts = self._optional_rows("funcTable", "isJS")
        self._libs_of_resources = self._optional_rows("resourceTable", "lib")
        self._libs_of_symbols = self._optional_rows("nativeSymbols", "libIndex")
        self._source_names = self._optional_rows("sources", "filename")

    def error(self, problem: str) -> FormatError:
        """Return the error for something in this thread."""
        return FormatError(self._path, f"JSON {self._where}", 0, problem)

    # Stacks

    def stack(self, stack_idx: int) -> list[tuple[int, ...]]:
        """Return the frames of a stack, innermost first: rows of frameTable, those inlined in one before it."""
        return [tuple([self.frame(node) for node in group]) for group in self.node_groups(stack_idx)]

    def node_groups(self, stack_idx: int) -> list[tuple[int, ...]]:
        """Return the same as rows of stackTable."""
        groups: list[tuple[int, ...]] = []
        inlined: list[int] = []
        for node in self.nodes(stack_idx):
            inlined.append(node)
            if not self._depths or not self._depths[self.frame(node)]:
                groups.append(tuple(inlined))
                inlined = []
        if inlined:
            raise self.error(f"stack {stack_idx} begins with an inlined frame")
        return groups

    def frame(self, node: int) -> int:
        """Return the row in frameTable of a row in stackTable."""
        return self._idx(self._stack_frames[node], len(self._addresses), "stackTable.frame")

    def prefix(self, node: int) -> Json:
        """Return the stack that a stack goes on from; None if that is none."""
        return self._prefixes[node]

    def nodes(self, stack_idx: int) -> list[int]:
        """Return the rows of stackTable that a stack consists of, innermost first."""
        rows: list[int] = []
        node = self._idx(stack_idx, len(self._prefixes), "stack")
        while True:
            rows.append(node)
            prefix = self._prefixes[node]
            if prefix is None:
                return rows
            node = self._idx(prefix, node, "stackTable.prefix")  # a stack stands before those that go on from it
            if len(rows) >= _DEEPEST:
                raise self.error(f"stack {stack_idx} has more than {_DEEPEST} frames")

    # Frames

    def place(self, frame: int) -> tuple[str, str, int]:
        """Return name, file and line of a frame; "" and 0 where something is not known."""
        func = self.func(frame)
        line = self._lines[frame] if self._lines else None
        if self._files:
            file = self._files[func]
        else:
            source = self._sources[func] if self._sources else None
            file = None if source is None else self._source_names[self._idx(source, len(self._source_names), "source")]
        shown = "" if file is None else self._string(file)
        return self._string(self._names[func]), shown, line if isinstance(line, int) and line > 0 else 0

    def address(self, frame: int) -> tuple[int | None, int]:
        """Return the address of a frame in its library, and the row of that in `libs`; None and -1 if it has none."""
        lib = self._lib(frame)
        address = self._addresses[frame]
        if not isinstance(address, int) or not 0 <= address < 1 << 64 or lib < 0:
            return None, lib
        return address, lib

    def func(self, frame: int) -> int:
        """Return the row in funcTable of a frame."""
        return self._idx(self._funcs[frame], min(len(self._names), len(self._resources)), "frameTable.func")

    def resource(self, frame: int) -> int:
        """Return the row in resourceTable of a frame's function; -1 if it has none."""
        resource = self._resources[self.func(frame)]
        if resource in (-1, None):
            return -1
        return self._idx(resource, len(self._libs_of_resources), "funcTable.resource")

    def is_script(self, frame: int) -> bool:
        """Tell whether a frame is of a script, or of code that was made from one at run time."""
        return bool(self._are_scripts) and self._are_scripts[self.func(frame)] is True

    def lib_path(self, lib: int) -> str:
        """Return the path of a library; "" for -1."""
        return self._lib_text(lib, "path") or self._lib_text(lib, "debugPath") or self._lib_text(lib, "name")

    def lib_code_id(self, lib: int) -> str:
        """Return what identifies the library's file: on Linux the build id in hexadecimal, or ""."""
        return self._lib_text(lib, "codeId")

    # Samples

    def has(self, table: str) -> bool:
        """Tell whether the thread has a table of samples."""
        return isinstance(self.tables.get(table), dict)

    def weight_type(self, table: str) -> str:
        """Return what the weights of a table of samples count."""
        found = self._table(table).get("weightType")
        return found if found in ("bytes", "tracing-ms") else "samples"

    def samples(self, table: str) -> Iterator[tuple[int, float, float]]:
        """Yield stack, weight and time (in ms) of each sample that has a stack."""
        stacks = self._rows(table, "stack")
        weights = self._optional_rows(table, "weight") or repeat(1)
        times = self._optional_rows(table, "time")
        deltas = self._optional_rows(table, "timeDeltas")
        moments = times or accumulate(map(self._number, deltas)) if times or deltas else repeat(0)
        for stack, weight, moment in zip(stacks, weights, moments, strict=False):
            if stack is not None:
                idx = self._idx(stack, len(self._prefixes), f"{table}.stack")
                yield idx, self._number(weight), self._number(moment)

    # Rows and what they hold

    def _table(self, name: str) -> dict[str, Json]:
        table = self.tables.get(name)
        if not isinstance(table, dict):
            raise self.error(f"{name} is not an object")
        return table

    def _rows(self, name: str, column: str) -> list[Json]:
        rows = self._table(name).get(column)
        if not isinstance(rows, list):
            raise self.error(f"{name}.{column} is not a list")
        if len(rows) != self._row_counts.setdefault(name, len(rows)):
            raise self.error(f"{name}.{column} has {len(rows)} rows, must have {self._row_counts[name]} as others")
        return rows

    def _optional_rows(self, name: str, column: str) -> list[Json]:
        table = self.tables.get(name)
        if not isinstance(table, dict) or table.get(column) is None:
            return []
        return self._rows(name, column)

    def _idx(self, value: Json, count: int, what: str) -> int:
        if type(value) is not int or not 0 <= value < count:
            raise self.error(f"{what}: {str(value)[:20]} is not a row from 0 to {count - 1}")
        return value

    def _number(self, value: Json) -> float:
        if type(value) not in (int, float) or not isinstance(value, (int, float)) or not isfinite(value):
            raise self.error(f"{str(value)[:20]} is not a number")
        return value

    def _string(self, idx: Json) -> str:
        return self._strings[self._idx(idx, len(self._strings), "stringArray")]

    def _lib(self, frame: int) -> int:
        symbol = self._symbols[frame] if self._symbols else None
        if symbol is not None:
            lib = self._libs_of_symbols[self._idx(symbol, len(self._libs_of_symbols), "frameTable.nativeSymbol")]
        else:
            resource = self.resource(frame)
            lib = -1 if resource < 0 else self._libs_of_resources[resource]
        return -1 if lib in (-1, None) else self._idx(lib, len(self._libs), "libs")

    def _lib_text(self, lib: int, key: str) -> str:
        found = self._libs[lib] if lib >= 0 else None
        text = found.get(key) if isinstance(found, dict) else None
        return text if isinstance(text, str) else ""


def _int_or_text(value: Json) -> int | str:
    return value if type(value) is int else str(value)
