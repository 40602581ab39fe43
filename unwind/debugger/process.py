"""The process in a debugger: its stacks are resolved, with the objects of frames that stay open without them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from unwind.debugger.images import DebuggedImages, Read
from unwind.debugger.question import AskedStack
from unwind.dumps.dump import SP
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.module_list import LoadedModule
from unwind.resolve.answer import Facts
from unwind.resolve.explain import explain
from unwind.resolve.resolver import Answers
from unwind.resolve.vptrs import Vptrs
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer
from unwind.target.opening import open_listed
from unwind.target.search import SearchPaths
from unwind.target.thread_objects import ThreadObjects
from unwind.walk.frame import WalkedFrame

_REGISTER_COUNT = 33


class DebuggedProcess:
    """Resolves stacks of one list of modules; what it opens is closed with `opened`.

    `is_whole`: the process has no other modules. `read` reads its memory.
    """

    def __init__(
        self, modules: Sequence[LoadedModule], search: SearchPaths, opened: ExitStack, read: Read, *, is_whole: bool
    ) -> None:
        finder = opened.enter_context(ImageFinder((), search.debug_roots))
        found = [finder.find(Sought(each.path, each.build_id)) for each in modules]
        is_whole = is_whole and not any(isinstance(each, str) for each in found)
        self._resolver = open_listed(modules, finder, search, opened, is_whole=is_whole)
        self._images = DebuggedImages(self._resolver.process, modules, finder, read)
        self._objects = ThreadObjects(self._images, search)

    def resolve(self, asked: AskedStack, explained: bool) -> tuple[Answers, Facts | None]:
        """Return the answers for a stack, each part between two gaps by itself, and the facts that explain them."""
        answers: list[Answer] = []
        facts: Facts = []
        start = 0
        for idx, address in enumerate(asked.frames):
            if idx + 1 < len(asked.frames) and not self._images.may_lose_caller(address, _is_exact(asked, idx)):
                continue
            part = _part(asked, start, idx + 1)
            before = len(part.addresses) - (idx + 1 - start)
            found = self._resolver.resolve(part.addresses, part.vptrs, part.exact)
            vptrs = self._vptrs(asked, start, found[before:])
            if vptrs:
                part = replace(part, vptrs=tuple([(place + before, vptr) for place, vptr in vptrs]))
                found = self._resolver.resolve(part.addresses, part.vptrs, part.exact)
            if explained:
                facts += explain(self._resolver, part, found)[before:]
            answers += found[before:]
            start = idx + 1
        return tuple(answers), facts if explained else None

    def _vptrs(self, asked: AskedStack, start: int, answers: Answers) -> Vptrs:
        """Return the vtable pointers of the objects of open frames, of which the debugger has sent the registers."""
        places = range(start, start + len(answers))
        if not any(idx in asked.registers for idx in places):
            return ()
        return self._objects.vptrs([_walked(asked, idx) for idx in places], answers)


def _is_exact(asked: AskedStack, idx: int) -> bool:
    return idx in asked.exact or (idx == 0 and not asked.is_called)


def _part(asked: AskedStack, start: int, end: int) -> Stack:
    """Return the frames `start:end` as a stack; where something unknown was called first, with that inwards of them."""
    before = 0 if _is_exact(asked, start) else 1
    return Stack(
        (None,) * before + asked.frames[start:end],
        exact=tuple([idx - start + before for idx in sorted(asked.exact) if start <= idx < end]),
    )


def _walked(asked: AskedStack, idx: int) -> WalkedFrame:
    """Return a frame with its registers. The stack pointer of its caller is where its own part of the stack ends."""
    known, outer = asked.registers.get(idx, {}), asked.registers.get(idx + 1, {})
    cfa = next((outer[number] for number in SP.values() if number in outer), 0)
    values = [known.get(number) for number in range(_REGISTER_COUNT)]
    return WalkedFrame(asked.frames[idx] or 0, not _is_exact(asked, idx), cfa, values)
