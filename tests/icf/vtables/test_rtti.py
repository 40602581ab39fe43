"""Classes by their type_info objects, methods by their class."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.vtables.methods import Method, Methods, is_standard
from icf.vtables.rtti import Class, Classes
from icf.vtables.words import LoadedData
from tests.support.vtables import DATA, STRINGS, build_image

NO_BASE, ONE_BASE, BASES = (
    f"_ZTVN10__cxxabiv1{len(name)}{name}E"
    for name in ("__class_type_info", "__si_class_type_info", "__vmi_class_type_info")
)
NAMES = {"1A": 0, "1B": 8, "*1C": 16, "N12_GLOBAL__N_11DE": 24}
TEXT = b"".join(name.encode().ljust(8 if len(name) < 8 else 32, b"\0") for name in NAMES)
TABLE = DATA + 16  # what the first word of a type_info of this image's own runtime points to


@pytest.mark.parametrize("packing", ["", "rela", "relr"])
def test_bases(packing: str, tmp_path: Path) -> None:
    a, b, c, d = (DATA + 24 + at for at in (0, 16, 40, 96))
    tables = {
        f"{NO_BASE},{ONE_BASE}.,{BASES}.": [0, 0, 0],  # only the first is a name that is looked for
        "_ZTI1A": [TABLE, STRINGS],
        "_ZTI1B": [0, STRINGS + 8, a],
        "_ZTI1C": [0, STRINGS + 16, 2 << 32, a, 2, b, 0x1003, 0][:7],
        "_ZTI1D": [0, STRINGS + 24, 0],
    }
    imports = {b: ONE_BASE, c: BASES, d: ONE_BASE, d + 16: "_ZTISt9exception"}
    with build_image(tmp_path, tables, packing=packing, imports=imports, strings=TEXT) as image:
        classes = Classes(image, LoadedData(image), [(c, False), (d, False)])
        assert classes[a, False] == Class("1A", (), True)
        assert classes[b, False] == Class("1B", ((a, False),), True)
        assert classes[c, False] == Class("1C", ((a, False), (b, False)), True, is_local=True)
        (base,) = classes[d, False].bases
        assert classes[d, False] == Class("N12_GLOBAL__N_11DE", (base,), True, is_local=True)
        assert base[1] and classes[base] == Class("St9exception", (), False, is_import=True)
        assert classes[0x1234, False] == Class("", (), False)


def test_a_class_that_is_its_own_base_and_bases_without_end(tmp_path: Path) -> None:
    a, b = DATA, DATA + 24
    tables = {"_ZTI1A": [0, STRINGS, a], "_ZTI1B": [0, STRINGS + 8, 0xFFFFFFFF << 32, a, 0]}
    imports = {a: ONE_BASE, b: BASES}
    with build_image(tmp_path, tables, imports=imports, strings=TEXT) as image:
        classes = Classes(image, LoadedData(image), [(a, False), (b, False)])
        assert classes[a, False] == Class("1A", ((a, False),), True)
        assert classes[b, False] == Class("1B", (), False)  # more bases than the file has room for


@pytest.mark.parametrize(
    "type_name, name, thunk, destructor",
    [
        ("3Foo", "_ZN3Foo3getEv", "", ""),
        ("3Foo", "_ZNK3Foo3getB5cxx11Ev", "", ""),
        ("3Foo", "_ZNVKR3FoocvN2ns3BarEEv", "", ""),
        ("3Foo", "_ZN3FooixEi", "", ""),
        ("N2ns3FooIiE3BarE", "_ZN2ns3FooIiE3BarD0Ev", "", "D0"),
        ("3FooIiE", "_ZN3FooIiED2Ev", "", "D"),
        ("St9exception", "_ZNKSt9exception4whatEv", "", ""),
        ("So", "_ZNSo5flushEv", "", ""),
        ("1B", "_ZThn16_N1B3getEv", "Thn16_", ""),
        ("1B", "_ZTv0_n24_NK1B3getEv", "Tv0_n24_", ""),
        ("1B", "_ZTch0_v0_n32_N1B4copyEv", "Tch0_v0_n32_", ""),
        ("Z4mainE3Foo", "_ZZ4mainEN3Foo3getEv", "", ""),
        ("Z4mainE3Foo_0", "_ZZ4mainENK3Foo3getE_0v", "", ""),
        ("ZN1A1fEvEN1B1CE", "_ZZN1A1fEvEN1B1C3getEv", "", ""),
        ("1A", "_ZN1A1fEv.localalias", "", ""),
    ],
)
def test_methods_of_a_class(type_name: str, name: str, thunk: str, destructor: str) -> None:
    methods = Methods([["main"], [name], ["_ZN5Other1fEv", "_Z3foov"]])
    assert methods.of_class(type_name) == [Method(1, name, thunk, destructor)]
    assert not methods.has_any


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
    assert Methods([[name]]).of_class(type_name) == []


def test_who_may_be_in_other_vtables() -> None:
    assert Methods([["a"], ["__cxa_pure_virtual"]]).has_any
    assert Methods([["_ZNKSt9exception4whatEv"]]).has_standard and not Methods([["_ZN3Foo3getEv"]]).has_standard
    assert is_standard("NSt6thread6_StateE") and is_standard("St9exception") and not is_standard("N2ns3FooE")
