"""Stacks followed by a kernel: the same steps as one by one, whatever the frames, however many stacks and frames."""

from __future__ import annotations

import random
from typing import Any

import pytest

from icf.model import Verdict
from tests.support.builds import uncompiled
from tests.unwind.support import call, fold, pc, ret, tail
from unwind.process.process import Process
from unwind.program.program import Program
from unwind.resolve import _follow, walk
from unwind.resolve.chain import Chains, Step
from unwind.resolve.places import Marked, Places, Sampled
from unwind.resolve.resolver import Resolver
from unwind.resolve.walk import Walk

BODIES, MEMBERS, SITES = 6, 3, 4
ODD_FRAMES = (None, 0, 2**64 - 1, 2**64, 2**70 + 3, -1, True, Marked(pc(2), is_exact=True))


@pytest.fixture(params=[_follow, uncompiled(_follow)], ids=["installed", "uncompiled"], autouse=True)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(walk, "Turns", request.param.Turns)
    return request.param


def program(choose: random.Random) -> Program:
    """Every member of a body calls some member of some other at each site, or there is no record of that."""
    sites = [(body, member, site) for body in range(BODIES) for member in range(MEMBERS) for site in range(SITES)]
    records = [
        call((body, member), (choose.randrange(BODIES), choose.randrange(MEMBERS)), site)
        for body, member, site in sites
        if choose.random() < 0.8
    ]
    return Program([fold(body, MEMBERS) for body in range(BODIES)], records, [tail((1, 0), (2, 1))])


def a_return_address(choose: random.Random) -> int:
    return ret(choose.randrange(BODIES), choose.randrange(SITES))


def a_frame(choose: random.Random) -> Sampled:
    return choose.choice(ODD_FRAMES) if choose.random() < 0.1 else a_return_address(choose)


def chains_of(program: Program) -> Chains:
    process = Process.of(program)
    return Chains(process, Places(process))


def walk_of(chains: Chains) -> Walk:
    return Walk(chains.root, chains.step, lambda step: not step.plain)


@pytest.mark.parametrize("seed", range(3))
def test_the_steps_of_a_stack_are_those_of_its_frames_one_by_one(seed: int) -> None:
    choose = random.Random(seed)
    chains = chains_of(program(choose))
    followed = walk_of(chains)
    stacks = [tuple(a_frame(choose) for _ in range(choose.randrange(12))) for _ in range(400)]
    for frames in [*stacks, *stacks]:  # the first time steps are new
        expected: list[Step] = []
        for idx, frame in reversed(list(enumerate(frames))):
            expected.insert(0, chains.step(expected[0] if expected else chains.root, frame, idx == 0))
        answers = followed.answers(frames)
        assert followed.steps(frames) == expected
        assert answers == (tuple(s.answer for s in expected) if all(s.plain for s in expected) else None)
    assert 2 * followed.size > walk._TURNS  # its table has grown


def test_a_stack_is_answered_by_its_steps_alone_unless_one_is_held() -> None:
    classes, records = [fold(0, 2), fold(1, 2), fold(2, 1)], [call((1, 0), (0, 1)), call((1, 1), (2, 0))]
    followed = walk_of(chains_of(Program(classes, records)))
    assert followed.answers((pc(1),)) is not None
    assert followed.answers((pc(0), ret(1))) is None
    assert [step.plain for step in followed.steps((pc(0), ret(1)))] == [False, True]


def test_a_number_that_is_no_address_is_unknown_and_keeps_its_place() -> None:
    program = Program([fold(0, 1), fold(1, 1)])
    for odd in (2**64, 2**70 + 3, -1):
        answers = Resolver(program).resolve((pc(0), odd, ret(1)))
        assert [answer.verdict for answer in answers] == [Verdict.UNMERGED, Verdict.UNKNOWN, Verdict.UNMERGED]
        assert answers[1].address == odd


def test_a_stack_of_many_frames_takes_few_steps() -> None:
    deep = Program([fold(0, 2), fold(1, 2)], [call((1, idx), (1, idx)) for idx in (0, 1)] + [call((1, 0), (0, 1))])
    resolver, made = Resolver(deep), []
    steps = resolver.steps((pc(0), *(ret(1),) * 100_000))
    for step in steps:
        if step not in made:
            made.append(step)
    assert len(made) == 3  # outermost, after itself, innermost
    answers = resolver.answers(steps)
    assert len(answers) == 100_001 and answers[0].linkage_name == "b0m1"
    assert {answer.linkage_name for answer in answers[1:]} == {"b1m0"}


def test_steps_beyond_the_limit_are_forgotten_and_answers_stay_the_same() -> None:
    choose = random.Random(1)
    made = program(choose)
    bounded, unbounded = Resolver(made, step_limit=100), Resolver(made)
    roots = {bounded.root}
    for _ in range(60):
        stack = (pc(choose.randrange(BODIES)), *(a_return_address(choose) for _ in range(choose.randrange(12))))
        both = bounded.resolve(stack), unbounded.resolve(stack)
        one, other = ([(each.verdict, each.linkage_names, str(each.reason)) for each in answers] for answers in both)
        assert one == other
        roots.add(bounded.root)
    assert len(roots) > 5  # it began again, also in the middle of stacks
