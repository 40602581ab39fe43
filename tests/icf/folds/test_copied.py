"""Which compilers may have merged functions, by what DW_AT_producer records."""

from __future__ import annotations

import pytest

from icf.folds.copied import _MERGES


@pytest.mark.parametrize(
    ("producer", "merges"),
    [
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2 -ffunction-sections", True),
        ("GNU C++17 12.2.0 -mtune=generic -march=x86-64 -Os", True),
        ("GNU C++17 12.2.0 -mtune=generic -O1 -fipa-icf -g", True),
        ("GNU C17 12.2.0", True),  # -gno-record-gcc-switches
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g", False),  # -O0
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O1", False),
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2 -fno-ipa-icf", False),
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2 -fno-ipa-icf -fPIC", False),
        ("Debian clang version 19.1.7", False),
        ("clang LLVM (rustc version 1.95.0)", False),
        ("", False),
    ],
)
def test_gcc_merges_equal_functions_from_o2_on(producer: str, merges: bool) -> None:
    assert bool(_MERGES.match(producer.encode())) is merges
