"""An executable and two shared objects, each linked twice and sampled: no name may be wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.truth.across import write_across
from tests.truth.modules import ACROSS, measure
from tests.truth.programs import SMALL, Unavailable


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.mark.parametrize("linker", ["gold", "mold"])
def test_a_library_calls_its_own_functions_by_name(linker: str, cache: Path) -> None:
    """gold and mold fold callers of what they have folded: the call has the symbol of the function that they kept."""
    try:
        score = measure(SMALL, "clang", linker, "objects", list(icf_command()), cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not score.merged["wrong"] + score.other["unmerged, wrong"], score.findings
    assert score.merged["right"] > 0.7 * score.merged.total() > 100


def test_calls_across_modules(cache: Path) -> None:
    small = replace(ACROSS, name="across-small", sources=partial(write_across, pair_count=2))
    try:
        score = measure(small, "clang", "lld", "objects", list(icf_command()), cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not score.merged["wrong"] + score.other["unmerged, wrong"], score.findings
    assert score.crossing["right"] > 10 and score.merged["right"] > score.crossing["right"]
