"""Resolves the stacks of a running process: run-time addresses, modules that come and go, frames made at run time.

The meaning of a stack's addresses is determined anew for each stack (`unwind.process.live.live_process`). As long as no
code comes or goes the resolver stays, with all that it remembers; after that there is another. A function made at run
time has one name; to the resolver it is a frame in an unknown module, which may call any target of a pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from unwind.process.jit.code import JitCode
from unwind.process.live.live_process import LiveModule, LiveProcess
from unwind.process.process import Module, Process
from unwind.program.exports import Exports
from unwind.program.image_exports import ImageExports
from unwind.program.program import Linkage, Program
from unwind.resolve.chain import Step
from unwind.resolve.places import Places
from unwind.resolve.resolver import Addresses, Answers, Exact, Resolver
from unwind.resolve.vptrs import Vptrs
from unwind.samples.recording import Losses
from unwind.symbolize.answer import Answer, made_at_run_time

Load = Callable[[LiveModule, Exports, Linkage], Program]
_JIT_LIMIT = 1 << 16


class LiveResolver:
    """The resolver of a process that goes on running; `load` makes the program of a module."""

    def __init__(self, live: LiveProcess, load: Load) -> None:
        self._live, self._load = live, load
        self._jit: dict[tuple[int, JitCode], Answer] = {}
        self._generation = live.generation
        self._resolver = self._make()

    @property
    def process(self) -> Process:
        """The modules as they were when it was last asked."""
        return self._resolver.process

    @property
    def places(self) -> Places:
        """The meanings of the addresses of its stacks."""
        return self._resolver.places

    @property
    def losses(self) -> Losses:
        """The frames that its stacks may lack."""
        return self._resolver.losses

    @losses.setter
    def losses(self, losses: Losses) -> None:
        self._resolver = self._make(losses)

    def resolve(self, addresses: Sequence[int | None], vptrs: Vptrs = (), exact: Collection[int] = ()) -> Answers:
        """Return an answer for each frame of a stack, innermost first. Raise IcfError when the process has ended."""
        jit = self._jit_at(addresses, exact)
        answers = self._resolver.resolve(addresses, vptrs, exact)
        if not jit:
            return answers
        return tuple(jit.get(idx, answer) for idx, answer in enumerate(answers))

    def steps(self, addresses: Addresses, vptrs: Vptrs = (), exact: Exact = ()) -> list[Step]:
        """Return the steps of the answers for a stack, innermost first."""
        self._jit_at(addresses, exact)
        return self._resolver.steps(addresses, vptrs, exact)

    def _jit_at(self, addresses: Sequence[int | None], exact: Collection[int]) -> dict[int, Answer]:
        """Return the frames that were made at run time, by index; the resolver then has the current modules."""
        known = [(idx, address) for idx, address in enumerate(addresses) if address is not None]
        places = self._live.where_many([address - (idx > 0 and idx not in exact) for idx, address in known])
        found = {
            idx: self._answer(address, place.jit)
            for (idx, address), place in zip(known, places, strict=True)
            if place.jit is not None
        }
        if self._generation != self._live.generation:
            self._resolver = self._make(self.losses)
        return found

    def _make(self, losses: Losses = Losses.NONE) -> Resolver:
        """Return a resolver for the current modules."""
        modules: list[Module] = []
        for each in self._live.modules():
            if not modules or each.start >= modules[-1].end:
                exports = ImageExports(each.image)
                load = partial(self._load, each, exports)
                first, end = each.image.span
                loaded = range(first + each.bias, end + each.bias)
                modules.append(Module(each.path, each.bias, each.start, each.end, load, exports, loaded))
        self._generation = self._live.generation
        return Resolver(Process(modules, lacks_images=self._live.lacks_images), losses=losses)

    def _answer(self, address: int, code: JitCode) -> Answer:
        answer = self._jit.get((address, code))
        if answer is None:
            if len(self._jit) > _JIT_LIMIT:
                self._jit.clear()
            answer = self._jit[address, code] = made_at_run_time(address, code)
        return answer
