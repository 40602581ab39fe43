"""Mutated PE images and PDBs: the sections of a symcache, or one line of an IcfError, soon."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icf.debugfiles.opening import open_any
from icf.errors import IcfError
from icf.pe.image import PeImage
from tests.fuzz.limits import alarms, many, soon
from tests.support.mutations import used_bytes
from tests.support.windows import SHOP, compile_dwarf, library_and_user, link_dwarf, shop
from unwind.symcache.builder.pe import build_pe_sections
from unwind.symcache.builder.program import pack_pe_program

MUTATION_COUNT = many(250)


@pytest.mark.parametrize("suffix", [".exe", ".pdb"])
def test_images_survive_mutations(suffix: str, tmp_path: Path) -> None:
    rng, read, refused = random.Random(7), 0, 0
    programs = [shop(), library_and_user()[1]]
    contents = {each: each.with_suffix(suffix).read_bytes() for each in programs}
    places = {each: used_bytes(content) for each, content in contents.items()}
    path = tmp_path / f"app{suffix}"
    with alarms():
        for _ in range(MUTATION_COUNT):
            program = rng.choice(programs)
            changed = bytearray(contents[program])
            for _ in range(rng.choice((1, 1, 3, 8))):
                at = rng.choice(places[program][:16] if rng.random() < 0.5 else places[program]) + rng.randrange(64)
                if at < len(changed):
                    changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(10)
            image_path, debug_file = (str(program), str(path)) if suffix == ".pdb" else (str(path), None)
            try:
                with open_any(image_path, debug_file, ()) as image:
                    assert isinstance(image, PeImage)
                    build_pe_sections(image)
                    pack_pe_program(image)
                read += 1
            except IcfError as error:
                assert str(tmp_path) in str(error) or str(program) in str(error)
                assert "\n" not in str(error)
                refused += 1
    assert read > 10 and refused > 1


def test_images_with_dwarf_survive_mutations(tmp_path: Path) -> None:
    program = link_dwarf(tmp_path, compile_dwarf(SHOP, "-O1", "-gdwarf-5"), name="shop")
    content, rng, read, described, refused = program.read_bytes(), random.Random(11), 0, 0, 0
    places, path = used_bytes(content), tmp_path / "app.exe"
    symbols = int.from_bytes(content[0x84:0x88], "little")  # in the COFF header at 0x7c
    assert content[0x78:0x7C] == b"PE\0\0" and 0 < symbols < len(content)
    tables = [at for at in places if at >= symbols]
    with alarms():
        for _ in range(MUTATION_COUNT):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3, 8))):
                at = rng.choice(rng.choice((places, places[:16], tables))) + rng.randrange(64)
                if at < len(changed):
                    changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(10)
            try:
                with open_any(str(path), None, ()) as image:
                    assert isinstance(image, PeImage)
                    build_pe_sections(image)
                    pack_pe_program(image)
                    described += image.dwarf is not None
                read += 1
            except IcfError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error)
                refused += 1
    assert described > 10 and refused > 1 and read > 10
