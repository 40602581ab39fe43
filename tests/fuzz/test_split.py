"""Mutated .dwo files, packages and their index: FormatError, a line that says so, or an answer; soon."""

from __future__ import annotations

import random
import time
from functools import cache
from pathlib import Path

import numpy as np

from icf.debugfiles.unit_index import CU_INDEX, parse_unit_index
from icf.dwarf.dies import resolve
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.elf.image import Image
from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.dwarf_mutations import mutated
from tests.support.dwarf_programs import build
from tests.support.elf import Elf, Part
from tests.support.toolchain import run, tool

MUTATION_COUNT = many(1500)
NAMES = ("info", "abbrev", "str_offsets", "rnglists", "str")


def sections_of(path: Path) -> dict[str, bytes]:
    with Image.open(path, allow_rel=True) as image:
        names = [f".debug_{name}.dwo" for name in NAMES] + [CU_INDEX]
        return {name: bytes(image.contents(name)) for name in names if image.section(name) is not None}


@cache
def split_build(version: str) -> tuple[Path, list[tuple[Path, dict[str, bytes]]]]:
    """A program without its .dwo files, and where and what they were."""
    program = build("clang", ("-O2", f"-gdwarf-{version}", "-gsplit-dwarf", f"-DVERSION={version}"))
    dwos = sorted(program.parent.parent.glob("*.dwo"))
    assert len(dwos) == 3
    package = program.with_name("package")
    run(tool("llvm-dwp"), *dwos, "-o", package)
    found = [(path, sections_of(path)) for path in dwos] + [(Path(f"{program}.dwp"), sections_of(package))]
    for path in dwos:
        path.unlink()
    return program, found


def test_mutations() -> None:
    builds = [split_build(version) for version in ("4", "5")]
    rng = random.Random(61)
    full = []
    for program, files in builds:
        path, sections = files[-1]
        path.write_bytes(Elf([Part(name, content=content) for name, content in sections.items()]).build())
        with Image.open(program) as image:
            full.append(len(scan_functions(open_debug(image), 1).functions.die))
        path.unlink()
    said = answered = 0
    worst_s = 0.0
    for number in range(MUTATION_COUNT):
        program, files = builds[number % 2]
        path, sections = rng.choice(files)
        name = rng.choice(list(sections))
        changed = sections | {name: mutated(rng, sections[name])}
        path.write_bytes(Elf([Part(part, content=content) for part, content in changed.items()]).build())
        start_s = time.thread_time()
        with Image.open(program) as image:
            debug = open_debug(image)
            functions = scan_functions(debug, 1).functions
            identity = resolve(debug, np.unique(functions.die))
            debug.string_hashes(identity.linkage_name)
            for reference in identity.linkage_name.tolist()[:4]:
                debug.string(reference)
            assert all(isinstance(error, FormatError) for error in debug.errors())
        worst_s = max(worst_s, time.thread_time() - start_s)
        assert len(functions.die) <= full[number % 2] + len(changed[".debug_info.dwo"])
        said += bool(debug.errors()) or any("not found" not in line for line in debug.missing)
        answered += len(functions.die) > 0
        path.unlink()
    assert worst_s < 1.0
    assert min(said, answered) > MUTATION_COUNT // 10


def test_mutated_indexes() -> None:
    _, files = split_build("5")
    original = files[-1][1][CU_INDEX]
    rng = random.Random(67)
    read = refused = 0
    for _ in range(4 * MUTATION_COUNT):
        try:
            index = parse_unit_index(memoryview(mutated(rng, original)), "a.dwp")
            if (row := index.row_at(0)) >= 0:
                index.contribution(row, "abbrev")
            read += 1
        except FormatError as error:
            assert error.section == CU_INDEX
            refused += 1
    assert min(read, refused) > MUTATION_COUNT // 10
