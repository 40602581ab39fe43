"""Mutated images for Windows: stacks are unwound with what their unwind information says; soon, and without a loop."""

from __future__ import annotations

import random
from pathlib import Path

from icf.elf.types import Machine
from icf.errors import FormatError, IcfError
from icf.pe.headers import EXCEPTIONS
from icf.pe.image import PeImage
from tests.fuzz.limits import alarms, many, soon
from tests.support.paths import ROOT
from tests.support.windows_steps import RSP, steps_of
from unwind.walk.walker import FRAME_LIMIT, Steps, Walker
from unwind.walk.windows import WindowsSteps

SHOP = ROOT / "testdata" / "pe" / "shop.exe"
MUTATION_COUNT = many(5_000)
VALUES = (0, 1, 4, 0x0A, 0x21, 0x7F, 0x80, 0xFF)


def unwind_bytes() -> list[int]:
    """Where in the file the functions and their unwind information are."""
    with PeImage.open(str(SHOP)) as image:
        directory = image.headers.directory(EXCEPTIONS)
        places: list[int] = []
        for rva, size_bytes in ((directory.rva, directory.size_bytes), (_first_info(image), 64)):
            section = next(
                each for each in image.sections if each.vaddr <= image.base + rva < each.vaddr + each.size_bytes
            )
            start = section.offset + image.base + rva - section.vaddr
            places += range(start, start + size_bytes)
        return places


def _first_info(image: PeImage) -> int:
    directory = image.headers.directory(EXCEPTIONS)
    return int.from_bytes(image.read(image.base + directory.rva + 8, 4), "little")


def test_unwind_information_survives_mutations(tmp_path: Path) -> None:
    rng, content, places = random.Random(7), SHOP.read_bytes(), unwind_bytes()
    steps = [each for each in steps_of(SHOP) if len(each.frames) >= 3][::5]
    path, whole, shorter, refused = tmp_path / "app.exe", 0, 0, 0
    with alarms():
        for _ in range(MUTATION_COUNT):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 2, 4))):
                changed[rng.choice(places)] = rng.choice((*VALUES, rng.randrange(256)))
            path.write_bytes(changed)
            problems: list[FormatError] = []
            soon(5)
            step = rng.choice(steps)
            sp = step.registers[RSP]
            try:
                with PeImage.open(str(path)) as image:
                    walker = Walker(Steps(Machine.X86_64), WindowsSteps(image, problems.append).row_at)
                    ranges = [(sp, sp + len(step.stack), 0)]
                    walk = walker.walk(dict(enumerate(step.registers)), step.stack, ranges)
                    assert 1 <= len(walk.frames) <= FRAME_LIMIT
            except IcfError as error:
                problems.append(FormatError(str(path), "", 0, str(error)))
            for problem in problems:
                assert str(tmp_path) in str(problem) and "\n" not in str(problem)
            refused += bool(problems)
            is_whole = [each.pc for each in walk.frames[: len(step.frames)]] == [each.pc for each in step.frames]
            whole += is_whole
            shorter += not is_whole
    assert refused > 10 and shorter > 10 and whole > 10
