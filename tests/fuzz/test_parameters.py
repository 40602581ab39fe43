"""Hostile expressions, location lists and DIEs: parameters are read, or not known for a reason, and soon."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache, partial
from pathlib import Path

from icf.dwarf.constants import DW_AT_location
from icf.dwarf.locations import entries, expression_at
from icf.elf.image import Image
from icf.errors import FormatError
from tests.fuzz.limits import alarms, many, soon
from tests.support import toolchain
from tests.support.dwarf_mutations import mutated
from unwind.objects.activation import Activation, Described
from unwind.objects.entry import new_evaluator
from unwind.objects.expressions import Unknown
from unwind.objects.parameters import read_parameters
from unwind.objects.this import read_objects
from unwind.walk.frame import WalkedFrame

MUTATION_COUNT = many(10_000)
FILE_COUNT = many(600)
LONGEST_S = 5
SOURCE = """
    struct Node { int value; Node *next; virtual int visit(int depth, double weight); };
    static volatile int total;
    __attribute__((noinline)) int leaf(int n) { total += n; return total; }
    inline int twice(int n) { return leaf(n) + leaf(n + 1); }
    int Node::visit(int depth, double weight) {
        int found = twice(value) + leaf(depth);
        return next ? next->visit(depth + 1, weight) + found : found + leaf(int(weight));
    }
    int main(int argc, char **) { Node node; node.value = argc; node.next = nullptr; return node.visit(argc, 2.5); }
