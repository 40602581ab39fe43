"""The names by which local functions are looked up among DIEs whose address is tombstoned."""

from __future__ import annotations

import pytest

from icf.folds.member import FoldMember
from icf.folds.tombstoned import _described_names


@pytest.mark.parametrize(
    ("symbol", "others"),
    [
        ("_ZL5weighi", "weigh"),  # weigh(int)
        ("_ZN12_GLOBAL__N_15Apple5weighEi", "weigh"),
        ("_ZN6BasketIN12_GLOBAL__N_15AppleEE5weighEi", "weigh"),  # Basket<(anonymous namespace)::Apple>::weigh(int)
        ("_ZZL5weighiEN5Scale4readEi", "read"),  # weigh(int)::Scale::read(int)
        ("_ZZL5weighiENKUliE_clEi", "operator()"),  # weigh(int)::{lambda(int)#1}::operator()(int) const
        ("_ZN12_GLOBAL__N_1ltERKNS_5AppleES2_", None),  # operator<: looks like an instance
        ("_ZL5weighIiEiT_", None),  # int weigh<int>(int): another template may have an instance of that name
        ("_ZN12_GLOBAL__N_15AppleC2Ev", None),  # the variants of a constructor look alike
        ("_ZN12_GLOBAL__N_15ApplecvbEv", None),  # operator bool: maybe operator Ripe in the source
        ("weigh.isra.0", "weigh"),  # of C: the name is the linkage name
        ("_ZL5weighi.__uniq.7", "_ZL5weighi weigh"),  # clang has the whole name in debug information, gcc has not
    ],
)
def test_plain_names(symbol: str, others: str | None) -> None:
    names = _described_names(FoldMember(symbol, local=True, files=frozenset({"a.cpp"})))
    assert names == [symbol, *(others or "").split()]
