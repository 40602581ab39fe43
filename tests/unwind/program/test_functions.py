"""Functions from a symbol table: sizes that are missing, ranges that nest, symbols that share an address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.model import ClassFlag
from tests.support.toolchain import LINKERS, compile_object, link
from unwind.program.functions import SymbolFunctions

SOURCE = """
    .file "shop.s"
    .text
    .globl _start, sized, weak_alias, global_alias, unsized, inner, last
    .weak weak_alias
    .type _start,@function; .type sized,@function; .type weak_alias,@function; .type global_alias,@function
    .type local_alias,@function; .type unsized,@function; .type inner,@function; .type last,@function
_start: nop; ret
    .size _start, .-_start
    int3; int3
local_alias:
weak_alias:
global_alias:
sized: nop; nop
inner: nop
    .size inner, .-inner
    nop; ret
    .size sized, .-sized
    .size weak_alias, .-sized
    .size global_alias, .-sized
    .size local_alias, .-sized
unsized: nop; nop; ret
last: nop; ret
    .type _ZN1aC2Ev,@function; .type _ZN1aC1Ev,@function; .type _ZN1bC1Ev,@function; .type _Z2C1v,@function
    .type _Z2C2v,@function
    .globl _ZN1aC1Ev, _ZN1aC2Ev, _ZN1bC1Ev, _Z2C1v, _Z2C2v
_ZN1aC1Ev: _ZN1aC2Ev: _ZN1bC1Ev: _Z2C1v: _Z2C2v: ret
    .size _ZN1aC1Ev, 1
    .ident "GCC: (GNU) 12"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    path = tmp_path_factory.mktemp("functions") / "image"
    with Image.open(link(path, "lld", compile_object(SOURCE, suffix=".s"), "-nostdlib", "-static")) as opened:
        yield opened


def vaddr_of(image: Image, name: str) -> int:
    rows = image.symbols.functions.tolist()
    return int(image.symbols.value[rows[image.symbols.names(rows).index(name)]])


def test_the_innermost_range_counts(image: Image) -> None:
    functions = SymbolFunctions(image, folds_known=True)
    sized = vaddr_of(image, "sized")
    found = [functions.find(sized + offset) for offset in range(-2, 5)]
    names = [fold.members[0].name if fold else None for fold in found]
    assert names == [None, None, "global_alias", "global_alias", "inner", "global_alias", "global_alias"]
    assert functions.find(0) is None and functions.find(2**64) is None and functions.find(-1) is None


def test_a_symbol_without_a_size_reaches_to_the_next(image: Image) -> None:
    functions = SymbolFunctions(image, folds_known=True)
    unsized, last = vaddr_of(image, "unsized"), vaddr_of(image, "last")
    found = functions.find(last - 1)
    assert found is not None and (found.vaddr, found.size_bytes) == (unsized, 3)


def test_where_the_pass_has_been_the_best_symbol_names_the_function(image: Image) -> None:
    functions = SymbolFunctions(image, folds_known=True)
    fold = functions.find(vaddr_of(image, "weak_alias"))
    assert fold is not None and fold.flags & ClassFlag.MEMBERS_COMPLETE
    (member,) = fold.members
    assert (member.name, member.aliases) == ("global_alias", ("sized", "weak_alias", "local_alias"))


def test_elsewhere_each_symbol_is_a_candidate_but_variants_of_a_constructor_are_one(image: Image) -> None:
    functions = SymbolFunctions(image, folds_known=False)
    fold = functions.find(vaddr_of(image, "_ZN1aC1Ev"))
    assert fold is not None
    members = {member.name: member.aliases for member in fold.members}
    assert members == {"_ZN1aC1Ev": ("_ZN1aC2Ev",), "_ZN1bC1Ev": (), "_Z2C1v": (), "_Z2C2v": ()}


