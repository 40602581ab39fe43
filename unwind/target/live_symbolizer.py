"""Names, inlined functions and lines of a running process, or of this one.

    from unwind import open_process

    with open_process("self") as symbolizer:
        frame = symbolizer.symbolize(address)                   # a C function that this Python calls, say
        frame = symbolizer.symbolize(address, caller=return_address)
        for frame in symbolizer.resolve((pc, *return_addresses)):
            print(frame.module, frame.verdict.value, frame.name, [candidate.name for candidate in frame.candidates])

Addresses are run-time ones. Of functions that a linker has folded an address alone leaves all; the caller, or better
the whole stack, tells which one it is. So answers are remembered by address, and of a shared body by address and
by what its callers have left of it. Symbols, lines and tables come from symcaches: what was
looked up once in an image is there at once in the next process.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

from icf.demangle import demangle
from icf.errors import IcfError
from icf.log import warn
from icf.model import Verdict
from unwind.process.jit.code import JitCode
from unwind.process.live.live_process import LiveModule, LiveProcess, Place
from unwind.process.live.module_file import is_read_back
from unwind.resolve.reasons import NO_FUNCTION, NO_MODULE, NOTHING_MAPPED, Reason
from unwind.symbolize.symbolizer import Candidate, Frames, Symbolized, Symbolizer, agreed
from unwind.symcache.reader.found import Frame

if TYPE_CHECKING:
    from icf.elf.image import Image
    from unwind.program.exports import Exports
    from unwind.program.program import Linkage, Program
    from unwind.resolve.answer import FrameAnswer
    from unwind.resolve.vptrs import Vptrs
    from unwind.symcache.reader.symcache import SymCache
    from unwind.target.live_resolver import LiveResolver

_Key: TypeAlias = "int | tuple[int, int] | FrameAnswer"  # an address; that and its caller's; a frame of a stack
_REMEMBERED = 1 << 18


class LiveFrame(NamedTuple):
    """What is known of an address of a process, or of a frame of its stack."""

    address: int | None  # as it was given; None: a frame that is not known, or that a tail call has left out
    module: str = ""  # path as the process sees it, or what else is mapped there
    vaddr: int = 0  # in the module, as linked; of a return address it is in the call
    start: int = 0  # of the body, in the process
    size_bytes: int = 0
    frames: Frames = ()  # innermost first, as `unwind.symbolize.symbolizer` has them
    candidates: tuple[Candidate, ...] = ()  # still possible, if there are several
    verdict: Verdict = Verdict.UNKNOWN
    evidence: str = ""
    reason: Reason | None = None  # what keeps the answer from being one name
    is_complete: bool = True  # else there may be more functions than these
    missing: tuple[LiveFrame, ...] = ()  # frames between this one and its caller that tail calls left out

    @property
    def linkage_name(self) -> str:
        """Of the function that has the machine code; "" if it is not certain."""
        return self.frames[-1].linkage_name if self.frames else ""

    @property
    def name(self) -> str:
        """The same, demangled."""
        return demangle(self.linkage_name)


def open_process(
    pid: int | Literal["self"] = "self",
    *,
    debug_roots: Sequence[str] = (),
    cache_dir: str | os.PathLike[str] | None = None,
    shared_caches: Sequence[str] = (),
) -> LiveSymbolizer:
    """The symbolizer of a process; to be closed.

    `debug_roots` and `cache_dir` are as `open_or_build` has them. Raises `IcfError` if there is
    no such process, or it may not be read.
    """
    return LiveSymbolizer(LiveProcess(pid), debug_roots=debug_roots, cache_dir=cache_dir, shared_caches=shared_caches)


class LiveSymbolizer:
    """Looks up addresses and stacks of one process. Every method raises `IcfError` when it has ended."""

    def __init__(
        self,
        live: LiveProcess,
        *,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
        shared_caches: Sequence[str] = (),
    ) -> None:
        self.live = live
        self._debug_roots, self._cache_dir = (*debug_roots, *live.debug_roots()), cache_dir
        self._shared_caches = tuple(shared_caches)
        self._opened = ExitStack()
        self._caches: dict[Image, SymCache | None] = {}
        self._symbolizers: dict[Image, Symbolizer] = {}
        self._module_of: dict[Program, LiveModule] = {}
        self._generation = live.generation
        self._remembered: dict[_Key, LiveFrame] = {}

    def close(self) -> None:
        """Close all that was opened."""
        for symbolizer in self._symbolizers.values():
            symbolizer.close()
        self._opened.close()
        self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def symbolize(self, address: int, caller: int | None = None) -> LiveFrame:
        """What is at an address now. `caller`: the return address of the frame, if its caller is known."""
        frame = self.symbolize_many((address,))[0]
        if caller is None or not frame.candidates:
            return frame
        self.live.where(caller)
        self._forget_what_is_gone()
        key = (address, caller)
        return self._remembered.get(key) or self._remember(key, self.resolve((address, caller))[0])

    def symbolize_many(self, addresses: Sequence[int]) -> list[LiveFrame]:
        """What is at each of many addresses now."""
        places = self.live.where_many(addresses)
        self._forget_what_is_gone()
        answers: dict[int, LiveFrame] = {}
        new: dict[LiveModule, list[int]] = {}
        for address, place in zip(addresses, places, strict=True):
            if place.module is None:
                answers[address] = self._outside(address, place)
            elif address in self._remembered:
                answers[address] = self._remembered[address]
            else:
                new.setdefault(place.module, []).append(address)
        for module, group in new.items():
            for address, found in zip(group, self._look_up(module, [a - module.bias for a in group]), strict=True):
                answers[address] = frame = self._frame(address, module, found)
                if found.size_bytes:
                    self._remember(address, frame)
        return [answers[address] for address in addresses]

    def addresses(self, linkage_name: str) -> list[int]:
        """Where the functions of that name begin now, in all modules."""
        found = []
        for module in self.live.modules():
            symbolizer = self._symbolizer(module.image)
            if symbolizer is not None:
                found += [vaddr + module.bias for vaddr in symbolizer.addresses(linkage_name)]
        return found

    def resolve(
        self, addresses: Sequence[int | None], vptrs: Vptrs = (), exact: Collection[int] = ()
    ) -> list[LiveFrame]:
        """The frames of a stack: a program counter and return addresses, innermost first; None for one not known.

        `vptrs` and `exact` are those of `unwind.resolve.resolver.Resolver.resolve`.
        """
        answers = self.resolver.resolve(tuple(addresses), vptrs, exact)
        self._forget_what_is_gone()
        return [self._resolved(answer) for answer in answers]

    @cached_property
    def resolver(self) -> LiveResolver:
        """What `resolve` asks."""
        from unwind.target.live_resolver import LiveResolver

        return LiveResolver(self.live, self._load)

    def frames_of(self, answer: FrameAnswer) -> Frames:
        """What is inlined in a frame that `resolver` answered, the function itself last; none if that is not known."""
        self._forget_what_is_gone()
        return self._resolved(answer).frames if answer.linkage_name or answer.source_name else ()

    # What an address means

    def _outside(self, address: int, place: Place) -> LiveFrame:
        """An address in no module."""
        if place.jit is not None:
            return _made_at_run_time(address, place.path, place.jit)
        return LiveFrame(address, place.path, reason=NO_MODULE if place.is_mapped else NOTHING_MAPPED)

    def _look_up(self, module: LiveModule, vaddrs: list[int]) -> list[Symbolized]:
        symbolizer = self._symbolizer(module.image)
        return [Symbolized(vaddr) for vaddr in vaddrs] if symbolizer is None else symbolizer.symbolize_many(vaddrs)

    def _frame(self, address: int, module: LiveModule, found: Symbolized) -> LiveFrame:
        """An address in a module, whoever called it."""
        if not found.size_bytes:  # node names functions that its own image has without symbols
            code = self.live.jit_at(found.vaddr + module.bias)
            if code is not None:
                return _made_at_run_time(address, module.path, code)
        return LiveFrame(
            address,
            module.path,
            found.vaddr,
            found.start + module.bias if found.size_bytes else 0,
            found.size_bytes,
            found.frames,
            found.candidates,
            found.verdict,
            reason=None if found.size_bytes else NO_FUNCTION,
            is_complete=found.is_complete,
        )

    def _resolved(self, answer: FrameAnswer) -> LiveFrame:
        """What the resolver says of a frame, with inlined functions and lines."""
        code = self.resolver.jit_of(answer)
        if answer.address is None and answer.body is None:
            return LiveFrame(None, reason=answer.reason)
        if code is not None:
            return _made_at_run_time(answer.address, "", code)
        return self._remembered.get(answer) or self._remember(answer, self._narrowed(answer))

    def _narrowed(self, answer: FrameAnswer) -> LiveFrame:
        module = self._module_of.get(answer.body.program) if answer.body is not None else None
        missing = tuple(self._resolved(each) for each in answer.missing)
        if module is None:
            return LiveFrame(answer.address, answer.module, answer.vaddr, reason=answer.reason)
        if answer.tail_call and answer.address is None:  # by one of several jumps, so there is no line
            own = Frame(answer.linkage_name or answer.source_name or "", "", 0, 0, False)
            return LiveFrame(None, module.path, frames=(own,), verdict=answer.verdict, evidence=answer.evidence)
        frame = self._frame(answer.address or 0, module, self._look_up(module, [answer.vaddr])[0])
        left = frame.candidates
        if answer.verdict is Verdict.UNIQUE:
            name = answer.linkage_name or answer.source_name or ""
            left = tuple(each for each in left if each.linkage_name == name)
            frames = left[0].frames if len(left) == 1 else (Frame(name, "", 0, 0, False),)
            frame = frame._replace(frames=frames, candidates=(), is_complete=True)
        elif answer.verdict is Verdict.NARROWED:
            left = tuple(each for each in left if each.linkage_name in answer.candidates)
            frame = frame._replace(frames=agreed([each.frames for each in left]), candidates=left)
        return frame._replace(verdict=answer.verdict, evidence=answer.evidence, reason=answer.reason, missing=missing)

    # What is kept

    def _symbolizer(self, image: Image) -> Symbolizer | None:
        symbolizer = self._symbolizers.get(image)
        if symbolizer is None:
            cache = self._cache(image)
            if cache is None:
                return None
            symbolizer = self._symbolizers[image] = Symbolizer(cache)
        return symbolizer

    def _cache(self, image: Image) -> SymCache | None:
        """The symcache of an image; None, said once, if it has none."""
        if image not in self._caches:
            try:
                self._caches[image] = self._open_cache(image)
            except IcfError as error:
                self._caches[image] = None
                warn(f"{error}: its frames are unknown")
        return self._caches[image]

    def _open_cache(self, image: Image) -> SymCache:
        if is_read_back(image):
            return _in_memory(image)
        from unwind.symcache.store.store import open_or_build

        return open_or_build(
            image.path, debug_roots=self._debug_roots, cache_dir=self._cache_dir, shared_caches=self._shared_caches
        )

    def _load(self, module: LiveModule, exports: Exports, linkage: Linkage) -> Program:
        """The program of a module."""
        from unwind.program.program import Program
        from unwind.target.search import SearchPaths

        cache = self._cache(module.image)
        if cache is None:  # nothing is known of it
            program = Program(exports=exports, linkage=linkage)
        else:
            search = SearchPaths(None, self._debug_roots)
            program = search.program(cache, module.image.path, self._opened, exports, linkage)
        self._module_of[program] = module
        return program

    def _remember(self, key: _Key, frame: LiveFrame) -> LiveFrame:
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = frame
        return frame

    def _forget_what_is_gone(self) -> None:
        """Forget all answers when code has come or gone, and what belongs to images that have."""
        if self._generation == self.live.generation:
            return
        self._generation = self.live.generation
        self._remembered.clear()
        images = {module.image for module in self.live.modules()}
        for image in self._caches.keys() - images:
            del self._caches[image]
            symbolizer = self._symbolizers.pop(image, None)
            if symbolizer is not None:
                symbolizer.close()
        self._module_of = {program: each for program, each in self._module_of.items() if each.image in images}


def _made_at_run_time(address: int | None, path: str, code: JitCode) -> LiveFrame:
    own = Frame(code.name, code.path, code.line, code.column, False)
    return LiveFrame(address, path, address or 0, code.start, code.size_bytes, (own,), verdict=Verdict.UNMERGED)


def _in_memory(image: Image) -> SymCache:
    """A symcache that is not kept."""
    from unwind.symcache.format.identity import recognize
    from unwind.symcache.reader.symcache import SymCache
    from unwind.symcache.store.making import make_of

    return SymCache.from_container(make_of(image, recognize(image)).in_memory())
