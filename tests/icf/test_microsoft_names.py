"""Names of the Microsoft ABI: as llvm-undname has them, without what comes before the name; and hostile ones."""

from __future__ import annotations

import re

import pytest

from icf import microsoft_names
from icf.demangle import demangle
from icf.microsoft_names import declaration, declared_by, parameters_alike, spelled_alike
from tests.support.toolchain import run, tool

NAMES = (
    "?add@?$List@UOrder@@@@QEAAHPEAUOrder@@@Z",
    "??_GD1@@UEAAPEAXI@Z",
    "?f@?A0x12345678@@YAHH@Z",
    "??RFoo@@QEBAHH@Z",
    "??$make@HM@ns@@YA?AV?$vector@HV?$allocator@H@std@@@std@@HM@Z",
    "?cb@@YAXP6AHH@Z@Z",
    "?h@?1??f@@YAHXZ@YAHXZ",
    "??BFoo@@QEAAHXZ",
    "??6std@@YAAEAHAEAHH@Z",
    "??CFoo@@QEBAPEAHXZ",
    "?g@@YQHXZ",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_end_of_what_llvm_undname_prints(name: str) -> None:
    whole = run(tool("llvm-undname"), name).stdout.splitlines()[1]
    assert whole.endswith(demangle(name)) and demangle(name) != name
    assert declared_by(name) == declaration(whole)


def test_spellings_of_the_compiler_are_those_of_the_demangler() -> None:
    declared = declared_by("??_GD1@@UEAAPEAXI@Z")
    assert declared is not None and spelled_alike(declared.name) == spelled_alike("D1::~D1") == "D1::~"
    for name in ("D1::`scalar deleting destructor'", "D1::`vector deleting dtor'", "D1::`vbase destructor'"):
        assert spelled_alike(name) == "D1::~"
    assert spelled_alike("List<struct Order>::add") == spelled_alike("List<Order>::add")
    assert parameters_alike("struct A const *const, bool") == parameters_alike("A const *,bool")
    assert parameters_alike("void") == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("?get@C@@QEBAP6AXH@ZXZ", ("C::get", "void", " const")),
        ("?signal@@YAP6AXH@ZHP6AXH@Z@Z", ("signal", "int, void (__cdecl *)(int)", "")),
        ("?f@@YAP6AP6AXH@ZH@ZH@Z", ("f", "int", "")),  # int to a function that returns a pointer to one
        ("?m@@YAP8C@@EAAXH@ZH@Z", ("m", "int", "")),  # returns a pointer to a method
        ("?arr@@YAAEAY02HH@Z", ("arr", "int", "")),  # returns a reference to an array
        ("??BC@@QEBAP6AXH@ZXZ", ("C::operator void (__cdecl *)(int)", "void", " const")),
        ("??RC@@QEBAP6AXH@ZXZ", ("C::operator()", "void", " const")),
    ],
)
def test_a_function_that_returns_a_pointer_to_a_function(name: str, expected: tuple[str, str, str]) -> None:
    assert declared_by(name) == expected
    assert demangle(name) == f"{expected[0]}({expected[1]}){expected[2]}"


def test_a_pointer_to_a_function_is_none() -> None:
    assert declared_by("?fp@@3P6AXH@ZEA") is None
    deep = "".join(["?f@@YA", "P6A" * 1000, "X", "H@Z" * 1000, "@Z"])
    assert declared_by(deep) is None


def test_an_array_without_a_size_is_spelled_in_two_ways() -> None:
    assert spelled_alike("std::unique_ptr<char [0]>::get") == spelled_alike("std::unique_ptr<char[]>::get")
    assert parameters_alike("std::unique_ptr<char [0]> &") == parameters_alike("class std::unique_ptr<char[]> &")


@pytest.mark.parametrize("name", ["?", "??_7Base@@6B@", "?x@@3HA", "main", "?\udc80@@YAXXZ"])
def test_what_declares_no_function(name: str) -> None:
    assert declared_by(name) is None
    assert isinstance(demangle(name), str)


def test_a_name_that_stands_for_gigabytes_stays_as_it_is() -> None:
    levels = "".join("P6AX" + str(level) * 60 + "@Z" for level in range(9))
    name = f"?f@@YAXP6AXPEAUx@@@Z{levels}@Z"
    assert demangle(name) == name


@pytest.mark.parametrize("name", NAMES)
def test_names_without_nested_functions_are_read_without_counting_brackets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = declared_by(name)
    monkeypatch.setattr(microsoft_names, "_PLAIN", re.compile(r"(?!)"))
    assert declared_by(name) == expected

    monkeypatch.undo()
    monkeypatch.setattr(microsoft_names, "_depths", lambda text: pytest.fail(text))
    assert declared_by("?add@?$List@UOrder@@@@QEAAHPEAV?$Box@H@@@Z") == (
        "List<struct Order>::add",
        "class Box<int> *",
        "",
    )
