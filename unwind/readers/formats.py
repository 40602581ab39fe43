"""The formats of stacks: which reader reads what, and how a format is known by its content.

A reader is a file of this folder with

    recognizes(head)    whether a file with these first bytes (`Source.head`) is of the format
    read(source)        its `Recording`; raises `FormatError` for what breaks a rule of the format

A reader of stacks in text is a `DIALECT` (`unwind.readers.text_stacks`), which has both.

Formats are asked in the order of the list: those that begin with a magic number first, then text by what each line
must look like. The format `pcs` (`unwind.readers.pcs`) is the strictest, and asked before them; it has no modules, and
is read apart.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from icf.errors import FormatError
from unwind.readers import pcs
from unwind.readers.source import Source
from unwind.samples.recording import Recording

PCS = "pcs"
READERS: dict[str, str] = {
    "perf": "unwind.readers.perf_data",
    "parquet": "unwind.readers.parquet",
    "gperftools-cpu": "unwind.readers.gperftools_cpu",
    "pprof": "unwind.readers.pprof",
    "firefox": "unwind.readers.firefox",
    "heap": "unwind.readers.heap_text",
    "massif": "unwind.readers.massif",
    "heaptrack": "unwind.readers.heaptrack",
    "perf-script": "unwind.readers.perf_script",
    "collapsed": "unwind.readers.collapsed",
    "tombstone": "unwind.readers.tombstone",
    "lldb": "unwind.readers.lldb",
    "hs-err": "unwind.readers.hs_err",
    "sanitizer": "unwind.readers.sanitizer",
    "systemd": "unwind.readers.systemd",
    "eu-stack": "unwind.readers.eu_stack",
    "llvm": "unwind.readers.llvm",
    "strace": "unwind.readers.strace",
    "backtrace": "unwind.readers.backtrace",
    "gdb": "unwind.readers.gdb",
    "valgrind": "unwind.readers.valgrind",
    "glog": "unwind.readers.glog",
    "rust": "unwind.readers.rust",
}
"""Name of each format -> module of its reader."""
IN_TEXT = frozenset(
    [
        "tombstone",
        "lldb",
        "hs-err",
        "sanitizer",
        "systemd",
        "eu-stack",
        "llvm",
        "strace",
        "backtrace",
        "gdb",
        "valgrind",
    ]
    + ["glog", "rust", "massif"]
)
"""Formats of stacks in text, of which some do not say where modules lay."""
_ELF_MAGIC, _MINIDUMP_MAGIC = b"\x7fELF", b"MDMP"
_ELF_TYPE, _ELF_CORES = slice(16, 18), (b"\x04\0", b"\0\x04")


class Reader(Protocol):
    """A module that reads a format."""

    def recognizes(self, head: bytes) -> bool: ...

    def read(self, source: Source) -> Recording: ...


def reader_of(name: str) -> Reader:
    """Return the reader of a format."""
    reader: Reader = import_module(READERS[name])
    return reader


def recognize(source: Source) -> str:
    """Return the name of the format; `FormatError` if it is none that is known."""
    is_pcs = pcs.recognizes(source.head)
    if is_pcs and not pcs.holds_nothing(source.head):
        return PCS
    for name in READERS:  # gdb's lines, too, look like comments
        if reader_of(name).recognizes(source.head):
            return name
    if is_pcs:
        return PCS
    names = ", ".join([PCS, *READERS])
    problem = f"is in no format of stacks that icf knows: {names}"
    raise FormatError(source.path, "file header", 0, problem, hint=_hint(source))


def _hint(source: Source) -> str | None:
    """Return what reads a file that has no format of stacks."""
    if source.head.startswith(_MINIDUMP_MAGIC):
        return f"it is a minidump: icf stacks {source.path}"
    if source.head.startswith(_ELF_MAGIC):
        if source.head[_ELF_TYPE] in _ELF_CORES:
            return f"it is a core file: icf stacks {source.path}"
        return f"it is an image: name it with -e {source.path}, besides the stacks"
    return None
