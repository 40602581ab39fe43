"""Damaged DWARF sections."""

from __future__ import annotations

import random

from tests.support.line_tables import uleb

EDGES = [value.to_bytes(8, "little") for value in (0, 1, 2**31, 2**32, 2**61, 2**63, 2**64 - 8, 2**64 - 1)]


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(8):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                out[at : at + 1] = bytes([rng.choice((0, 1, 2, 0x16, 0x21, 0x7F, 0x80, 0xFF))])
            case 2:
                out[at : at + 8] = rng.choice(EDGES)
            case 3:
                out[at : at + 10] = uleb(rng.choice((2**64 - 1, 2**63, 2**61, 2**40)))
            case 4:
                out[at : at + 4] = rng.choice(EDGES)[-4:]
            case 5:
                del out[at : at + rng.randrange(1, 9)]
            case 6:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                other = rng.randrange(len(out) + 1)
                out[at : at + 16] = out[other : other + 16]
    return bytes(out if rng.random() < 0.95 else out[: rng.randrange(len(out) + 1)])
