"""Resolve the frames of a stack: the exact set of members that each can be.

A stack is a chain: each frame restricts the one that it called, and is restricted by it. For a chain one
sweep in each direction gives, for every frame, exactly the members that it takes in at least one
assignment of the whole stack in which every pair is allowed:

    outermost -> innermost    what some possible caller allows
    innermost -> outermost    without the callers that allow nothing of what is left below them

so evidence flows both ways. Where the first sweep comes to a pair that allows nothing, its two frames are
`contradicted`, the pair is cut, and both sides are resolved without it.

A frame whose body has one candidate is settled whatever the stack says, and cuts the chain too: a run of
merged frames depends on the return address below it and on nothing further out. Runs repeat far more
often than stacks do, so the answers to both are kept, up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable

from icf.model import Evidence, Verdict
from unwind.answer import NO_FUNCTION, OUTSIDE, FrameAnswer
from unwind.program import Body, Program, SiteKind
from unwind.relations import Relation, Relations

Addresses = tuple[int | None, ...]
Answers = tuple[FrameAnswer, ...]
_OUTSIDE = FrameAnswer(None, Verdict.UNKNOWN, reason=OUTSIDE)


class _Settled(dict[int | None, FrameAnswer | None]):
    """Address to the answer that needs no stack; None for a merged frame."""

    def __init__(self, settle: Callable[[int], FrameAnswer | None]) -> None:
        super().__init__()
        self._settle = settle

    def __missing__(self, address: int | None) -> FrameAnswer | None:
        answer = self[address] = _OUTSIDE if address is None else self._settle(address)
        return answer


class Resolver:
    """Answers for the stacks of one program.

    `kept_addresses` bounds what is remembered: the addresses in the keys of runs and stacks.
    """

    def __init__(self, program: Program, kept_addresses: int = 1 << 22) -> None:
        self._kept_limit = kept_addresses
        self._program = program
        self._relations = Relations(program)
        self._called = _Settled(lambda address: self._settle(address, is_pc=False))
        self._sampled = _Settled(lambda address: self._settle(address, is_pc=True))
        self._interned: dict[tuple[object, ...], FrameAnswer] = {}
        self._runs: dict[Addresses, Answers] = {}
        self._inner_runs: dict[Addresses, Answers] = {}  # those whose first address is a program counter
        self._stacks: dict[Addresses, Answers] = {}
        self._kept_addresses = 0

    def resolve(self, addresses: Addresses) -> Answers:
        """An answer for each frame of a stack, innermost first."""
        answers = self._stacks.get(addresses)
        if answers is None:
            answers = self._resolve(addresses)
            self._remember(self._stacks, addresses, answers)
        return answers

    def _resolve(self, addresses: Addresses) -> Answers:
        if not addresses:
            return ()
        frames = [self._sampled[addresses[0]], *map(self._called.__getitem__, addresses[1:])]
        idx = _next_merged(frames, 0)
        while idx >= 0:
            end = idx + 1
            while end < len(frames) and frames[end] is None:
                end += 1
            runs = self._runs if idx else self._inner_runs
            run = addresses[idx : end + 1]
            answers = runs.get(run)
            if answers is None:
                answers = self._resolve_run(run, end - idx, starts_at_pc=not idx)
                self._remember(runs, run, answers)
            frames[idx:end] = answers
            idx = _next_merged(frames, end)
        return tuple(frame for frame in frames if frame is not None)

    def _resolve_run(self, run: Addresses, count: int, starts_at_pc: bool) -> Answers:
        """The answers for the `count` merged frames of `run`; one more address is that of their caller."""
        addresses = [address for address in run if address is not None]
        looked_up = [self._look_up(address, starts_at_pc and not idx) for idx, address in enumerate(addresses)]
        bodies = [body for _, body in looked_up if body is not None]
        relations = [
            self._relations.between(addresses[idx + 1], bodies[idx + 1], bodies[idx]) for idx in range(len(bodies) - 1)
        ]

        possible = [body.domain for body in bodies]
        broken = set()  # pairs, by the index of their callee
        for idx in reversed(range(len(relations))):
            callees = relations[idx].forward(possible[idx + 1])
            if callees:
                possible[idx] = callees
            else:
                broken.add(idx)
        left = list(possible)
        for idx, relation in enumerate(relations[: count - 1]):
            if idx not in broken:
                left[idx + 1] = relation.backward(possible[idx + 1], left[idx])

        answers = []
        for idx in range(count):
            vaddr = looked_up[idx][0]
            pair = idx if idx in broken else idx - 1 if idx - 1 in broken else None
            if pair is not None:
                reason = f"nothing possible at {addresses[pair + 1]:#x} calls a function at {addresses[pair]:#x}"
                answers.append(self._answer(addresses[idx], vaddr, bodies[idx], 0, None, reason))
                continue
            outer = relations[idx] if idx < len(relations) else None
            callers = left[idx + 1] if outer else 0
            by_caller = left[idx] == possible[idx]
            if by_caller:
                evidence = outer.evidence(callers, left[idx]) if outer else None
            else:
                evidence = relations[idx - 1].evidence(left[idx], left[idx - 1])
            reason = _why_open(outer, callers)
            answers.append(self._answer(addresses[idx], vaddr, bodies[idx], left[idx], evidence, reason))
        return tuple(answers)

    def _answer(
        self, address: int, vaddr: int, body: Body, left: int, evidence: Evidence | None, reason: str
    ) -> FrameAnswer:
        """The answer for a merged frame with the candidates `left`; none left: contradicted."""
        key = (address, vaddr, body.first_node, left, evidence, reason)
        answer = self._interned.get(key)
        if answer is not None:
            return answer
        listed = left & body.listed
        if not left:
            verdict, listed = Verdict.CONTRADICTED, body.listed
        elif left == listed and not left & (left - 1):
            verdict = Verdict.UNIQUE
        else:
            verdict = Verdict.AMBIGUOUS if listed == body.listed else Verdict.NARROWED
        limited = verdict in (Verdict.UNIQUE, Verdict.NARROWED)
        word = evidence.name.lower() if limited and evidence is not None else ""
        if verdict is Verdict.UNIQUE:
            idx = left.bit_length() - 1
            answer = FrameAnswer(address, verdict, body.members[idx].name, (), word, "", vaddr, body, idx)
        else:
            names = (member.name for idx, member in enumerate(body.members) if listed >> idx & 1)
            candidates = tuple(dict.fromkeys(names))  # functions of one name, from different files, are possible
            if not listed or (left != listed and len(candidates) == 1):
                reason = f"the tables may not list every function at {body.start:#x}"
            answer = FrameAnswer(address, verdict, None, candidates, word, reason, vaddr, body)
        self._interned[key] = answer
        return answer

    def _settle(self, address: int, is_pc: bool) -> FrameAnswer | None:
        vaddr, body = self._look_up(address, is_pc)
        if body is None:
            return FrameAnswer(address, Verdict.UNKNOWN, reason=NO_FUNCTION, vaddr=vaddr)
        if not body.settled:
            return None
        return FrameAnswer(address, Verdict.UNMERGED, body.members[0].name, vaddr=vaddr, body=body, member_idx=0)

    def _look_up(self, address: int, is_pc: bool) -> tuple[int, Body | None]:
        """Where a frame is, and its body: a return address is looked up inside of the call before it."""
        if is_pc or not address:
            return address, self._program.body_at(address)
        body = self._program.body_at(address - 1)
        if body is None or address >= body.end:
            # no return address, but a function that a signal interrupted at its first instruction?
            next_body = self._program.body_at(address)
            if next_body is not None and next_body.start == address:
                if self._program.code.call_site(address).kind is SiteKind.NONE:
                    return address, next_body
        return address - 1, body

    def _remember(self, answers: dict[Addresses, Answers], key: Addresses, value: Answers) -> None:
        self._kept_addresses += len(key)
        if self._kept_addresses > self._kept_limit:
            for kept in (self._runs, self._inner_runs, self._stacks):
                kept.clear()
            for cache in (self._called, self._sampled, self._interned):
                cache.clear()
            self._relations.forget()
            self._kept_addresses = len(key)
        answers[key] = value


def _next_merged(frames: list[FrameAnswer | None], start: int) -> int:
    try:
        return frames.index(None, start)
    except ValueError:
        return -1


def _why_open(outer: Relation | None, callers: int) -> str:
    """Why the caller does not settle a frame: the first cause there is."""
    if outer is None:
        return "its caller is not known"
    if outer.why and any(group.evidence is None and group.callers & callers for group in outer.groups):
        return outer.why
    return "its caller is one of several"
