"""2,000 mutated `.gnu_debugdata` sections, packed and unpacked: symbols, or a FormatError."""

from __future__ import annotations

import lzma
import random

from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS
from icf.errors import IcfError
from tests.fuzz.limits import many
from tests.support.elf import Elf, Part, Sym, symbol_parts

MUTATION_COUNT = many(2_000)


def image_with(packed: bytes) -> Image:
    text = Part(".text", flags=SHF_ALLOC | SHF_EXECINSTR, content=bytes(64), vaddr=0x1000)
    return Image("stripped", memoryview(Elf([text, Part(".gnu_debugdata", content=packed)]).build()))


def test_sections_survive_mutations() -> None:
    rng = random.Random(50_000)
    text = Part(".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, vaddr=0x1000, size_bytes=64)
    symbols = [Sym("one", 2, 0, 1, 0x1000, 8), Sym("two", 2, 1, 1, 0x1010, 8)]
    seed = Elf([text, *symbol_parts(symbols, 2)]).build()
    read = refused = 0
    for number in range(MUTATION_COUNT):
        is_packed = number % 4 == 0
        content = bytearray(lzma.compress(seed, preset=0) if is_packed else seed)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(content))
            if rng.randrange(12) == 0:
                del content[at + 1 :]
            else:
                content[at] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        image = image_with(bytes(content) if is_packed else lzma.compress(content, preset=0))
        try:
            symbols_read = image.symbols
            symbols_read.names(symbols_read.functions.tolist())
            assert (symbols_read.shndx[symbols_read.functions] < len(image.sections)).all()
            read += 1
        except IcfError as error:
            assert str(error).startswith("stripped") and "\n" not in str(error)
            refused += 1
    assert read > MUTATION_COUNT // 7 and refused > MUTATION_COUNT // 4
