"""Rows that are added to the tables of a thread in a processed profile of the Firefox Profiler.

A table is an object of columns, lists of one length; versions differ in which columns there are. A row that is added is
like another one but for what is given: what a version has besides stays as it was there.
"""

from __future__ import annotations

from typing import Any

Table = dict[str, Any]


class Rows:
    """A table that grows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        columns = {name: column for name, column in table.items() if isinstance(column, list)}
        self._count = max([len(column) for column in columns.values()], default=0)
        self._columns = [(name, column) for name, column in columns.items() if len(column) == self._count]

    def add(self, like: int | None = None, **cells: object) -> int:
        """Add a row and return its number; columns that are not given are as in the row `like`, else null."""
        for name, column in self._columns:
            column.append(cells[name] if name in cells else None if like is None else column[like])
        row, self._count = self._count, self._count + 1
        self._table["length"] = self._count
        return row


class ThreadRows:
    """The tables of a thread, or of several that share them; each row is added once."""

    def __init__(self, tables: Table) -> None:
        self.tables = tables
        self._rows: dict[str, Rows] = {}
        self._texts: list[str] = tables["stringArray"] if "stringArray" in tables else tables["stringTable"]
        self._strings = {text: idx for idx, text in reversed(list(enumerate(self._texts)))}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._files: dict[str, int] = {}
        self._symbols: dict[tuple[int, int, str], int] = {}
        self._frames: dict[tuple[object, ...], int] = {}
        self._nodes: dict[tuple[int | None, int], int] = {}

    def table(self, name: str) -> Rows:
        """Return one of the tables, to add to it."""
        if name not in self._rows:
            self._rows[name] = Rows(self.tables[name])
        return self._rows[name]

    def string(self, text: str) -> int:
        """Return the number of a string."""
        idx = self._strings.get(text)
        if idx is None:
            idx = self._strings[text] = len(self._texts)
            self._texts.append(text)
        return idx

    def function(self, name: str, file: str, resource: int, like: int | None = None) -> int:
        """Return the row of a function in funcTable."""
        key = name, file, resource
        row = self._functions.get(key)
        if row is None:
            row = self._functions[key] = self.table("funcTable").add(
                like,
                name=self.string(name),
                isJS=False,
                relevantForJS=False,
                resource=resource,
                fileName=self.string(file) if file else None,
                source=self._source(file),
                lineNumber=None,
                columnNumber=None,
            )
        return row

    def symbol(self, lib: int, address: int, size_bytes: int, name: str) -> int | None:
        """Return the row of a function's code in nativeSymbols; None in versions that have none (before 38)."""
        if "nativeSymbols" not in self.tables:
            return None
        key = lib, address, name
        row = self._symbols.get(key)
        if row is None:
            row = self._symbols[key] = self.table("nativeSymbols").add(
                libIndex=lib,
                address=address,
                name=self.string(name),
                functionSize=size_bytes or None,
            )
        return row

    def frame(self, like: int | None = None, **cells: object) -> int:
        """Return the row of a frame in frameTable."""
        key = like, *cells.items()
        row = self._frames.get(key)
        if row is None:
            row = self._frames[key] = self.table("frameTable").add(like, **cells)
        return row

    def node(self, prefix: int | None, frame: int, like: int | None = None, **cells: object) -> int:
        """Return the row of a stack in stackTable: `frame` inwards of the stack `prefix`."""
        key = prefix, frame
        row = self._nodes.get(key)
        if row is None:
            row = self._nodes[key] = self.table("stackTable").add(like, prefix=prefix, frame=frame, **cells)
        return row

    def _source(self, file: str) -> int | None:
        sources = self.tables.get("sources")
        if not file or not isinstance(sources, dict):
            return None
        row = self._files.get(file)
        if row is None:
            like = 0 if sources.get("filename") else None
            row = self._files[file] = self.table("sources").add(like, filename=self.string(file), uuid=None, id=None)
        return row
