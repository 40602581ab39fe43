"""10,000 mutated sections of debug information: FormatError or an answer, soon, and nothing swallowed."""

from __future__ import annotations

import random
import time
import tracemalloc

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf.children import ChildReader
from icf.dwarf.dies import defined_subprograms, read_dies, resolve
from icf.dwarf.layouts import DieRows, Question, is_result_in_memory, object_at, pointee, pointee_at, pointer_at
from icf.dwarf.opening import open_debug
from icf.dwarf.prototypes import read_prototypes
from icf.dwarf.registers import Asked, RegisterReader
from icf.dwarf.scan import scan_functions
from icf.dwarf.sites import read_sites
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.errors import FormatError
from tests.fuzz.limits import many, peak_memory, reset_peak_memory
from tests.support.dwarf_mutations import mutated
from tests.support.dwarf_programs import build
from tests.support.dwarf_units import image_of, read_once, uncompiled_kernels

MUTATION_COUNT = many(5_000)
SECTIONS = ("info", "abbrev", "addr", "rnglists", "ranges", "str", "str_offsets", "line_str")
TARGETS = ("info", "info", "abbrev", "addr", "rnglists", "ranges", "str_offsets")


def originals() -> list[dict[str, bytes]]:
    """Sections of small programs, of each layout."""
    found = []
    for compiler, flags in (
        ("gcc", ("-O2", "-gdwarf-5")),
        ("gcc", ("-O2", "-gdwarf-4", "-gdwarf64")),
        ("gcc", ("-O0", "-gdwarf-2")),
        ("clang", ("-O2", "-gdwarf-5")),
        ("clang", ("-O2", "-gdwarf-5", "-gdwarf64")),
        ("clang", ("-O1", "-gdwarf-5", "-fdebug-types-section")),
        ("clang", ("-O2", "-gdwarf-5", "-fbasic-block-sections=all")),
    ):
        with Image.open(build(compiler, flags)) as image:
            found.append({f".debug_{name}": bytes(image.contents(f".debug_{name}")) for name in SECTIONS})
    return found


def exercise(sections: dict[str, bytes], rng: random.Random) -> DebugInfo:
    """All that is read of debug information."""
    image = image_of(sections)
    debug = open_debug(image)
    scan = scan_functions(debug, 1)
    functions, sites = scan.functions, scan.sites
    size_bytes = len(sections[".debug_info"])
    assert len(functions.die) <= size_bytes + len(sections[".debug_rnglists"]) + len(sections[".debug_ranges"])
    assert (functions.die < size_bytes).all() and (sites.origin < size_bytes).all()
    random_offsets = [rng.randrange(size_bytes + 9) for _ in range(8)] + [2**64 - 1]
    offsets = np.concatenate([functions.die, sites.origin, np.array(random_offsets, np.uint64)])
    dies = read_dies(debug, offsets)
    identity = resolve(debug, offsets)
    for reference in (*dies.name.tolist()[:4], *identity.linkage_name.tolist()[:4], *debug.units[:, 11].tolist()[:4]):
        assert len(debug.string(reference)) <= 2**16
    for error in debug.errors():
        assert isinstance(error, FormatError) and error.offset <= size_bytes
    if debug.unit_count:
        defined_subprograms(debug, rng.randrange(debug.unit_count))
    before = debug.units.copy()
    read_sites(debug, np.append(functions.die[:8], np.array(random_offsets, np.uint64)))
    assert np.array_equal(before, debug.units)
    if rng.random() < 0.25:
        read_layouts(debug, image, np.unique(offsets))
    return debug


def read_layouts(debug: DebugInfo, image: Image, offsets: U64) -> None:
    """What parameters point to, and what is in it; the variables of functions that are in registers."""
    reader = ChildReader(debug)
    rows = reader.read(offsets)
    assert (rows[:, col.L_OWNER] < len(offsets)).all() and (rows[:, col.L_TYPE] < debug.die_limit).all()

    def question(type_: int) -> Question[bool]:
        holder = yield from pointee(type_)
        yield from pointee_at(holder, None)
        found = yield from pointer_at(holder, 8)
        inside = yield from object_at(holder, 16)
        in_memory = yield from is_result_in_memory(type_)
        return bool(found) or inside.is_known or in_memory is None

    registers = RegisterReader(image, reader)
    start, address, bits = (np.full(len(offsets), number, np.uint64) for number in (0x1000, 0x1010, 0xFFFF))
    found = registers.read(Asked(offsets, start, np.arange(len(offsets) + 1), address, bits))
    assert (found.asked < len(offsets)).all() and (found.register < 32).all() and (found.type < debug.die_limit).all()
    prototypes = read_prototypes(DieRows(reader), offsets)
    assert len(prototypes.result) == len(offsets) and prototypes.start[-1] == len(prototypes.type)
    DieRows(reader).answer(question(type_) for type_ in np.unique(rows[:, col.L_TYPE]).tolist()[:32] if type_)


def test_mutations() -> None:
    programs = originals()
    rng = random.Random(41)
    sound = refused = 0
    worst_s = 0.0
    start_bytes = 0
    for number in range(MUTATION_COUNT):
        sections = dict(programs[number % len(programs)])
        name = f".debug_{rng.choice(TARGETS)}"
        sections[name] = mutated(rng, sections[name])
        watched = number % 100 == 0
        if watched:
            tracemalloc.start()
        start_s = time.thread_time()
        debug = exercise(sections, rng)
        worst_s = max(worst_s, time.thread_time() - start_s)
        sound += not debug.errors()
        refused += bool(debug.errors())
        if watched:
            assert tracemalloc.get_traced_memory()[1] < 40_000_000
            tracemalloc.stop()
        if number == MUTATION_COUNT // 4:
            start_bytes = reset_peak_memory()
    assert worst_s < 1.0
    assert peak_memory() - start_bytes < 50_000_000
    assert min(sound, refused) > MUTATION_COUNT // 10


def test_both_builds_read_mutations_alike() -> None:
    """Fewer, as the uncompiled kernels take a hundred times as long."""
    programs = originals()
    rng = random.Random(43)
    for number in range(many(400)):
        sections = dict(programs[number % len(programs)])
        for name in rng.sample(SECTIONS[:5], 2):
            sections[f".debug_{name}"] = mutated(rng, sections[f".debug_{name}"])
        image = image_of(sections)
        compiled = read_once(image).plain()
        with uncompiled_kernels():
            assert read_once(image).plain() == compiled
