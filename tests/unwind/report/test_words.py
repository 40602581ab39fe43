"""Each code that a report can have is explained."""

from __future__ import annotations

from icf.model import Evidence
from unwind.report.data import Doubt
from unwind.report.words import DOUBTS, EVIDENCE, REASONS
from unwind.symbolize.reasons import ReasonCode


def test_every_code_has_words() -> None:
    assert set(DOUBTS) == set(Doubt)
    assert set(REASONS) == set(ReasonCode)
    assert set(EVIDENCE) == {evidence.name.lower() for evidence in Evidence} | {"vptr", ""}


def test_words_are_sentences() -> None:
    for text in (*DOUBTS.values(), *REASONS.values()):
        assert text[0].isupper() and text.endswith(".")