@pytest.mark.parametrize("linker", LINKERS)
def test_there_may_be_others_where_the_linker_drops_symbols_of_what_it_folds(linker: str, tmp_path: Path) -> None:
    path = link(tmp_path / "program", linker, compile_object(SOURCE, suffix=".s"), "-nostdlib", "-static")
    with Image.open(path) as image:
        functions = SymbolFunctions(image, folds_known=False)
        for name in ("_start", "_ZN1aC1Ev"):
            fold = functions.find(vaddr_of(image, name))
            assert fold is not None
            assert bool(fold.flags & ClassFlag.MEMBERS_COMPLETE) == (linker in ("bfd", "lld"))


ALIASES = {
    "a local one": ("globl first", "first", ["aa_local"]),
    "underscores": (
        "globl __first; .globl first; .globl _first; .globl ___zz",
        "first",
        ["__first", "_first", "___zz"],
    ),
    "a weak one": ("weak first; .globl __first", "first", ["__first"]),
}


@pytest.mark.parametrize("case", ALIASES)
def test_aliases_of_c_that_no_linker_has_folded_have_one_name(tmp_path: Path, case: str) -> None:
    directives, name, aliases = ALIASES[case]
    labels = "".join(f".type {each},@function; {each}: " for each in (*aliases, name))
    source = f'.text; .globl _start; _start: ret; .{directives}; {labels} nop; ret\n.ident "GCC: (GNU) 12"\n'
    path = link(tmp_path / "image", "bfd", compile_object(source, suffix=".s"), "-nostdlib", "-static")
    with Image.open(path) as image:
        fold = SymbolFunctions(image, folds_known=False).find(vaddr_of(image, "first"))
        assert fold is not None and fold.flags & ClassFlag.MEMBERS_COMPLETE
        (member,) = fold.members
        assert member.name == name and set(member.aliases) == set(aliases)


def test_different_functions_of_cpp_at_one_address_are_members_whoever_linked(tmp_path: Path) -> None:
    labels = "".join(
        f".globl {each}; .type {each},@function; {each}: " for each in ("_Z1fv", "_Z1gv", "c_one", "c_two")
    )
    source = f'.text; .globl _start; _start: ret; {labels} nop; ret\n.ident "GCC: (GNU) 12"\n'
    path = link(tmp_path / "image", "bfd", compile_object(source, suffix=".s"), "-nostdlib", "-static")
    with Image.open(path) as image:
        fold = SymbolFunctions(image, folds_known=False).find(vaddr_of(image, "_Z1fv"))
        assert fold is not None
        assert {frozenset({member.name, *member.aliases}) for member in fold.members} == {
            frozenset({"_Z1fv"}),
            frozenset({"_Z1gv"}),
            frozenset({"c_one", "c_two"}),
        }


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_versions_of_one_name_are_one_function(tmp_path: Path, linker: str) -> None:
    source = """
    .text
    .globl _start, copy_old, copy_new, other
    .type copy_old,@function; .type copy_new,@function; .type other,@function; .type _start,@function
_start: ret
copy_old: copy_new: other: nop; ret
    .symver copy_old, copy@OLD
    .symver copy_new, copy@@NEW
    .ident "GCC: (GNU) 12"
"""
    (tmp_path / "map").write_text("OLD { }; NEW { } OLD;")
    flags = ("-shared", "-nostdlib", f"-Wl,--version-script={tmp_path / 'map'}")
    path = link(tmp_path / "lib.so", linker, compile_object(source, suffix=".s"), *flags)
    with Image.open(path) as image:
        fold = SymbolFunctions(image, folds_known=False).find(vaddr_of(image, "copy_new"))
        assert fold is not None
        assert not any("@" in member.name for member in fold.members)
        found = {frozenset({member.name, *member.aliases}) for member in fold.members}
        if linker == "bfd":
            assert len(found) == 1
        else:
            assert any({"copy"} <= names <= {"copy", "copy@@NEW", "copy@OLD"} for names in found)
            assert frozenset({"other"}) in found
