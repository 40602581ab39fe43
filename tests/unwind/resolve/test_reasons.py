"""Reasons have a code for programs and a text for people, and every kind of call site has one."""

from __future__ import annotations

import json

import pytest

from tests.unwind.support import fold, pc, ret
from unwind.program.parts import CallSite, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.reasons import nothing_fits, open_site, slot_call
from unwind.resolve.resolver import Resolver
from unwind.samples.stack import Stack
from unwind.symbolize.reasons import ReasonCode
from unwind.writers.json_lines import JsonWriter


@pytest.mark.parametrize("kind", SiteKind)
def test_every_kind_of_call_site_has_a_reason(kind: SiteKind) -> None:
    reason = open_site(kind, 0x401136)
    assert reason.address == 0x401136 and str(reason).endswith("before 0x401136")


def test_codes_are_words_that_programs_compare() -> None:
    assert all(code.value.replace("-", "").isalpha() and code.value.islower() for code in ReasonCode)
    assert str(slot_call(2, 0x10)) == "call of slot 2 of a vtable before 0x10"
    assert str(nothing_fits("?", 0x10)) == "nothing possible at ? calls a function at 0x10"


def test_json_has_code_text_and_address() -> None:
    sites = {
        ret(1): CallSite(SiteKind.INDIRECT),
        ret(1) + 8: CallSite(SiteKind.NONE),
        ret(1) + 9: CallSite(SiteKind.NONE),
    }
    program = Program([fold(0, 2), fold(1, 1)], code=ListedCode(sites))
    stack = Stack((pc(0), ret(1) + 8))
    answers = Resolver(program).resolve(stack.addresses)
    outer = json.loads(JsonWriter().line(stack.weight, answers))["frames"][1]
    address = f"{ret(1) + 8:#x}"
    assert (outer["reason"], outer["reason_address"]) == ("follows-no-call", address)
    assert outer["reason_text"] == f"{address} does not follow a call"
