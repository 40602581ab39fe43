"""How the addresses of a stack are meant: raw or less one, exact, none of a frame; by the code at each."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from icf.cli import main
from icf.code.call_ends import find_call_ends
from icf.model import Verdict
from tests.support.paths import ROOT
from tests.unwind.support import MARKED, call, fold, pc, ret, start
from unwind import open_resolver
from unwind.program.parts import CallSite, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver

NO_CALL, INDIRECT = CallSite(SiteKind.NONE), CallSite(SiteKind.INDIRECT)
CLASSES = [fold(0, 2), fold(1, 1), fold(2, 1)]
RECORDS = [call((1, 0), (0, 1)), call((2, 0), (1, 0))]
CALLS = {ret(1): CallSite(SiteKind.DIRECT, target=start(0)), ret(2): CallSite(SiteKind.DIRECT, target=start(1))}
NOT_CALLS = {ret(body) + step: NO_CALL for body in (0, 1, 2) for step in (-1, 1, 2, 8, 9)}


def program(sites: dict[int, CallSite] | None = None, **more: object) -> Program:
    return Program(CLASSES, RECORDS, code=ListedCode({**NOT_CALLS, **CALLS, **(sites or {})}, **more))  # type: ignore[arg-type]


def shown(one: Program, *addresses: int | None, exact: tuple[int, ...] = ()) -> list[str | None]:
    return [answer.linkage_name for answer in Resolver(one).resolve(addresses, exact=exact)]


@pytest.mark.parametrize("less", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_return_addresses_are_raw_or_less_one_each_by_itself(less: tuple[int, int]) -> None:
    answers = Resolver(program()).resolve((pc(0), ret(1) - less[0], ret(2) - less[1]))
    assert [answer.linkage_name for answer in answers] == ["b0m1", "b1m0", "b2m0"]
    assert [answer.vaddr for answer in answers] == [pc(0), ret(1) - 1, ret(2) - 1]  # a byte inside of the call
    assert answers[1].address == ret(1) - less[0]  # as it was given


def test_an_address_that_fits_neither_is_unknown_and_binds_nobody() -> None:
    inner, outer, outermost = Resolver(program()).resolve((pc(0), ret(1) + 8, ret(2)))
    assert (inner.verdict, str(inner.reason)) == (Verdict.AMBIGUOUS, "its caller is not known")
    assert (outer.verdict, str(outer.reason)) == (Verdict.UNKNOWN, f"{ret(1) + 8:#x} does not follow a call")
    assert outermost.linkage_name == "b2m0"


def test_bytes_that_can_be_read_both_ways_are_told_apart_by_the_boundaries_of_instructions() -> None:
    both = {ret(1) - 1: INDIRECT}  # seems to follow a call, as does the byte after it
    assert shown(program(both, boundaries={ret(1), ret(2)}), pc(0), ret(1) - 1)[0] == "b0m1"
    # the record decides where the function cannot be decoded
    assert shown(program(both), pc(0), ret(1) - 1)[0] == "b0m1"
    undecided = Resolver(Program(CLASSES, code=ListedCode({**CALLS, **both}))).resolve((pc(0), ret(1) - 1))
    assert str(undecided[1].reason) == f"{ret(1) - 1:#x} does not follow a call"


def test_what_only_looks_like_a_call_less_one_is_none() -> None:
    accident = {ret(1) + 9: INDIRECT}
    assert shown(program(accident, boundaries=set(CALLS)), pc(0), ret(1) + 8) == [None, None]


def test_a_function_that_a_signal_interrupted_at_its_first_instruction() -> None:
    # b1 ends in a call of a function that does not return, b2 follows
    sites = {start(2): CallSite(SiteKind.DIRECT, target=start(0))}
    one = Program([fold(0, 1), fold(1, 1), fold(2, 1), fold(3, 1)], code=ListedCode(sites))
    assert shown(one, pc(0), start(2), ret(3)) == ["b0m0", "b1m0", "b3m0"]
    assert shown(one, pc(0), start(2), ret(3), exact=(1,)) == ["b0m0", "b2m0", "b3m0"]


def test_an_exact_frame_has_called_nothing_and_was_called() -> None:
    # the interrupted function stands where a call of b0m1 has just returned
    inner, middle, _ = Resolver(program()).resolve((pc(0), ret(1), ret(2)), exact=(1,))
    assert (inner.verdict, str(inner.reason)) == (Verdict.AMBIGUOUS, "its caller is not known")
    assert middle.linkage_name == "b1m0"
    classes = [fold(0, 1, MARKED), fold(1, 2), fold(2, 1)]
    called = Program(classes, [call((2, 0), (1, 1))], code=ListedCode({ret(1): NO_CALL}))
    assert shown(called, pc(0), ret(1), ret(2), exact=(1,)) == ["b0m0", "b1m1", "b2m0"]


@pytest.mark.parametrize("less", [0, 1])
def test_the_frame_outwards_of_a_signal_trampoline_is_exact(less: int) -> None:
    trampoline = fold(3, 1)
    sites = {start(2): CallSite(SiteKind.DIRECT, target=start(0)), start(3): NO_CALL, start(3) + 1: NO_CALL}
    code = ListedCode(sites, signal_returns=[start(3)])
    one = Program([fold(0, 2), fold(1, 1), fold(2, 1), trampoline], code=code)
    resolver = Resolver(one)
    for _ in range(2):  # also when all steps are known
        handler, returns, interrupted = resolver.resolve((pc(0), start(3) - less, start(2)))
        assert (handler.verdict, str(handler.reason)) == (Verdict.AMBIGUOUS, "its caller is not known")
        assert [returns.linkage_name, interrupted.linkage_name] == ["b3m0", "b2m0"]
    assert shown(one, start(3), start(2)) == ["b3m0", "b2m0"]  # sampled in the trampoline
    assert [step.answer.linkage_name for step in resolver.steps((pc(0), start(3) - less, start(2)))][2] == "b2m0"


def test_the_entry_of_a_fibre_is_the_start_of_a_function() -> None:
    sites = {start(2): NO_CALL, start(2) + 1: NO_CALL}
    one = Program([fold(0, 2), fold(2, 1)], code=ListedCode(sites))
    assert shown(one, pc(0), start(2)) == shown(one, pc(0), start(2) - 1) == [None, "b2m0"]


def test_a_signed_return_address() -> None:
    signed = 0x2A << 48 | ret(1)
    one = program(signs_pointers=True)
    assert shown(one, pc(0), signed) == ["b0m1", "b1m0"]
    assert Resolver(one).resolve((pc(0), signed))[1].address == signed
    assert shown(program(), pc(0), signed) == [None, None]


def test_where_calls_end() -> None:
    # mov %rbp,%rax ; nop ; nop ; nop ; call *%rax ; data16 call +0 ; call *8(%rax) ; ret
    code = bytes.fromhex("4889e8 90 90 90 ffd0 66e800000000 ff5008 c3")
    assert find_call_ends(memoryview(code)) == frozenset({8, 14, 17})
    assert find_call_ends(memoryview(code + b"\x06")) is None  # no instruction in 64-bit code


SHOP = ROOT / "testdata" / "shop"


@pytest.mark.parametrize("linker", ["gold", "lld"])
def test_stacks_less_one_and_mixed_have_the_same_names(linker: str, tmp_path: Path) -> None:
    image = str(tmp_path / "shop")
    assert main(["pass", str(SHOP / f"shop.{linker}"), "-o", image]) == 0
    resolver = open_resolver(image, cache_dir=str(tmp_path))
    random.seed(1)
    names = 0
    for line in (SHOP / f"shop.{linker}.json").read_text().splitlines():
        addresses = [None if word == "?" else int(word, 16) for word in json.loads(line)["stack"].split()]
        raw = [answer.linkage_name for answer in resolver.resolve(addresses)]
        for most in (1, 0):
            less = [each and each - (idx > 0 and random.randrange(most, 2)) for idx, each in enumerate(addresses)]
            assert [answer.linkage_name for answer in resolver.resolve(less)] == raw
        names += sum(name is not None for name in raw)
    assert names > 10
