"""Mutated objects and side tables: a table of what still holds, or one line of an IcfError, soon."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from icf.coff.objectfile import CoffObject
from icf.debugfiles.opening import open_any
from icf.elf.archive import map_file
from icf.errors import FormatError, IcfError
from icf.pe.sidetable import SUFFIX
from icf.tables.load import load_tables
from linkpass.pe.run import run_pass
from tests.fuzz.limits import alarms, many, soon
from tests.support.mutations import used_bytes
from tests.support.windows import SHOP, compile_dwarf, compile_windows, link_dwarf, link_windows
from unwind.symcache.builder.pe import build_pe_sections

MUTATION_COUNT = 100


def test_objects_survive_mutations(tmp_path: Path) -> None:
    rng, written, refused = random.Random(11), 0, 0
    source = compile_windows(SHOP)
    image = link_windows(tmp_path, source)
    content = source.read_bytes()
    right = run_pass(str(image), None, None, (), [str(source)])
    path = tmp_path / "changed.obj"
    with alarms():
        for _ in range(many(MUTATION_COUNT)):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3, 8))):
                at = rng.randrange(2, 2000 if rng.random() < 0.5 else len(changed))
                changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(10)
            try:
                found = run_pass(str(image), None, None, (), [str(path)])
                assert found.records <= right.records
                written += 1
            except IcfError as error:
                assert str(path) in str(error) and "\n" not in str(error)
                refused += 1
    assert written > 3 and refused > 3


def test_a_relocation_outside_of_its_section_is_one_line(tmp_path: Path) -> None:
    source = compile_windows(SHOP)
    image = link_windows(tmp_path, source)
    obj, content = CoffObject(map_file(str(source)), str(source)), bytearray(source.read_bytes())
    number, section = next(
        (at, each) for at, each in enumerate(obj.sections, 1) if each.is_loaded and each.relocation_count
    )
    content[section.relocations : section.relocations + 4] = b"\xff\xff\xff\x7f"
    changed = tmp_path / "changed.obj"
    changed.write_bytes(content)
    with pytest.raises(FormatError) as raised:
        run_pass(str(image), None, None, (), [str(changed)])
    size_bytes = section.size_bytes
    expected = f"{changed}: section {number}+0x7fffffff: a relocation at 0x7fffffff of a section of {size_bytes} bytes"
    assert str(raised.value) == expected


@pytest.mark.parametrize("suffix", [".exe", ".pdb"])
def test_the_pass_survives_mutated_images(suffix: str, tmp_path: Path) -> None:
    rng, written, refused = random.Random(13), 0, 0
    source = compile_windows(SHOP)
    content = link_windows(tmp_path, source).with_suffix(suffix).read_bytes()
    places = used_bytes(content)
    with alarms():
        for _ in range(many(MUTATION_COUNT)):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3, 8))):
                changed[rng.choice(places) + rng.randrange(64)] = rng.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
                )
            (tmp_path / f"app{suffix}").write_bytes(changed)
            soon(10)
            try:
                run_pass(str(tmp_path / "app.exe"), None, None, (), [str(source)])
                written += 1
            except IcfError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error)
                refused += 1
    assert written > 3 and refused > 1


def test_the_pass_survives_mutated_images_with_dwarf(tmp_path: Path) -> None:
    rng, written, refused = random.Random(14), 0, 0
    source = compile_dwarf(SHOP, "-O1", "-gdwarf-5")
    image = link_dwarf(tmp_path, source)
    content = image.read_bytes()
    places = used_bytes(content)
    with alarms():
        for _ in range(many(MUTATION_COUNT)):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3, 8))):
                changed[rng.choice(places) + rng.randrange(64)] = rng.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
                )
            image.write_bytes(changed)
            soon(10)
            try:
                run_pass(str(image), None, None, (), [str(source)])
                written += 1
            except IcfError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error)
                refused += 1
    assert written > 3 and refused > 0


def test_symcaches_of_mutated_side_tables_are_made_or_refused(tmp_path: Path) -> None:
    rng, read, refused = random.Random(15), 0, 0
    source = compile_dwarf(SHOP, "-O1", "-gdwarf-5")
    image = link_dwarf(tmp_path, source)
    run_pass(str(image), None, None, (), [str(source)])
    path = image.with_suffix(SUFFIX)
    content = path.read_bytes()
    with alarms():
        for _ in range(many(MUTATION_COUNT)):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3))):
                changed[rng.randrange(28, len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(5)
            with open_any(str(image), None, ()) as opened:
                assert opened.format == "PE" and opened.dwarf is not None
                try:
                    build_pe_sections(opened)
                    read += 1
                except IcfError as error:
                    assert str(tmp_path) in str(error) and "\n" not in str(error)
                    refused += 1
    assert read > 3 and refused > 2


def test_side_tables_survive_mutations(tmp_path: Path) -> None:
    rng, read, refused = random.Random(12), 0, 0
    source = compile_windows(SHOP)
    image = Path(shutil.copy(link_windows(tmp_path, source), tmp_path / "copy.exe"))
    run_pass(str(image), None, None, (), [str(source)])
    path = tmp_path / f"app{SUFFIX}"
    content = path.read_bytes()
    with alarms():
        for _ in range(many(MUTATION_COUNT)):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3))):
                changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(5)
            with open_any(str(image), None, ()) as opened:
                try:
                    load_tables(opened)
                    read += 1
                except IcfError as error:
                    assert str(path) in str(error) and "\n" not in str(error)
                    refused += 1
    assert read > 3 and refused > 2
