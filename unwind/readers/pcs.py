"""Read `--format pcs`: one stack a line, innermost frame first.

    0x401136 0x401180 ? 0x4011f0 x12      # a comment
    401136@vptr=0x404010 401180 401c20!

An address is hexadecimal, with or without `0x`; the first is a program counter, the others are return addresses, raw or
less one. `!` after an address says that it is exact: a program counter, too, where a signal interrupted the function.
`@vptr=` after an address is the vtable pointer that the frame's `this` held; of both, `!` is written first, and read in
either order. `?` is a frame outside of the image. `xN` at the end is a weight, the times the stack was seen. Lines
without a frame are skipped if they are empty or a comment. Frames with numbers are none: `#0 0x401136 main` and
`0# main` are of formats that no reader knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from unwind.readers.source import LineError
from unwind.samples.recording import RecordedFrame, RecordedModule, RecordedProcess, Recording, Sample
from unwind.samples.stack import Stack

_ADDRESS = re.compile(rb"(?:0[xX])?([0-9a-fA-F]+)")
_WEIGHT = re.compile(rb"x[0-9]{1,18}")
_FRAME = re.compile(rb"\?|(?:0[xX])?[0-9a-fA-F]{1,16}!?(?:@vptr=(?:0[xX])?[0-9a-fA-F]+)?!?")
_LAST = re.compile(_FRAME.pattern + rb"|" + _WEIGHT.pattern)
_NUMBERED = re.compile(rb"\s*(?:#[0-9]+\s+0x|[0-9]{1,3}#\s)")
_KEPT_TOKENS = 1 << 20  # distinct addresses whose value is remembered, before they are forgotten


def recognizes(head: bytes) -> bool:
    """Return whether the first line that holds something is a stack."""
    lines = head.split(b"\n")
    for line in lines:
        if _NUMBERED.match(line):
            return False
        plain = line.partition(b"#")[0].split()
        if plain:
            return all(_FRAME.fullmatch(token) for token in plain[:-1]) and bool(_LAST.fullmatch(plain[-1]))
    return True


def begins_with_frame(head: bytes) -> bool:
    """Return whether the first word that is not in a comment is a frame: a later one may break the format."""
    for line in head.split(b"\n"):
        words = line.partition(b"#")[0].split(None, 1)
        if words:
            return _FRAME.fullmatch(words[0]) is not None
    return False


def holds_nothing(head: bytes) -> bool:
    """Return whether all lines are empty, or comments."""
    return not any(line.partition(b"#")[0].strip() for line in head.split(b"\n"))


def recording_of(lines: Iterable[bytes], path: str, image: str) -> Recording:
    """Return stacks of `image`, whose addresses are those of the link, as a recording."""
    module = RecordedModule(image)
    process = RecordedProcess(modules=[module])
    frames: dict[tuple[int | None, bool], RecordedFrame] = {}

    def frame(address: int | None, is_exact: bool) -> RecordedFrame:
        known = frames.get((address, is_exact))
        if known is None:
            known = RecordedFrame(address, module if address is not None else None, is_exact=is_exact)
            frames[address, is_exact] = known
        return known

    def samples() -> Iterator[Sample]:
        for stack in read_pcs(lines, path):
            exact = set(stack.exact)
            found = tuple([frame(address, idx in exact) for idx, address in enumerate(stack.addresses)])
            yield Sample(found, process, (stack.weight,), vptrs=stack.vptrs)

    return Recording("pcs", samples())


def read_pcs(lines: Iterable[bytes], path: str) -> Iterator[Stack]:
    """Yield the stacks of a text in the format `pcs`: one stack a line, innermost frame first.

    Args:
        lines: the lines of the text, in UTF-8.
        path: its name in errors.

    Yields:
        A stack for each line that has a frame.

    Raises:
        IcfError: a line is not a stack; the message has its number.
    """
    values: dict[bytes, int | None] = {b"?": None}
    for number, line in enumerate(lines, 1):
        tokens = line.split()
        if b"#" in line:
            if _NUMBERED.match(line):
                problem = f"{_shown(line.strip())} is a frame of a format that icf does not know"
                raise LineError(path, "line", number, problem)
            tokens = line[: line.index(b"#")].split()
        if not tokens:
            continue
        try:
            weight = 1
            if tokens[-1][:1] == b"x":
                weight = _weight(tokens.pop())
                if not tokens:
                    raise _Problem("a weight without a stack")
            try:
                yield Stack(tuple([values[token] for token in tokens]), weight)
            except KeyError:
                if len(values) > _KEPT_TOKENS:
                    values = {b"?": None}
                yield _parse_frames(tokens, weight, values)
        except _Problem as problem:
            raise LineError(path, "line", number, str(problem)) from None


class _Problem(Exception):
    pass


def _parse_frames(tokens: list[bytes], weight: int, values: dict[bytes, int | None]) -> Stack:
    """Return the stack of `tokens`, the slow way; adds its plain addresses to `values`."""
    addresses: list[int | None] = []
    vptrs: list[tuple[int, int]] = []
    exact: list[int] = []
    for frame_idx, token in enumerate(tokens):
        if token in values:
            addresses.append(values[token])
            continue
        plain, at, attribute = token.partition(b"@")
        if b"!" in token:
            if plain.endswith(b"!") and attribute.endswith(b"!"):
                raise _Problem(f"frame {_shown(token)}: marked as exact twice")
            plain, attribute = plain.removesuffix(b"!"), attribute.removesuffix(b"!")
            if frame_idx:  # the first frame is exact anyway
                exact.append(frame_idx)
        value = _address(plain, token)
        addresses.append(value)
        if at and not attribute.startswith(b"vptr="):
            raise _Problem(f"frame {_shown(token)}: unknown attribute, a frame may carry @vptr=ADDRESS")
        if at:
            vptrs.append((frame_idx, _address(attribute.removeprefix(b"vptr="), token)))
        elif b"!" not in token:
            values[token] = value
    return Stack(tuple(addresses), weight, tuple(vptrs), tuple(exact))


def _address(text: bytes, token: bytes) -> int:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise _Problem(f"frame {_shown(token)}: not a hexadecimal address")
    digits = match[1].lstrip(b"0")
    if len(digits) > 16:
        raise _Problem(f"frame {_shown(token)}: address does not fit 64 bits")
    return int(digits or b"0", 16)


def _weight(token: bytes) -> int:
    if not _WEIGHT.fullmatch(token) or int(token[1:]) == 0:
        raise _Problem(f"weight {_shown(token)}: needs x and a number from 1 to 18 digits")
    return int(token[1:])


def _shown(token: bytes) -> str:
    text = token[:60].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > 60 else text)
