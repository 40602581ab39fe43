"""Read collapsed stacks, as flame graphs take them: a stack with its count in each line, the outermost frame first.

    main;List<Order>::grow();[libshop.so+0x1136] 12
    main;shop+0x1180;0x7f0012345678 0.5

A frame is what stands between semicolons. It is a name, which may have spaces, and is kept as it is, or an address:

    [mod+0x1136]  mod+0x1136  mod(+0x1136)     in a module, as the linker placed it
    0x7f0012345678                             in a module that is not known

Return addresses are raw or less one. `mod` is a path or a file's name; what has `(`, `<` or `::` before the `+` is a
function: perf writes offsets in functions like that. Names that end in `_[k]` are of the kernel, `_[j]` of code made at
run time. Lines that start with `#` are comments. A count that is not whole is rounded; what it was is kept for the same
format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from unwind.readers.source import LineError, Source
from unwind.samples.recording import Losses, RecordedFrame, RecordedModule, RecordedProcess, Recording, Sample

_LINE = re.compile(rb"(.*?\S)\s+(\d{1,18}(?:\.\d{0,18})?)")
_HEX = re.compile(r"0x([0-9a-f]{1,16})", re.IGNORECASE)
_IN_MODULE = re.compile(
    r"\[([^\[\]]+?)\+0x([0-9a-f]{1,16})\]|([^(<\[\]]+?)(?:\+0x([0-9a-f]{1,16})|\(\+0x([0-9a-f]{1,16})\))", re.IGNORECASE
)
_PCS = re.compile(rb"(\?|(?:0x)?[0-9a-f]+)[!@]?.*", re.IGNORECASE)
_CERTAIN = "_[k]", "_[j]"
_KEPT_FRAMES = 1 << 20


def recognizes(head: bytes) -> bool:
    """Return whether each line ends in a count, and one is more than addresses and a count."""
    lines = [line for line in head.rpartition(b"\n")[0].split(b"\n") or [head] if line.strip() and line[:1] != b"#"]
    if b"\n" not in head:
        lines = [head]
    return all(_LINE.fullmatch(line.rstrip()) for line in lines) and any(
        b";" in line or not _PCS.fullmatch(line.split()[0]) for line in lines
    )


def read(source: Source) -> Recording:
    """Read collapsed stacks as they come; `FormatError` for a line without a count."""
    return Recording("collapsed", _samples(source), losses=Losses.FRAME_POINTERS)


def _samples(source: Source) -> Iterator[Sample]:
    process = RecordedProcess()
    frames: dict[bytes, RecordedFrame] = {}
    for number, line in enumerate(source.lines(), 1):
        line = line.strip()
        if not line or line[:1] == b"#":
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise LineError(source.path, "line", number, f"{line[-60:]!r} has no count at its end")
        stack: list[RecordedFrame] = []
        for token in reversed(match[1].split(b";")):
            frame = frames.get(token)
            if frame is None:
                if len(frames) >= _KEPT_FRAMES:
                    frames.clear()
                frame = frames[token] = _frame(token.decode("utf-8", "surrogateescape"), process)
            stack.append(frame)
        if b"." in match[2]:
            count = Decimal(match[2].decode())
            yield Sample(tuple(stack), process, (round(count),), origin=count)
        else:
            yield Sample(tuple(stack), process, (int(match[2]),))


def _frame(token: str, process: RecordedProcess) -> RecordedFrame:
    """Return the frame that a token is, and add its module to the process."""
    match = _HEX.fullmatch(token)
    if match is not None:
        return RecordedFrame(int(match[1], 16), name=token)
    match = _IN_MODULE.fullmatch(token)
    if match is None or "::" in token:
        return RecordedFrame(name=token, is_certain=token.endswith(_CERTAIN))
    path, address = match[1] or match[3], match[2] or match[4] or match[5]
    module = RecordedModule(path)
    if module not in process.modules:
        process.modules.append(module)
    return RecordedFrame(int(address, 16), module, token)
