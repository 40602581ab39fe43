"""Candidates that are called alike: what one name may stand for them all, and what may not."""

from __future__ import annotations

import pytest

from icf.model import Member
from unwind.resolve.findings import common_name


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (["init", "init"], "init"),  # of two files: which one stays open, not what it is called
        (["_Z3foov", "_Z3foov.isra.0", "_Z3foov.constprop.0"], "_Z3foov"),
        (["_ZN3FooC1Ev", "_ZN3FooC2Ev.part.0"], "_ZN3FooC1Ev"),
        (["init.llvm.1", "init.llvm.2"], ""),
        (["init.lto_priv.0", "init.lto_priv.1"], ""),
        (["init", "init.lto_priv.0"], ""),
        (["init.__uniq.1", "init.__uniq.2"], ""),
        (["_ZN1r13Pool$LT$T$GT$3add17h0123456789abcde1E", "_ZN1r13Pool$LT$T$GT$3add17h0123456789abcde2E"], ""),
        (["_ZN4BaseD1Ev", "_ZN7DerivedD1Ev"], ""),
    ],
)
def test_one_name_for_all_candidates(names: list[str], common: str) -> None:
    assert common_name([Member(name) for name in names]) == common
