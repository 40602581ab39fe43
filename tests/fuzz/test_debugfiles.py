"""Mutated links to other files: what they say, or FormatError."""

from __future__ import annotations

import random

from icf.debugfiles.links import checksum_of, parse_debuglink, parse_supplementary
from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.debug_links import ALTLINK, IS_SUP, PADDED, SUP
from tests.support.dwarf_units import image_of

MUTATION_COUNT = many(4000)


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(3):
            case 0:
                out[at : at + 1] = bytes([rng.choice((0, 1, 2, 5, 0x2F, 0x7F, 0x80, 0xFF))])
            case 1:
                del out[at : at + rng.randrange(1, 9)]
            case _:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def test_mutated_links() -> None:
    rng = random.Random(53)
    sections = {".gnu_debuglink": PADDED, ".gnu_debugaltlink": ALTLINK, ".debug_sup": SUP}
    read = refused = 0
    for number in range(MUTATION_COUNT):
        name = rng.choice(list(sections))
        original = IS_SUP if name == ".debug_sup" and number % 2 else sections[name]
        image = image_of({name: mutated(rng, original)})
        for parse in (parse_debuglink, parse_supplementary, checksum_of):
            try:
                parse(image)
                read += 1
            except FormatError as error:
                assert error.section == name
                refused += 1
    assert min(read, refused) > MUTATION_COUNT // 10
