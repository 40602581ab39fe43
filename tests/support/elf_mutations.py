"""Damaged copies of an image: headers and section headers above all."""

from __future__ import annotations

import random
from collections.abc import Iterator


def mutations(content: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """Copies with a few bytes changed, values at their limits preferred, or cut short."""
    shoff = int.from_bytes(content[40:48], "little")
    for index in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            region = rng.choice(((0, 64 + 4 * 56), (shoff, len(content)), (0, len(content))))
            offset = rng.randrange(*region)
            value = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            changed[offset] = value
            if rng.random() < 0.1:  # a whole word at its limit
                changed[offset : offset + 8] = b"\xff" * len(changed[offset : offset + 8])
        yield bytes(changed[: rng.randrange(len(changed))] if index % 20 == 0 else changed)
