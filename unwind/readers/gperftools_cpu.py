"""Read CPU profiles of gperftools (`CPUPROFILE`): gperftools, docs/cpuprofile-fileformat.html.

Words of 64 bits, little endian, then text:

    header    0, 3, 0, microseconds between samples, 0
    sample    how often, number of addresses, addresses: the program counter, then return addresses as on the stack
    trailer   0, 1, 0
    text      that of /proc/PID/maps

Older versions have the program counter twice: from the signal, and as the first frame of the unwinder. If it is so in
most of the samples, the second is left out in all that have it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from icf.errors import FormatError
from unwind.readers.mapped import MappedFrames
from unwind.readers.source import Source
from unwind.samples.recording import Losses, Recording, Sample, Value

_WORD_BYTES = 8
_HEADER_WORDS = 5
_TRAILER = array("Q", (0, 1, 0))
_START = array("Q", (0, _HEADER_WORDS - 2, 0)).tobytes()


def recognizes(head: bytes) -> bool:
    """Return whether a file with these first bytes is such a profile."""
    return head.startswith(_START)


def read(source: Source) -> Recording:
    """Read a CPU profile; raises `FormatError` for what breaks the format."""
    content = source.content()[:]
    words = content[: len(content) // _WORD_BYTES * _WORD_BYTES].cast("Q")
    if not recognizes(bytes(content[: len(_START)])) or len(words) < _HEADER_WORDS:
        raise FormatError(source.path, "header", 0, "is not that of a CPU profile: 0, 3, 0, a period, 0")
    period_ns = words[3] * 1000
    samples, end = _parse(words, source.path)
    frames = MappedFrames(bytes(content[end * _WORD_BYTES :]), source.path)
    values = Value("samples", "count"), Value("cpu", "nanoseconds")
    return Recording("gperftools-cpu", _samples(samples, period_ns, frames), values, Losses.NONE)


def _parse(words: memoryview[int], path: str) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    """Return how often each stack was seen, and the first word after the trailer."""
    samples: list[tuple[int, tuple[int, ...]]] = []
    at = _HEADER_WORDS
    while at + 2 <= len(words):
        count, depth = words[at], words[at + 1]
        end = at + 2 + depth
        if end > len(words) or not depth:
            raise FormatError(path, "samples", at * _WORD_BYTES, f"stack of {depth} addresses, must have 1 or more")
        if count == 0:
            if words[at:end].tobytes() != _TRAILER.tobytes():
                raise FormatError(path, "samples", at * _WORD_BYTES, "stack that was never seen")
            return samples, end
        samples.append((count, tuple(words[at + 2 : end])))
        at = end
    raise FormatError(path, "samples", at * _WORD_BYTES, "there is no trailer: 0, 1, 0")


def _samples(stacks: list[tuple[int, tuple[int, ...]]], period_ns: int, frames: MappedFrames) -> Iterator[Sample]:
    deep = [addresses for _, addresses in stacks if len(addresses) > 1]
    has_pc_twice = 2 * sum(addresses[0] == addresses[1] for addresses in deep) > len(deep)
    for count, addresses in stacks:
        if has_pc_twice and addresses[:1] == addresses[1:2]:
            addresses = addresses[1:]
        yield Sample(frames.stack(addresses, is_called=False), frames.process, (count, count * period_ns))
