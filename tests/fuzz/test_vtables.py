"""Vtables, type_info objects and relocations with any words in them: an answer or FormatError, never more."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.elf.image import Image
from icf.errors import FormatError, UnsupportedError
from icf.vtables.layout import Vtables
from icf.vtables.methods import Methods
from icf.vtables.rtti import Classes
from tests.fuzz.limits import many
from tests.support.elf_mutations import mutations
from tests.support.vtables import CODE, DATA, STRINGS, build_image

WORDS = st.one_of(
    st.sampled_from([0, 0, 0, CODE, CODE + 8, DATA, DATA + 8, DATA + 16, STRINGS, -16, 1 << 63, (1 << 64) - 1]),
    st.integers(DATA, DATA + 128),
    st.integers(0, (1 << 64) - 1),
)
TABLES = st.lists(WORDS, max_size=24)
NAMES = ("_ZTVN10__cxxabiv120__si_class_type_infoE", "_ZTVN10__cxxabiv121__vmi_class_type_infoE", "_ZTI1A", "")


def check_all(image: Image) -> None:
    """Ask for everything; what is said of one slot fits what is said of the others."""
    vtables = Vtables(image)
    groups, slots = vtables.groups, vtables.slots
    assert len(slots.vtable) <= len(image.data)
    assert (slots.place == slots.vtable + np.uint64(8) * slots.slot).all()
    assert (slots.place < groups.end[slots.group]).all() and (slots.vtable > groups.start[slots.group]).all()
    assert (vtables.at(slots.place) == groups.start[slots.group]).all()
    assert not (vtables.are_unplaced(slots.place)).any()
    typeinfos = list(zip(groups.typeinfo.tolist(), groups.imports_typeinfo.tolist(), strict=True))
    classes = Classes(image, vtables.data, typeinfos)
    for typeinfo in typeinfos:
        one = classes[typeinfo]
        assert one.knows_bases or typeinfo[1] or not one.bases or one.name is not None
        Methods([["_ZN1A1fEv"], [f"_ZN{one.name}1fEv"]]).of_class(one.name)


@settings(max_examples=120, deadline=None)
@given(
    tables=st.tuples(TABLES, TABLES, TABLES),
    imports=st.dictionaries(st.integers(0, 71).map(lambda at: DATA + 8 * at), st.sampled_from(NAMES), max_size=8),
    packing=st.sampled_from(["", "rela", "relr"]),
)
def test_any_words(
    tables: tuple[list[int], list[int], list[int]],
    imports: dict[int, str],
    packing: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    named = dict(zip(("_ZTV1A", "_ZTC1B0_1A,_ZTV1B", "_ZTI1A"), tables, strict=True))
    with build_image(tmp_path_factory.mktemp("words"), named, packing=packing, imports=imports) as image:
        check_all(image)


@settings(max_examples=120, deadline=None)
@given(
    types=st.lists(st.text("NZE_0123ABSt*KVL", max_size=20)),
    names=st.lists(st.text("_ZTVhncNEKS0123fDvAB.", max_size=24)),
)
def test_any_names(types: list[str], names: list[str]) -> None:
    methods = Methods([[f"_Z{name}", name] for name in names])
    for type_name in types:
        assert all(0 <= method.function < len(names) for method in methods.of_class(type_name))


@pytest.mark.parametrize("packing", ["", "rela", "relr"])
def test_mutated_files(packing: str, tmp_path: Path) -> None:
    words = [0, DATA + 48, CODE, CODE + 8, 0, 0, DATA, STRINGS, 2 << 32, DATA + 48, 2, DATA + 48, 0x1002]
    imports = {DATA + 48: NAMES[1]}
    tables = {"_ZTV1A": words[:6], "_ZTI1A": words[6:]}
    with build_image(tmp_path, tables, packing=packing, imports=imports, strings=b"1A\0") as image:
        check_all(image)
        content = bytes(image.data[:])
    path = tmp_path / "changed"
    for changed in mutations(content, many(500), random.Random(7)):
        path.write_bytes(changed)
        started = time.process_time()
        try:
            with Image.open(path) as image:
                check_all(image)
        except (FormatError, UnsupportedError):
            pass
        assert time.process_time() - started < 2
