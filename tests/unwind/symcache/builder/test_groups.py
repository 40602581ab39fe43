"""Units in groups: that a symcache answers the same in however many groups its image is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf import cli
from icf.elf import file
from icf.elf.image import Image
from tests.support import toolchain
from tests.support.symcaches import cache_of
from unwind.symcache.builder import groups
from unwind.symcache.builder.build import build_sections
from unwind.symcache.reader.symcache import SymCache

# two functions of one body in each unit, with inlined calls: lld keeps the first of all, and tombstones the others
UNIT = """
#line 1 "/unit.cc"
extern volatile int sink;
static inline __attribute__((always_inline)) void deep(int n) {{ sink = sink + n; }}
static inline __attribute__((always_inline)) void step(int n) {{ deep(n); sink = sink + 3; }}
extern "C" __attribute__((noinline)) void first_{unit}(int n) {{ step(n); }}
extern "C" __attribute__((noinline)) void second_{unit}(int n) {{ step(n); }}
extern "C" __attribute__((noinline)) void alone_{unit}(int n) {{ step(n + {number}); sink = {number}; }}
"""
BARE = '__asm__(".text\\n.globl bare\\n.type bare, @function\\nbare: nop\\nret\\n.size bare, 2");\n'
UNITS = ("a", "b", "c")
FUNCTIONS = [f"{name}_{unit}" for unit in UNITS for name in ("first", "second", "alone")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("-O2", "-g", "-ffunction-sections")
    declared = "".join(f'extern "C" void {name}(int);\n' for name in FUNCTIONS)
    calls = " ".join(f"{name}(1);" for name in FUNCTIONS)
    sources = [f"volatile int sink;\n{declared}{BARE}int main() {{ {calls} }}\n"]
    sources += [UNIT.format(unit=unit, number=number) for number, unit in enumerate(UNITS, 7)]
    objects = [toolchain.compile_object(source, *flags) for source in sources]
    program = toolchain.link(tmp_path_factory.mktemp("groups") / "program", "lld", "-Wl,--icf=all", *objects)
    assert cli.main(["pass", "-q", str(program)]) == 0
    return program


def answers(cache: SymCache) -> dict[str, list[list[tuple[str, int]]]]:
    """Names and lines of the frames at each address of each member."""
    found = {}
    for name in [*FUNCTIONS, "main", "bare"]:
        (start,) = cache.addresses(name)
        located = cache.find(start)
        assert located is not None
        for number, member in enumerate(located.members):
            frames = [cache.frames(vaddr, number) for vaddr in range(start, start + located.size_bytes)]
            found[member.name] = [[(frame.linkage_name, frame.line) for frame in each] for each in frames]
    return found


@pytest.mark.parametrize("comes_late", [False, True], ids=["known-first", "known-last"])
def test_answers_do_not_depend_on_the_groups(image: Path, monkeypatch: pytest.MonkeyPatch, comes_late: bool) -> None:
    whole = answers(cache_of(image))
    names = {name for frames in whole["second_c"] for name, _ in frames}
    assert names == {"second_c", "_ZL4stepi", "_ZL4deepi"}
    monkeypatch.setattr(groups, "_GROUP_BYTES", 1)
    if comes_late:  # as if the linker had kept the last function of each body
        monkeypatch.setattr(groups._Order, "waits", lambda self, claims, rows: self.is_lost[rows])
        monkeypatch.setattr(groups._Order, "stays", lambda self, claims, rows: self.is_known[rows])
    assert answers(cache_of(image)) == whole


def test_a_large_program_has_the_sections_of_one_in_memory(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Image.open(image) as whole:
        expected = build_sections(whole)
    monkeypatch.setattr(file, "STREAMED_BYTES", 0)
    with Image.open(image) as streamed:
        assert streamed.streamed(".debug_info").in_memory is None
        assert build_sections(streamed) == expected
        assert streamed.symbols.functions.tolist() == whole.symbols.functions.tolist()  # they are read again
