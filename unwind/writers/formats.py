"""The formats of results: which writer writes what, and which is meant where none is named.

A writer of samples is a file of this folder with

    open_writer(recording, namer)    a `Writer`; raises `IcfError` for a recording that the format cannot hold

Text and JSON hold the whole answer of each frame, other formats one name (`unwind.writers.named`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from unwind.samples.recording import Recording
from unwind.writers.named import Namer
from unwind.writers.protocol import Writer

TEXT = "text"
WRITERS: dict[str, str] = {
    TEXT: "unwind.writers.text",
    "json": "unwind.writers.json_lines",
    "pprof": "unwind.writers.pprof",
    "collapsed": "unwind.writers.collapsed",
    "perf-script": "unwind.writers.perf_script",
    "firefox": "unwind.writers.firefox",
    "parquet": "unwind.writers.parquet",
}
"""Name of each format -> module of its writer."""
BINARY = frozenset({"pprof", "parquet", "stacks"})  # not for a terminal
STACKS = "stacks"  # no results: the stacks alone, which `--format parquet` reads
_SAME: dict[str, str] = {}  # format of a recording -> that of its results; text, of all others


class WriterModule(Protocol):
    """A module that writes a format."""

    def open_writer(self, recording: Recording, namer: Namer) -> Writer: ...


def default_format(recording: Recording) -> str:
    """Return the format that the results of a recording have if none is named: its own, if it can hold them."""
    name = _SAME.get(recording.format, recording.format)
    return name if name in WRITERS else TEXT


def open_writer(name: str, recording: Recording, namer: Namer) -> Writer:
    """Return the writer of a format; `IcfError` where it cannot hold these samples."""
    module: WriterModule = import_module(WRITERS[name])
    return module.open_writer(recording, namer)
