"""Which branches can end in a merged body."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from linkpass.evidence.collect import collect
from linkpass.evidence.reach import find_reach
from linkpass.linked import Linked
from tests.e2e.workshop import AARCH64, LLD, Toolchain
from tests.linkpass.programs import BASE, FOUR, MARKET, build

# apples and pears are merged; `second` jumps to `first`, that to apples; `other` and `leaf` are not concerned
CHAIN = """
    NOINLINE int apples(int n) { count(n); return total; }
    NOINLINE int pears(int n) { count(n); return total; }
    NOINLINE int first(int n) { total += 2; return apples(n); }
    NOINLINE int second(int n) { total += 3; return first(n + 1); }
    NOINLINE int leaf(int n) { return total * n; }
    NOINLINE int other(int n) { total += 4; return leaf(n); }
    NOINLINE int lopped(int n) { while (n--) count(n); return total; }
    extern "C" int main() { int n = second(1); n += pears(2); n += other(3); n += lopped(4); return n + leaf(5); }
"""


def read(folder: Path, toolchain: Toolchain, source: str) -> Linked:
    link_flags = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all") if toolchain is AARCH64 else ()
    link = build(folder, toolchain, {"main.cpp": MARKET + source, "base.cpp": BASE}, link_flags=link_flags)
    return Linked.read(Image.open(link.image))


def names(linked: Linked, vaddrs: object) -> set[str]:
    found = set()
    for vaddr in vaddrs:  # type: ignore[attr-defined]
        found |= {member.name for member in linked.members(int(vaddr))}
    return found


@pytest.mark.parametrize("toolchain", [*FOUR, AARCH64], ids=str)
def test_bodies_that_jump_into_a_merged_one_matter(toolchain: Toolchain, tmp_path: Path) -> None:
    linked = read(tmp_path, toolchain, CHAIN)
    reach = find_reach(linked)
    assert names(linked, reach.wanted) == {"_Z6applesi", "_Z5pearsi", "_Z5firsti", "_Z6secondi"}
    assert names(linked, reach.target[reach.calls].tolist()) == {"_Z6secondi", "_Z6applesi", "_Z5pearsi"}
    assert names(linked, reach.source[reach.calls].tolist()) == {"main"}
    jumps = zip(reach.source[reach.jumps].tolist(), reach.target[reach.jumps].tolist(), strict=True)
    assert [(names(linked, [source]), names(linked, [target])) for source, target in jumps if source != target] == [
        ({"_Z5firsti"}, {"_Z6applesi", "_Z5pearsi"}),
        ({"_Z6secondi"}, {"_Z5firsti"}),
    ]


@pytest.mark.parametrize("toolchain", [*FOUR, AARCH64], ids=str)
def test_addresses_of_branches_are_where_the_code_has_them(toolchain: Toolchain, tmp_path: Path) -> None:
    linked = read(tmp_path, toolchain, CHAIN)
    reach = find_reach(linked)
    for ends in (reach.end[reach.calls], reach.end[reach.jumps]):
        assert len(ends) and (ends[1:] > ends[:-1]).all()
    assert not reach.is_jump[reach.calls].any() and reach.is_jump[reach.jumps].all()
    assert (linked.bodies.starts_at(reach.end - reach.size) == reach.source).all()


def test_without_merged_bodies_nothing_matters(tmp_path: Path) -> None:
    linked = read(tmp_path, LLD, "int main() { count(1); return total; }")
    reach = find_reach(linked)
    assert not reach.wanted and not len(reach.end)
    collected = collect(linked)
    assert not len(collected.records.slots) and not len(collected.open_calls) and not len(collected.open_jumps)


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_a_loop_at_the_start_of_a_merged_body_is_no_call(toolchain: Toolchain, tmp_path: Path) -> None:
    source = """
        NOINLINE void apples() { again: __asm__ goto("cmpl $9, %0\\n\\tjl %l1" : : "m"(total) : : again); count(1); }
        NOINLINE void pears() { again: __asm__ goto("cmpl $9, %0\\n\\tjl %l1" : : "m"(total) : : again); count(1); }
        int main() { apples(); pears(); return total; }
    """
    linked = read(tmp_path, toolchain, source)
    collected = collect(linked)
    assert len(linked.folds) == 1
    reach, records = collected.reach, collected.records
    branches = records.slots.branch[records.is_known]
    assert not (reach.is_jump & (reach.source == reach.target))[branches].any()
    assert not len(collected.open_calls)
