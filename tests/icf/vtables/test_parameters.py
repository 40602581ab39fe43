"""Which class each register points to when a function is entered, by its linkage name."""

from __future__ import annotations

import pytest

from icf.elf.types import Machine
from icf.vtables.parameters import class_of_pointer, object_in, read_signature

RDI, RSI, RDX = 7, 6, 2


def objects_of(name: str, machine: Machine, *, is_method: bool, has_result: bool) -> dict[int, str]:
    """The class of the object that each register points to."""
    signature = read_signature(name)
    assert signature is not None
    classes = {
        register: object_in(register, signature, machine, is_method=is_method, has_result=has_result)
        for register in range(16)
    }
    return {register: name for register, name in classes.items() if name}


@pytest.mark.parametrize(
    ("name", "scope", "parameters"),
    [
        ("_ZN5Shape6acceptER7VisitorPS_", "Shape", ("Visitor&", "Shape*")),
        ("_ZNK2ns3BoxIiE3getEPKS1_", "ns::Box<int>", ("ns::Box<int> const*",)),
        ("_ZN12_GLOBAL__N_13Foo3runEPS0_", "(anonymous namespace)::Foo", ("(anonymous namespace)::Foo*",)),
        ("_ZN3FooD2Ev", "Foo", ()),
        ("_ZN3FooltERKS_", "", ("Foo const&",)),  # operator<: its bracket is not one
        ("_Z4eachPFviEi", "", ("void (*)(int)", "int")),
    ],
)
def test_signatures(name: str, scope: str, parameters: tuple[str, ...]) -> None:
    signature = read_signature(name)
    assert signature is not None
    assert (signature.scope, signature.parameters) == (scope, parameters)


@pytest.mark.parametrize("name", ["main", "_ZTv0_n24_N1B3getEv", "_ZN3Foo3runEv.constprop.0", "_ZTI3Foo", "_Z"])
def test_names_without_a_signature_of_a_whole_function(name: str) -> None:
    assert read_signature(name) is None


@pytest.mark.parametrize(
    ("name", "is_method", "has_result", "expected"),
    [
        ("_ZN3Foo3runER3Bar", True, False, {RDI: "Foo", RSI: "Bar"}),
        ("_ZN3Foo3runER3Bar", False, False, {RDI: "Bar"}),  # a static one
        ("_ZN3Foo3runER3Bar", True, True, {RSI: "Foo", RDX: "Bar"}),  # the result is in memory
        ("_Z3rundiP3Bar", False, False, {RSI: "Bar"}),  # double takes no such register
        ("_Z3run5KindsP3Bar", False, False, {}),  # an enumeration, or a class by value
        ("_Z3runnP3Bar", False, False, {}),  # __int128 takes two
        ("_Z3runM3FooFvvEP3Bar", False, False, {}),  # so does a pointer to a method
        ("_Z3runPP3BarS0_", False, False, {RSI: "Bar"}),
    ],
)
def test_registers(name: str, is_method: bool, has_result: bool, expected: dict[int, str]) -> None:
    assert objects_of(name, Machine.X86_64, is_method=is_method, has_result=has_result) == expected


def test_the_result_of_aarch64_takes_no_argument_register() -> None:
    name = "_ZN3Foo3runER3Bar"
    assert objects_of(name, Machine.AARCH64, is_method=True, has_result=True) == {0: "Foo", 1: "Bar"}


def test_pointees() -> None:
    texts = ["Foo*", "Foo const&", "Foo&&", "Foo**", "void (*&)(int)", "Foo", "int"]
    assert list(map(class_of_pointer, texts)) == ["Foo", "Foo", "Foo", "", None, None, None]
