"""Read the native frames in the log of a Java VM that has crashed: `hs_err_pid4711.log`.

    # C  [libshop.so+0x1175]  List<User>::grow(int)+0x5                 at the top, on the console: a program counter

    Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)
    C  [libshop.so+0x1175]  List<User>::grow(int)+0x5                   a program counter
    C  [libshop.so+0x1162]  Java_Shop_add+0x22  (shop.cpp:12)           JDK 19 and later: the line, if the VM finds one
    C  [libshop.so+0x1200]                                              no symbol
    C  0x0000000000000000                                               in no module
    j  Shop.main([Ljava/lang/String;)V+7                                a frame of Java: nothing is known of it
    v  ~StubRoutines::call_stub
    V  [libjvm.so+0x8282d2]  JavaCalls::call_helper(JavaValue*)+0x302   of the VM

Numbers are counted from the lowest address of the module, whose file's name alone is there; `Dynamic libraries:`,
further down, has its path (`unwind.process.hs_err_maps`). The first frame is a program counter, if the line before it
is there, the others are return addresses, raw. The VM walks along frame pointers, and leaves out the callers of
functions that have none. Source: OpenJDK, src/hotspot/share/runtime/frame.cpp.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from unwind.process.hs_err_maps import HEAD
from unwind.process.maps import parse_mapping
from unwind.readers.frame_line import FrameLine
from unwind.readers.module_places import ModulePlaces
from unwind.readers.source import Source
from unwind.readers.text_stacks import Dialect, samples_of
from unwind.samples.recording import Base, Losses, RecordedModule, Recording, Sample

TITLE = b"Native frames: ("
_FRAME = re.compile(rb"(?:^|(?<=\s))(# )?[CV]  \[([^\[\]\s][^\[\]]{0,255}?)\+0x([0-9a-f]{1,16})\](?=\s|\Z)")
_OTHER = re.compile(rb"(?:[jvA]  |J {1,2}|C  0x)[^\s\[]")
_SYMBOL = re.compile(rb"  (\S.{0,4000})(\+0x[0-9a-f]{1,16})(  \([^()]{1,255}:[0-9]{1,9}\))?")
_LINE = re.compile(rb"  \((.*):([0-9]+)\)")
_FRAMES = 1 << 16  # lines of frames in a log: a VM prints hundreds


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none. The title of the frames counts as part of the first.

    Its parts: the text before the function, the function, the offset in it, its line, what stands after that.
    """
    found = _FRAME.search(line)
    if found is None:
        if line.startswith(TITLE):
            return FrameLine(0, parts=(line, b"", b"", b"", b""))
        if not _OTHER.match(line):
            return None
        name = _name_of_java(line).decode("utf-8", "replace")
        return FrameLine(1, name=name, parts=(line, b"", b"", b"", b""))
    module = RecordedModule(found[2].decode("utf-8", "surrogateescape"), base=Base.LOWEST)
    frame = FrameLine(0 if found[1] else 1, module=module, vaddr=int(found[3], 16))
    end = len(line.rstrip())
    symbol = _SYMBOL.fullmatch(line, found.end(), end)
    if symbol is None:
        frame.parts = (line[: found.end()], b"", b"", b"", line[found.end() :])
        return frame
    frame.name = symbol[1].decode("utf-8", "replace")
    where = _LINE.fullmatch(symbol[3]) if symbol[3] else None
    if where:
        frame.file, frame.line = where[1].decode("utf-8", "replace"), int(where[2])
    frame.parts = (line[: found.end()], symbol[1], symbol[2], symbol[3] or b"", line[end:])
    return frame


def _name_of_java(line: bytes) -> bytes:
    """Return the method or the stub that a line without a module shows; empty if it shows an address."""
    if line.startswith(b"J"):
        return line.partition(b" (")[0].rpartition(b" ")[2].strip()
    text = line[3:].rstrip()
    return b"" if line.startswith(b"C") else text.rpartition(b"+")[0] or text.partition(b" ")[0]


def is_title(line: FrameLine) -> bool:
    """Return whether a line is that before the first frame."""
    return line.parts[0].startswith(TITLE)


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    return is_title(before[-1])


def _goes_on(before: list[FrameLine], line: FrameLine) -> bool:
    return before[0].number == 0 and line.number > 0 if is_title(before[0]) else bool(before[0].number and line.number)


DIALECT = Dialect("hs-err", parse, _joins, _goes_on, losses=Losses.FRAME_POINTERS, marks_inlined=True)
recognizes = DIALECT.recognizes


def read(source: Source) -> Recording:
    """Return the native frames of a log; the line at the top, which has the first of them, is passed over."""
    return Recording(DIALECT.name, _samples(source), losses=DIALECT.losses)


def _samples(source: Source) -> Iterator[Sample]:
    kept: list[bytes] = []
    paths: dict[str, set[str]] = {}
    is_mapping = False
    for line in source.lines():
        is_mapping = line.rstrip() == HEAD or (is_mapping and bool(line.strip()))
        mapping = parse_mapping(line.rstrip(b"\r\n")) if is_mapping else None
        if mapping is not None and mapping.is_of_file:
            paths.setdefault(os.path.basename(mapping.path_once), set()).add(mapping.path_once)
        frame = parse(line) if not line.startswith(b"#") and len(kept) < _FRAMES else None
        if frame is not None or (kept and kept[-1]):
            kept.append(line if frame is not None else b"")
    places = ModulePlaces(source.places, named=source.named, paths=paths)
    for sample in samples_of(kept, DIALECT, places):
        if any(frame.address is not None for frame in sample.frames):
            yield sample
