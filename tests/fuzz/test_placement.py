"""900 damaged objects and images: their functions are placed, or an IcfError says why not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.elf.objectfile import ObjectFile
from icf.errors import IcfError
from linkpass.objects.functions import LinkObjects
from linkpass.objects.placed_functions import place_functions
from tests.fuzz.limits import many
from tests.linkpass.programs import CLANG_MOLD, build

COUNT = many(300)


def place(image_path: Path, objects: list[bytes]) -> int:
    """How many functions are told of; -1 for an error."""
    try:
        with Image.open(image_path) as image:
            parsed = [ObjectFile.parse(memoryview(content), f"{at}.o") for at, content in enumerate(objects)]
            return sum(map(len, place_functions(image, LinkObjects(parsed)).functions.values()))
    except IcfError:
        return -1


def damage(content: bytes, rng: random.Random, first: int) -> bytes:
    """A copy with some bytes changed from `first` on, values at their limits preferred, or cut short."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 8, 64))):
        at = rng.randrange(first, len(changed))
        changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            changed[at : at + 8] = rng.choice((b"\xff", b"\x80", b"\0")) * len(changed[at : at + 8])
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.05 else changed)


@pytest.mark.parametrize("part", ["headers", "contents", "image"])
def test_damaged_objects_and_images(part: str, tmp_path: Path) -> None:
    link = build(tmp_path, CLANG_MOLD, flags=("-g0",), link_flags=("-Wl,--gc-sections",))
    objects = [path.read_bytes() for path in link.objects]
    expected = place(link.image, objects)
    assert expected > 10
    rng = random.Random(part)
    image = link.image.read_bytes()
    outcomes = np.zeros(COUNT, np.int64)
    for at in range(COUNT):
        if part == "image":
            link.image.write_bytes(damage(image, rng, 0))
            outcomes[at] = place(link.image, objects)
        else:
            with_headers = rng.randrange(len(objects))
            first = int.from_bytes(objects[with_headers][40:48], "little") if part == "headers" else 64
            damaged = [*objects]
            damaged[with_headers] = damage(objects[with_headers], rng, first)
            outcomes[at] = place(link.image, damaged)
    assert len(set(outcomes.tolist())) > 1 and (outcomes <= 20 * expected).all()
