"""Classes by their type_info objects, methods by their class."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from icf.columns import I64
from icf.strings import hash_names
from icf.vtables import _methods, methods
from icf.vtables.methods import DELETING, DESTRUCTOR, NO_DESTRUCTOR, is_standard, keys_of_classes, read_methods
from icf.vtables.rtti import ANYWHERE, Classes
from icf.vtables.words import LoadedData
from tests.support.builds import uncompiled
from tests.support.vtables import DATA, STRINGS, build_image

NO_BASE, ONE_BASE, BASES = (
    f"_ZTVN10__cxxabiv1{len(name)}{name}E"
    for name in ("__class_type_info", "__si_class_type_info", "__vmi_class_type_info")
)
NAMES = {"1A": 0, "1B": 8, "*1C": 16, "N12_GLOBAL__N_11DE": 24, "ZN3boxL4makeEvE1E": 56}
TEXT = b"".join(name.encode().ljust(8 if len(name) < 8 else 32, b"\0") for name in NAMES)
NO_KEYS = np.empty(0, np.uint64)
TABLE = DATA + 16  # what the first word of a type_info of this image's own runtime points to


class Class(NamedTuple):
    name: str
    bases: list[str]
    knows_bases: bool
    is_local: bool = False
    is_import: bool = False


def class_at(classes: Classes, typeinfo: int) -> Class:
    """The class of a type_info in this image."""
    return class_in(classes, classes.rows(np.array([typeinfo], np.uint64), np.array([False])))


def class_in(classes: Classes, row: I64) -> Class:
    index, bases = classes.bases_of(row)
    assert not index.any() and classes.base_counts(row) == len(bases)
    (name,) = classes.names(row)
    assert bool(classes.has_name(row)[0]) == bool(name) and classes.name_hashes(row) == hash_names([name])
    flags = (bool(column[row][0]) for column in (classes.knows_bases, classes.is_local, classes.is_import))
    return Class(name, classes.names(bases), *flags)


@pytest.mark.parametrize("packing", ["", "rela", "relr"])
def test_bases(packing: str, tmp_path: Path) -> None:
    a, b, c, d, e = (DATA + 24 + at for at in (0, 16, 40, 96, 120))
    tables = {
        f"{NO_BASE},{ONE_BASE}.,{BASES}.": [0, 0, 0],  # only the first is a name that is looked for
        "_ZTI1A": [TABLE, STRINGS],
        "_ZTI1B": [0, STRINGS + 8, a],
        "_ZTI1C": [0, STRINGS + 16, 2 << 32, a, 0x1002, b, -0x17FD, 0][:7],
        "_ZTI1D": [0, STRINGS + 24, 0],
        "_ZTI1E": [0, STRINGS + 56],
    }
    imports = {b: ONE_BASE, c: BASES, d: ONE_BASE, d + 16: "_ZTISt9exception", e: NO_BASE}
    with build_image(tmp_path, tables, packing=packing, imports=imports, strings=TEXT) as image:
        classes = Classes(image, LoadedData(image), np.array([c, d, e], np.uint64), np.zeros(3, np.bool_))
        assert class_at(classes, a) == Class("1A", [], True)
        assert class_at(classes, b) == Class("1B", ["1A"], True)
        assert class_at(classes, c) == Class("1C", ["1A", "1B"], True, is_local=True)
        assert class_at(classes, d) == Class("N12_GLOBAL__N_11DE", ["St9exception"], True, is_local=True)
        assert class_at(classes, e) == Class("ZN3boxL4makeEvE1E", [], True, is_local=True)  # of a static function
        _, base = classes.bases_of(classes.rows(np.array([d], np.uint64), np.array([False])))
        assert class_in(classes, base) == Class("St9exception", [], False, is_import=True)
        assert class_at(classes, 0x1234) == Class("", [], False)
        offsets = classes.base_offsets(classes.rows(np.array([b, c], np.uint64), np.zeros(2, np.bool_)))
        assert offsets.tolist() == [0, 16, ANYWHERE]
        assert len(classes) == 7


def test_a_class_that_is_its_own_base_and_bases_without_end(tmp_path: Path) -> None:
    a, b = DATA, DATA + 24
    tables = {"_ZTI1A": [0, STRINGS, a], "_ZTI1B": [0, STRINGS + 8, 0xFFFFFFFF << 32, a, 0]}
    imports = {a: ONE_BASE, b: BASES}
    with build_image(tmp_path, tables, imports=imports, strings=TEXT) as image:
        classes = Classes(image, LoadedData(image), np.array([a, b], np.uint64), np.zeros(2, np.bool_))
        assert class_at(classes, a) == Class("1A", ["1A"], True)
        assert class_at(classes, b) == Class("1B", [], False)  # more bases than the file has room for


@pytest.mark.parametrize(
    "type_name, name, thunk, destructor",
    [
        ("3Foo", "_ZN3Foo3getEv", "", NO_DESTRUCTOR),
        ("3Foo", "_ZNK3Foo3getB5cxx11Ev", "", NO_DESTRUCTOR),
        ("3Foo", "_ZNVKR3FoocvN2ns3BarEEv", "", NO_DESTRUCTOR),
        ("3Foo", "_ZN3FooixEi", "", NO_DESTRUCTOR),
        ("N2ns3FooIiE3BarE", "_ZN2ns3FooIiE3BarD0Ev", "", DELETING),
        ("3FooIiE", "_ZN3FooIiED2Ev", "", DESTRUCTOR),
        ("St9exception", "_ZNKSt9exception4whatEv", "", NO_DESTRUCTOR),
        ("So", "_ZNSo5flushEv", "", NO_DESTRUCTOR),
        ("1B", "_ZThn16_N1B3getEv", "Thn16_", NO_DESTRUCTOR),
        ("1B", "_ZTv0_n24_NK1B3getEv", "Tv0_n24_", NO_DESTRUCTOR),
        ("1B", "_ZTch0_v0_n32_N1B4copyEv", "Tch0_v0_n32_", NO_DESTRUCTOR),
        ("Z4mainE3Foo", "_ZZ4mainEN3Foo3getEv", "", NO_DESTRUCTOR),
        ("Z4mainE3Foo_0", "_ZZ4mainENK3Foo3getE_0v", "", NO_DESTRUCTOR),
        ("ZN1A1fEvEN1B1CE", "_ZZN1A1fEvEN1B1C3getEv", "", NO_DESTRUCTOR),
        ("1A", "_ZN1A1fEv.localalias", "", NO_DESTRUCTOR),
    ],
)
def test_methods_of_a_class(
    type_name: str, name: str, thunk: str, destructor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, keys = keys_of_classes([type_name])
    for split in (_methods.split_methods, uncompiled(_methods).split_methods):
        monkeypatch.setattr(methods, "split_methods", split)
        found = read_methods(["main", name, "_ZN5Other1fEv", "_Z3foov"], keys)
        (row,) = zip(*(column.tolist() for column in found.methods), strict=True)
        assert row == (1, row[1], len(thunk), destructor) and row[1] in keys
        assert not found.is_any.any()


@pytest.mark.parametrize(
    "type_name, name",
    [
        ("3Foo", "_ZN3Foo3Bar3getEv"),  # of a class in the class
        ("3Foo", "_ZN3FooIiE3getEv"),  # of a template of that name
        ("3Foo", "_ZN4Foo23getEv"),
        ("3Foo", "_ZZN3Foo3getEvEN3Bar3setEv"),
        ("3Foo", "_Z3Foov"),
        ("Z4mainE3Foo", "_ZZ4mainEN3Bar3getEv"),
        ("", "_ZN3Foo3getEv"),
        ("3Foo", "_ZN3Foo99getEv"),
        ("3Foo", "_ZN3Foo"),
    ],
)
def test_functions_that_are_no_methods_of_the_class(type_name: str, name: str) -> None:
    assert not len(read_methods([name], keys_of_classes([type_name])[1]).methods.name)


def test_who_may_be_in_other_vtables() -> None:
    found = read_methods(["a", "__cxa_pure_virtual", "_ZNKSt9exception4whatEv", "_ZN3Foo3getEv"], NO_KEYS)
    assert found.is_any.tolist() == [False, True, False, False]
    assert found.is_standard.tolist() == [False, False, True, False]
    assert is_standard("NSt6thread6_StateE") and is_standard("St9exception") and not is_standard("N2ns3FooE")


def test_names_that_are_long_or_can_be_split_in_many_ways_may_be_in_any_vtable() -> None:
    names = ["_ZZ1f" + "ENK1A" * 9 + "1gEv", "_ZN1A" + "1a" * (1 << 15) + "1gEv", "_ZN1A1gEv"]
    assert read_methods(names, NO_KEYS).is_any.tolist() == [True, True, False]
