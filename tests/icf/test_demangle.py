"""Names as people write them."""

from __future__ import annotations

import subprocess

import pytest

import icf.demangle as module
from icf.demangle import demangle
from tests.support.toolchain import run, tool


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ZN3fir4tapsEi", "fir::taps(int)"),
        ("_Z3foov.cold", "foo() (.cold)"),
        ("_ZN1AC1Ev", "A::A()"),
        ("_ZN1AC2Ev", "A::A()"),
        ("main", "main"),
        ("i", "i"),  # not the type int
        ("", ""),
        ("_Z", "_Z"),
        ("_Zqq", "_Zqq"),
        ("_Z3foov\udcff", "_Z3foov\udcff"),  # a name with a byte that is no text
        ("_Z3foov@@V1", "foo()@@V1"),
        ("_RNvCs1234_3foo3bar", "foo::bar"),
        ("_Reset", "_Reset"),
        ("_RNvCs1234_3foo3ba\udcff", "_RNvCs1234_3foo3ba\udcff"),
        ("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"),
        ("_ZN1a12_$ue9$t$ue9$9na$uef$ve17h430340cd78c25ddcE", "a::été::naïve"),
        ("_ZN3std2io5stdio6_print17hfedcba9876543210E.llvm.12345", "std::io::stdio::_print"),
        ("_ZN9allocator17h0123456789abcdefEv", "allocator::h0123456789abcdef()"),  # C++: it has parameters
        ("$s4main3fooyS2iF", "main.foo(Swift.Int) -> Swift.Int"),
        ("$s4main3fooyS2iF\udcff", "$s4main3fooyS2iF\udcff"),
        ("$s", "$s"),
        ("$start", "$start"),
    ],
)
def test_names_are_demangled_or_left(name: str, shown: str) -> None:
    assert demangle(name) == shown


def test_a_name_so_deep_that_a_demangler_would_overflow_the_stack_is_left() -> None:
    name = "_Z1f" + "1AI" * 100_000 + "i" + "E" * 100_000
    assert demangle(name) == name


def test_cxx_and_rust_read_as_llvm_cxxfilt_writes_them() -> None:
    filt, runtime = tool("llvm-cxxfilt"), run(tool("g++"), "-print-file-name=libstdc++.so").stdout.strip()
    listed = run(tool("nm"), "-D", "--defined-only", runtime)
    names = {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}
    names |= {
        "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3new",
        "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINiB4_5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
    }
    text = "\n".join(names)
    shown = subprocess.run([filt], input=text, capture_output=True, text=True, check=True).stdout
    assert [demangle(name) for name in names] == shown.splitlines()


def test_names_that_stand_for_very_much_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 bytes of references, each to two of the one before, are 100 KiB of text."""
    nested = "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABC")
    names = [f"_Z8f{at:07}1AIiiE{nested}" for at in range(6)]
    texts = [demangle(name) for name in names]
    assert all(len(text) > 200 * len(name) for name, text in zip(names, texts, strict=True)), list(map(len, texts))
    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(module, "_bytes_left", 3 * len(texts[0]))
    assert [demangle(name) for name in names] == [*texts[:3], *names[3:]]
    assert demangle("_Z3foov") == "foo()"
