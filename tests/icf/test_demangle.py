"""Names as people write them."""

from __future__ import annotations

import pytest

from icf.demangle import demangle


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ZN3fir4tapsEi", "fir::taps(int)"),
        ("_Z3foov.cold", "foo() [clone .cold]"),
        ("_ZN1AC1Ev", "A::A()"),
        ("_ZN1AC2Ev", "A::A()"),
        ("main", "main"),
        ("i", "i"),  # not the type int
        ("", ""),
        ("_Z", "_Z"),
        ("_Zqq", "_Zqq"),
        ("_Z3foov\udcff", "_Z3foov\udcff"),  # a name with a byte that is no text
        ("_RNvCs1234_3foo3bar", "_RNvCs1234_3foo3bar"),  # the C++ runtime does not know Rust's own form
    ],
)
def test_names_are_demangled_or_left(name: str, shown: str) -> None:
    assert demangle(name) == shown