"""
HOSTILE = (
    b"\x2f\xfd\xff",  # DW_OP_skip to itself
    b"\x91\x00" * 200,
    b"\xa3\x01\x55" * 64 + b"\x9f",  # DW_OP_entry_value, again and again
    b"\x96" * 5000,
    b"\x30\x06\x2f\xfb\xff",  # a load in a loop
    b"\x93\xff\xff\xff\xff\x0f" * 3,
    b"\x9e\xff\xff\xff\xff\x0f",
    b"\x12" * 80,
    b"\xa8\x00" * 3000,
)
SECTIONS = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_loc",
    ".debug_loclists",
    ".debug_addr",
    ".debug_aranges",
    ".debug_line",
)


class AnyMemory:
    """Memory that has something at every address."""

    def read(self, address: int, size_bytes: int) -> bytes | None:
        return bytes((address >> 3 & 0xFF,)) * size_bytes if address >> 63 == 0 else None


def _same(found: tuple[Described, int], _address: int) -> tuple[Described, int]:
    return found


@cache
def programs() -> list[Path]:
    """A program for each form of location lists."""
    found = []
    for compiler, version in (("g++", "4"), ("g++", "5"), ("clang++", "5")):
        program = toolchain.lasting_folder() / "program"
        source = program.with_suffix(".cpp")
        source.write_text(SOURCE)
        toolchain.run(toolchain.tool(compiler), "-O2", f"-gdwarf-{version}", source, "-o", program)
        found.append(program)
    return found


def places(described: Described) -> list[int]:
    """Return the return addresses of all calls that are described, and some program counters."""
    found: set[int] = set()
    debug = described.scopes.trees.debug
    for low, high in zip(*_code(described.image), strict=True):
        for vaddr in range(low, high, 16):
            for function in described.scopes.at(vaddr):
                found |= {*function.sites, function.low, function.low + 3}
    assert debug.unit_count
    return sorted(found)


def _code(image: Image) -> tuple[list[int], list[int]]:
    section = image.section(".text")
    assert section is not None
    return [section.vaddr], [section.vaddr + section.size_bytes]


def stack_at(described: Described, vaddr: int, rng: random.Random, depth: int = 3) -> Activation:
    caller = stack_at(described, rng.choice(_known(described)), rng, depth - 1) if depth else None
    registers: list[int | None] = [rng.choice((None, 0x7FFF0000, 1 << 63, number)) for number in range(33)]
    return Activation(
        WalkedFrame(vaddr, True, rng.choice((0, 0x7FFF1000)), registers), lambda _: (described, 0), caller
    )


@cache
def _known(described: Described) -> list[int]:
    return places(described)


def outcomes(described: Described, rng: random.Random, count: int) -> Counter[str]:
    """Ask for the parameters of some stacks; return how often a value is known, or why it is not."""
    found: Counter[str] = Counter()
    for _ in range(count):
        at = stack_at(described, rng.choice(_known(described)), rng)
        for scope in read_parameters(at, AnyMemory()):
            for each in scope.parameters:
                assert (each.value is None) == (each.lack is not None)
                found[each.lack.name if each.lack else "known"] += 1
        read_objects([at], AnyMemory())
    return found


def test_expressions() -> None:
    rng = random.Random(21)
    seen: Counter[str] = Counter()
    with alarms(), Image.open(str(programs()[1])) as image:
        described = Described(image)
        trees = described.scopes.trees
        corpus = list(HOSTILE)
        for vaddr in _known(described):
            for function in described.scopes.at(vaddr):
                for parameter in (each for scope in function.scopes for each in scope.parameters):
                    corpus += (bytes(entry.expression) for entry in entries(trees, parameter.die, DW_AT_location))
        assert len(corpus) > len(HOSTILE) + 10
        vaddr = max(_known(described), key=lambda each: len(described.scopes.at(each)))
        function = described.scopes.at(vaddr)[0]
        for number in range(MUTATION_COUNT):
            expression = corpus[number] if number < len(corpus) else mutated(rng, rng.choice(corpus))
            at = stack_at(described, vaddr, rng)
            soon(LONGEST_S)
            evaluator = new_evaluator(AnyMemory())
            try:
                evaluator.contents(evaluator.places(memoryview(expression), at, function), at, 8)
                seen["known"] += 1
            except Unknown as unknown:
                seen[unknown.lack.name] += 1
    assert seen["known"] > MUTATION_COUNT // 20 and seen["REFUSED"] > MUTATION_COUNT // 20, seen


def test_location_lists() -> None:
    rng = random.Random(22)
    seen: Counter[str] = Counter()
    with alarms():
        for number, program in enumerate(programs()):
            with Image.open(str(program)) as image:
                described = Described(image)
                debug = described.scopes.trees.debug
                _known(described)
                name = "loclists" if len(debug.loclists) else "loc"
                whole = bytes(getattr(debug, name))
                assert whole
                for _ in range(MUTATION_COUNT // 3):
                    setattr(debug, name, memoryview(mutated(rng, whole)))
                    soon(LONGEST_S)
                    seen += outcomes(described, rng, 1)
                assert seen["known"] > (number + 1) * 100 and seen["OPTIMIZED_OUT"] > (number + 1) * 10, seen


def test_sections() -> None:
    rng = random.Random(23)
    seen: Counter[str] = Counter()
    with alarms():
        for program in programs():
            content = program.read_bytes()
            with Image.open(str(program)) as image:
                regions = [(each.offset, each.end) for each in image.sections if each.name in SECTIONS]
                vaddrs = _known(Described(image))
            for _ in range(FILE_COUNT // 3):
                changed = bytearray(content)
                for _ in range(rng.choice((1, 2, 8, 40))):
                    start, end = rng.choice(regions)
                    changed[rng.randrange(start, end)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                soon(LONGEST_S)
                try:
                    damaged = Described(Image("made", memoryview(bytes(changed))))
                except FormatError:
                    seen["refused"] += 1
                    continue
                image_at = partial(_same, (damaged, 0))
                for vaddr in rng.sample(vaddrs, 4):
                    frame = WalkedFrame(vaddr, True, 0x7FFF1000, [0x7FFF0000] * 33)
                    at = Activation(frame, image_at, Activation(frame, image_at))
                    for scope in read_parameters(at, AnyMemory()):
                        seen.update(each.lack.name if each.lack else "known" for each in scope.parameters)
    assert seen["known"] > FILE_COUNT // 4, seen


def test_a_list_of_a_kind_that_is_cut_short_has_no_location() -> None:
    with Image.open(str(programs()[1])) as image:
        described = Described(image)
        debug = described.scopes.trees.debug
        lists = bytes(debug.loclists)
        known = [0, 0]
        for size_bytes in range(len(lists)):
            debug.loclists = memoryview(lists[:size_bytes])
            for vaddr in _known(described)[:3]:
                for function in described.scopes.at(vaddr):
                    for parameter in function.scopes[0].parameters:
                        found = expression_at(described.scopes.trees, parameter.die, DW_AT_location, vaddr)
                        known[found is not None] += 1
        assert min(known) > 100, known
