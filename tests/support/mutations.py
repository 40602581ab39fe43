"""Damaged copies of files."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from icf.elf.image import Image
from icf.elf.types import EHDR, PHDR, SHT_NOBITS
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"


LONGEST_S = 10


def regions(path: Path) -> list[tuple[int, int]]:
    """Where headers and sections start and end in the file."""
    with Image.open(path) as image:
        found = [(section.offset, section.end) for section in image.sections if section.type != SHT_NOBITS]
        found += [(0, EHDR.size), (EHDR.size, EHDR.size + PHDR.size * len(image.segments))]
        found += [(image.headers.shoff, len(image.data))] * 3
    return [(start, end) for start, end in found if start < end]


def used_bytes(content: bytes) -> list[int]:
    """The blocks of 64 bytes that hold more than zeros."""
    return [at for at in range(0, len(content) - 63, 64) if content[at : at + 64].strip(b"\0")]


def mutations(path: Path, count: int, rng: random.Random) -> Iterator[bytes]:
    content, places = path.read_bytes(), regions(path)
    for index in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(*rng.choice(places))
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            if rng.random() < 0.1:
                changed[at : at + 8] = b"\xff" * len(changed[at : at + 8])
        yield bytes(changed[: rng.randrange(len(changed))] if index % 40 == 0 else changed)


def mutated_text(text: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    """A text with one to four bytes changed, pieces put in, or some bytes taken out or doubled."""
    changed = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            changed[at:at] = chance.choice(pieces)
        elif kind == 2:
            del changed[at : at + chance.randint(1, 8)]
        else:
            start = chance.randrange(len(changed) + 1)
            changed[at:at] = changed[start : start + chance.randint(1, 30)]
    return bytes(changed)
