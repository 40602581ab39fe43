"""In a merged body each member has its own lines and inlined calls, or none; never those of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.workshop import ALL, GCC_MOLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.symcaches import cache_of, differences, packed
from tests.truth.lines import compare
from unwind.symcache.builder.build import build_sections
from unwind.symcache.reader.symcache import SymCache

# 20 lines for each letter: function, what it inlines, and a function that only forwards
PART = """
#define SIZE {size}
template <class T> struct Box{letter} {{
    T value[SIZE];
    __attribute__((always_inline)) inline T &slot(int place) {{
        return value[place & (SIZE - 1)];
    }}
    __attribute__((noinline)) T get(int place) {{
        if (place < 0)
            return T();
        T &found = slot(place);
        found += place;
        return found;
    }}
    __attribute__((noinline)) T forward(int place) {{
        return get(place);
    }}
}};
#undef SIZE
"""
LETTERS = "ABCD"
PARTS = "".join(PART.format(letter=letter, size=16) for letter in LETTERS)
LINE_COUNT = PART.count("\n")
MAIN = """
int main(int argc, char **) {{
    {boxes}
    return {calls};
}}
"""
SOURCE = PARTS + MAIN.format(
    boxes=" ".join(
        f"static Box{letter}<{kind}> box{letter};"
        for letter, kind in zip(LETTERS, ("int", "int", "unsigned", "int"), strict=True)
    ),
    calls=" + ".join(f"box{letter}.get(argc) + box{letter}.forward(argc)" for letter in LETTERS),
)


def letter_of(name: str) -> str:
    """Whose a function is, by its name."""
    return name[name.index("Box") + 3] if "Box" in name else ""


def check(cache: SymCache, vaddrs: range) -> tuple[int, int]:
    """Names and lines agree; how many members of merged bodies have lines, and how many have none."""
    known = unknown = 0
    for vaddr in vaddrs:
        located = cache.find(vaddr)
        if located is None or len(located.members) < 2:
            continue
        for member_idx, member in enumerate(located.members):
            frames = cache.frames(vaddr, member_idx)
            assert frames[-1].linkage_name == member.name
            letter = letter_of(member.name)
            assert letter
            known, unknown = known + (frames[-1].line > 0), unknown + (frames[-1].line == 0)
            for frame in frames:
                if frame.line:
                    part = (frame.line - 2) // LINE_COUNT
                    assert LETTERS[part] == letter, (hex(vaddr), member, frames)
                assert letter_of(frame.linkage_name) == letter
    return known, unknown


@pytest.mark.parametrize("toolchain", ALL, ids=str)
@pytest.mark.parametrize("has_tables", [True, False], ids=["tables", "no tables"])
def test_name_and_line_are_of_one_function(tmp_path: Path, toolchain: Toolchain, has_tables: bool) -> None:
    workshop = Workshop(tmp_path, toolchain)
    flags = ("-fno-semantic-interposition",)
    program = workshop.build_with_tables(SOURCE, flags) if has_tables else workshop.build(SOURCE, flags)
    cache = cache_of(program.folded)
    with Image.open(program.folded) as image:
        text = image.section(".text")
        assert text is not None
        code = range(text.vaddr, text.vaddr + text.size_bytes)
    known, unknown = check(cache, code)
    if has_tables:
        merged = {cache.find(vaddr) for vaddr in code if (found := cache.find(vaddr)) and len(found.members) > 1}
        assert any(len(found.members) >= 3 for found in merged if found)
    if toolchain.linker == "gold" or "--emit-relocs" in " ".join(toolchain.link_flags):
        assert known > unknown  # their debug information still says where folded functions are
    assert differences(program.folded, cache, code) == []


# what is inlined in one is a function of its own in another, and text that differs in where it stands
WRAPPED = """
struct List { int *first, *last; inline int size() const { return int(last - first); }
    inline int at(int place) const { return first[place]; } };
struct Other { int *first, *last; inline int size() const { return int(last - first); }
    inline int at(int place) const { return first[place]; } };
template <class T> inline int sum(const T &of) {
    int total = 0;
    for (int place = 0; place < of.size(); ++place)
        total += of.at(place) ^ place;
    return total;
}
__attribute__((noinline)) int sum_of_list(const List &of) { return sum(of); }
__attribute__((noinline)) int sum_of_other(const Other &of) { return sum(of); }
__attribute__((noinline)) int directly(const List &of) {
    int total = 0;
    for (int place = 0; place < of.size(); ++place)
        total += of.at(place) ^ place;
    return total;
}
"""
WRAPPED_MAIN = """
int main(int argc, char **) {
    int numbers[] = {1, argc, 3};
    List list{numbers, numbers + 3}; Other other{numbers, numbers + 2};
    static BoxA<int> a; static BoxB<int> b; static BoxC<unsigned> c;
    return sum_of_list(list) + sum_of_other(other) + directly(list) + a.get(argc) + b.get(argc) + c.get(argc)
        + a.forward(argc) + b.forward(argc) + c.forward(argc);
}
"""


@pytest.mark.parametrize("has_tables", [True, False], ids=["tables", "no tables"])
@pytest.mark.parametrize("toolchain", [LLD_ALONE, replace(LLD_ALONE, compiler="gcc"), MOLD, GCC_MOLD], ids=str)
def test_each_member_has_the_lines_it_has_without_folding(
    tmp_path: Path, toolchain: Toolchain, has_tables: bool
) -> None:
    workshop = Workshop(tmp_path, toolchain)
    source = PARTS + WRAPPED + WRAPPED_MAIN
    program = workshop.build_with_tables(source) if has_tables else workshop.build(source)
    report = compare(program.folded, program.unfolded, 64)
    assert report.findings == []
    assert report.points["wrong"] == 0 and report.not_found == 0
    if has_tables or toolchain.linker == "lld":  # mold drops the names of what it folds
        assert report.members >= 6 and report.inlining >= 2
        # `directly` has its own text, which is not always enough to place what it inlines
        assert report.with_lines >= report.members - 1 and report.with_chain >= report.inlining - 1


def test_partial(tmp_path: Path) -> None:
    program = Workshop(tmp_path, ALL[0]).build_with_tables(SOURCE)
    whole = cache_of(program.folded)
    (main,) = whole.addresses("main")
    asked = [main + 3, 1]
    with Image.open(program.folded) as image:
        sections = build_sections(image, asked)
    part = packed(sections, is_complete=False)
    assert part.find(main + 3) == whole.find(main) and part.find(1) is None and part.frames(1) == []
    assert part.frames(main + 3) == whole.frames(main + 3)
    assert sum(map(len, sections.values())) < 4000
