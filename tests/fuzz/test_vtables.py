"""Vtables, type_info objects and relocations with any words in them: an answer or FormatError, never more."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.aliases import base_name
from icf.elf.image import Image
from icf.errors import FormatError, UnsupportedError
from icf.sets import is_in
from icf.vtables.layout import Vtables
from icf.vtables.methods import keys_of_classes, read_methods
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
    classes = Classes(image, vtables.data, groups.typeinfo, groups.imports_typeinfo)
    rows = np.arange(len(classes))
    names = classes.names(rows)
    of, base = classes.bases_of(rows)
    assert (of < len(classes)).all() and (base < len(classes)).all()
    methods = ["_ZN1A1fEv", *(f"_ZN{name}1fEv" for name in names)]
    read_methods(methods, keys_of_classes(names)[1])


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


ENCODING = re.compile(r"_Z(?:T(?:c(?:hn?\d+_|vn?\d+_n?\d+_){2}|hn?\d+_|vn?\d+_n?\d+_))?(?:N([rVK]*[RO]?)(.*)|(Z.*))")
LAST_PART = re.compile(r"(?:(\d+)|D[0-5]|(?!cv)[a-z][a-zA-Z])(.*)")


def is_method(name: str, type_name: str) -> bool:
    """Return whether a linkage name is that of a method of a class, found out by trying one prefix after the other."""
    match = ENCODING.fullmatch(base_name(name))
    if match is None or not type_name:
        return False
    if not type_name.startswith("Z"):
        scope = type_name[1:-1] if type_name.startswith("N") else type_name
        rest = (match[2] or "").partition(scope) if scope else ("-", "", "")
        return not rest[0] and bool(rest[1]) and is_last_part(rest[2])
    type_name = re.sub(r"(?:_\d|__\d+_)\Z", "", type_name)
    for end in (at + 1 for at, char in enumerate(type_name) if char == "E"):
        function, scope = type_name[:end] + "N", type_name[end:]
        scope = scope[1:-1] if scope.startswith("N") else scope
        if scope and (match[3] or "").startswith(function):
            rest = re.sub(r"[rVK]*[RO]?", "", match[3][len(function) :], count=1)
            if rest.startswith(scope) and is_last_part(rest[len(scope) :]):
                return True
    return False


def is_last_part(text: str) -> bool:
    """Return whether a scope ends after one more name, which is that of a method."""
    if text.startswith("cv"):
        return text.endswith("Ev")
    match = LAST_PART.fullmatch(text)
    if match is None:
        return False
    rest = match[2][int(match[1] or 0) :] if len(match[2]) >= int(match[1] or 0) else ""
    while tag := re.match(r"B(\d+)", rest):
        rest = rest[tag.end() + int(tag[1]) :]
    return rest.startswith("E")


METHOD = st.sampled_from(["1fEv", "D0Ev", "D2Ev", "cvbEv", "ixEi", "1fB1bEv", "N1BE1fEv", "1fE_0v", "1f"])
SCOPE = st.sampled_from(
    ["1A", "2AB", "1AIiE", "St9exception", "N1A1BE", "Z1fvE1A", "ZN1A1fEvEN1B1CE", "Z1fvE1A_0", "12"]
)


@settings(max_examples=120, deadline=None)
@given(
    types=st.lists(st.one_of(SCOPE, st.text("NZE_0123ABSt*KVL", max_size=20))),
    names=st.lists(
        st.one_of(
            st.text("_ZTVhncNEKS0123fDvAB.", max_size=24),
            st.builds(
                lambda lead, scope, method: lead + scope.removesuffix("E" if scope[0] == "N" else "_0") + method,
                st.sampled_from(["N", "NK", "", "Thn8_N", "Tcv0_n8_h4_N"]),
                st.one_of(SCOPE, st.sampled_from(["Z1fvEN1A", "Z1fvENK1A", "ZN1A1fEvENVKR1B1C"])),
                METHOD,
            ),
        )
    ),
)
def test_any_names(types: list[str], names: list[str]) -> None:
    names = [*(f"_Z{name}" for name in names), *names]
    rows, keys = keys_of_classes(types)
    found = read_methods(names, keys)
    assert is_in(found.methods.class_key, keys).all() and (np.diff(found.methods.name) >= 0).all()
    for row, type_name in enumerate(types):
        shown = set(read_methods(names, keys[rows == row]).methods.name.tolist())
        expected = {at for at, name in enumerate(names) if not found.is_any[at] and is_method(name, type_name)}
        assert shown == expected, (type_name, [names[at] for at in shown ^ expected])


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
