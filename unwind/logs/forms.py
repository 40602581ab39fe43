"""Write the lines of a frame anew, each in the form that its line had.

    sanitizers   #1 0x5581d8c5 in List<User>::sum() /src/shop.cpp:9:49
                 #1 0x5581d8c5 in List<User>::sum() | List<Order>::sum() (/usr/bin/shop+0x1398c5)
                 #1 List<User>::sum() /src/shop.cpp:9:49 (shop+0x1398c5)                             TSan
    eu-stack     #1  0x000000005581d8c5 - 1 List<User>::sum() - /usr/bin/shop
                     /src/shop.cpp:9:49
    LLVM         #1 0x000000005581d8c5 List<User>::sum() /src/shop.cpp:9:49
    systemd      #1  0x000000005581d8c5 List<User>::sum() (shop + 0x1398c5)
    strace        > /usr/bin/shop(List<User>::sum()+0x1b) [0x1398c5]
    backtrace    /usr/bin/shop(List<User>::sum()+0x1b) [0x5581d8c5] at /src/shop.cpp:9:49
    valgrind     ==4711==    by 0x10C8C5: List<User>::sum() (shop.cpp:9)
    glog             @         0x5581d8c5  List<User>::sum()
    gdb          #1  0x000000005581d8c5 in List<User>::sum (this=0x7ffd) at /src/shop.cpp:9
    lldb         frame #1: 0x000000005581d8c5 shop`List<User>::sum(this=0x00007ffd) at shop.cpp:9:49
    Java         C  [libshop.so+0x1398c5]  List<User>::sum()+0x1b
    tombstones   #01 pc 00000000001398c5  /usr/bin/shop (List<User>::sum()+27)
    Rust            1:         0x5581d8c5 - shop::sum
                                              at /src/shop.rs:9:49

A frame that can be several functions has their names, and no file and line, but the place in its module. gdb's
arguments stay as gdb has printed them, lldb's where the frame has one name. Tools that read tombstones and systemd's
stacks take the symbol alone: no line is added.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from icf.demangle import qualified_name
from icf.printable import printable
from unwind.readers import (
    backtrace,
    eu_stack,
    gdb,
    glog,
    hs_err,
    lldb,
    llvm,
    rust,
    sanitizer,
    strace,
    systemd,
    tombstone,
    valgrind,
)
from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect, TextFrame
from unwind.samples.recording import RecordedFrame
from unwind.writers.named import NamedFrame


class Known(NamedTuple):
    """What is known of a frame."""

    shown: tuple[NamedFrame, ...]  # innermost inlined function first
    recorded: RecordedFrame
    offset: int  # of the address in the function


class Form(NamedTuple):
    """How frames of a dialect are written; `number` is that of the first line."""

    mark: bytes  # a line without it shows no frame
    dialect: Dialect
    write: Callable[[TextFrame, Known, int], list[bytes]]
    has_files: bool = True
    line_of_file: re.Pattern[bytes] | None = None  # such a line after a frame is a part of it, and written with it


def encoded(text: str) -> bytes:
    """Return a name or a path as it is written: without what a terminal would act on."""
    return os.fsencode(printable(text))


def renumbered(text: bytes, line: FrameLine, number: int) -> bytes:
    """Return a line with another number; where numbers have a width (gdb), a space makes up for a digit."""
    if number == line.number:
        return text
    start = len(line.parts[0])
    if text[start] != ord("#"):  # Rust's numbers, which have a width
        return text[:start] + b"%*d" % (rust.NUMBER_WIDTH, number) + text[text.index(b":", start) :]
    start += 1
    old, new = b"%d" % line.number, b"%d" % number
    rest = text[start + len(old) :]
    if rest.startswith(b"  ") and len(new) > len(old):
        rest = rest[len(new) - len(old) :]
    elif len(new) < len(old) and rest.startswith(b" ") and not rest.startswith(b" 0x"):
        rest = b" " * (len(old) - len(new)) + rest
    return text[:start] + new + rest


def _sanitizer(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    first = frame.lines[0]
    head, address, _, _, place, tail = first.parts
    place = place or _place(known.recorded)
    lines = []
    for idx, each in enumerate(known.shown):
        where = _where(each, has_column=not first.line or bool(first.column))
        if address:
            text = b" ".join((address, b"in", encoded(each.name), where or place))
        else:
            text = b" ".join((encoded(each.name), where or b"<null>", place))
        lines.append(b"%b#%d %b%b" % (head, number + idx, text.rstrip(), tail.lstrip(b" ")))
        place = place.partition(b" (BuildId: ")[0]  # as TSan writes it in the first line alone
    return lines


def _llvm(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    head, address, _, _, place, tail = frame.lines[0].parts
    place = place or _place(known.recorded)
    texts = [(encoded(each.name), _where(each, has_column=True) or place) for each in known.shown]
    return [
        b"%b#%d %b %b %b%b" % (head, number + idx, address, name, where, tail)
        for idx, (name, where) in enumerate(texts)
    ]


def _place(recorded: RecordedFrame) -> bytes:
    """Return module and address as linked."""
    module = recorded.module
    if module is None or recorded.address is None:
        return b""
    build_id = f" (BuildId: {module.build_id.hex()})" if module.build_id else ""
    return encoded(f"({module.path}+{recorded.address:#x}){build_id}")


def _backtrace(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    before, address, tail = frame.lines[0].parts
    own = known.shown[-1]
    where = _where(own, has_column=True)
    text = b"%b(%b+%#x)%b" % (before, encoded(own.name), known.offset, address)
    return [text + (b" at " + where if where else b"") + tail]


def _gdb(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    first = frame.lines[0]
    is_same_count = len(known.shown) == len(frame.lines)
    lines = []
    for idx, each in enumerate(known.shown):
        old = frame.lines[idx] if is_same_count else first
        arguments = old.parts[3] if is_same_count or len(known.shown) == 1 else b" (...)"
        address = first.parts[1] + b" in " if idx == 0 and first.parts[1] else b""
        name = " | ".join(map(qualified_name, each.name.split(" | "))) if each.is_settled else each.name
        where = b" at " + encoded(each.file) + b":%d" % each.line if each.file else b""
        if not each.is_settled and old.parts[4].startswith(b" from "):
            where = old.parts[4]
        lines.append(
            b"%b#%-2d %b%b%b%b%b"
            % (first.parts[0], number + idx, address, encoded(name), arguments, where, first.parts[5])
        )
    return lines


def _hs_err(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    first, own = frame.placed, known.shown[-1]
    before, _, offset, line, tail = first.parts
    where = b"  (%b:%d)" % (encoded(os.path.basename(own.file)), own.line) if line and own.line else b""
    text = b"%b  %b%b%b%b" % (before, encoded(own.name), offset or b"+%#x" % known.offset, where, tail)
    return [*[each.parts[0] for each in frame.lines[:-1]], text]


def _lldb(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    own = [line for line in frame.lines if not lldb.is_artificial(line)]
    lines = [_lldb_line(line.parts, number + idx) for idx, line in enumerate(frame.lines[: -len(own)])]
    number += len(lines)
    first, outer = own[0], known.shown[-1].name
    is_same_count = len(known.shown) == len(own)
    module = first.parts[2]
    if not module and known.recorded.module is not None:
        module = b" %b`" % encoded(os.path.basename(known.recorded.module.path))
    for idx, each in enumerate(known.shown):
        old = own[idx] if is_same_count else first
        name, rest = encoded(each.name), b""
        if old.parts[5].startswith(b" + "):
            rest = old.parts[5]
        elif each.is_settled and is_same_count and old.parts[5]:
            before, own_name, _ = each.name.partition(qualified_name(each.name))
            name, rest = encoded(before + own_name), old.parts[5]  # with the type that a template returns
        where = b" at " + _where(each._replace(file=os.path.basename(each.file)), has_column=True) if each.line else b""
        inlined_in = encoded(outer) + lldb.INLINED if idx < len(known.shown) - 1 else b""
        head = first.parts[0] if not lines else first.parts[0].replace(b"*", b" ")
        parts = (head, old.parts[1], module or b" `", inlined_in, name, rest, where, first.parts[7], first.parts[8])
        lines.append(_lldb_line(parts, number + idx))
    return lines


def _lldb_line(parts: tuple[bytes, ...], number: int) -> bytes:
    return b"%b#%d: %b" % (parts[0], number, b"".join(parts[1:]))


def _tombstone(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    before, _, after = frame.lines[0].parts
    return [b"%b (%b+%d)%b" % (before, encoded(known.shown[-1].name), known.offset, after)]


def _systemd(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    head, address, _, place, tail = frame.lines[0].parts
    return [b"%b#%-2d %b %b %b%b" % (head, number, address, encoded(known.shown[-1].name), place, tail)]


def _strace(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    before, symbol, after = frame.lines[0].parts
    offset = symbol[symbol.rfind(b"+") :] if symbol else b""
    return [b"%b(%b%b)%b" % (before, encoded(known.shown[-1].name), offset, after)]


def _valgrind(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    head, word, address, _, place, tail = frame.lines[0].parts
    lines = []
    for idx, each in enumerate(known.shown):
        where = b" (%b:%d)" % (encoded(os.path.basename(each.file)), each.line) if each.line else b""
        if not where:
            module = known.recorded.module
            where = place if place.startswith(b" (in ") else b" (in %b)" % encoded(module.path) if module else b""
        lines.append(b"%b%b %b: %b%b%b" % (head, b"by" if idx else word, address, encoded(each.name), where, tail))
    return lines


def _eu_stack(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    head, address, _, module, tail = frame.lines[0].parts
    lines = []
    for idx, each in enumerate(known.shown):
        where = eu_stack.BEFORE_LINE + _where(each, has_column=True) + tail if each.file else b""
        lines.append(b"%b#%-2d %b %b%b%b%b" % (head, number + idx, address, encoded(each.name), module, tail, where))
    return lines


def _glog(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    before, _, after = frame.lines[0].parts
    return [before + encoded(known.shown[-1].name) + after]


def _rust(frame: TextFrame, known: Known, number: int) -> list[bytes]:
    head, address, _, tail = frame.lines[0].parts
    lines = []
    for idx, each in enumerate(known.shown):
        at = rust.AT + _where(each, has_column=True) + tail if each.file else b""
        digits = b"%*d" % (rust.NUMBER_WIDTH, number + idx)
        lines.append(
            b"%b%b: %b - %b%b%b" % (head, digits, address.rjust(rust.ADDRESS_WIDTH), encoded(each.name), tail, at)
        )
    return lines


def _where(frame: NamedFrame, *, has_column: bool) -> bytes:
    if not frame.file:
        return b""
    where = encoded(frame.file)
    if frame.line:
        where += b":%d" % frame.line
        if frame.column and has_column:
            where += b":%d" % frame.column
    return where


FORMS = (
    Form(b"#", tombstone.DIALECT, _tombstone, has_files=False),
    Form(b"frame #", lldb.DIALECT, _lldb),
    Form(b" ", hs_err.DIALECT, _hs_err, has_files=False),
    Form(b"#", sanitizer.DIALECT, _sanitizer),
    Form(b"#", systemd.DIALECT, _systemd, has_files=False),
    Form(b"#", eu_stack.DIALECT, _eu_stack, has_files=False, line_of_file=eu_stack.LINE),
    Form(b"#", llvm.DIALECT, _llvm),
    Form(strace.MARK, strace.DIALECT, _strace, has_files=False),
    Form(b"[0x", backtrace.DIALECT, _backtrace),
    Form(b"#", gdb.DIALECT, _gdb),
    Form(b"==", valgrind.DIALECT, _valgrind),
    Form(b"@ ", glog.DIALECT, _glog, has_files=False),
    Form(b" - ", rust.DIALECT, _rust, has_files=False, line_of_file=rust.LINE),
)
