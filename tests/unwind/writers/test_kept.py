"""Texts that writers keep."""

from __future__ import annotations

from unwind.writers.kept import KeptTexts


def test_texts_are_kept_up_to_a_number_of_bytes() -> None:
    kept = KeptTexts[int, str](limit_bytes=10)
    assert [kept.keep(key, "six by") for key in (1, 2)] == ["six by"] * 2
    assert sorted(kept) == [1, 2]  # twelve bytes: the next one makes room first
    kept.keep(3, "six by")
    assert sorted(kept) == [3]
