"""Names, inlined functions and lines of a running process, or of this one.

    from unwind import open_process

    with open_process("self") as symbolizer:
        frame = symbolizer.symbolize(address)                   # a C function that this Python calls, say
        frame = symbolizer.symbolize(address, caller=return_address)
        for frame in symbolizer.resolve((pc, *return_addresses)):
            print(frame.module, frame.verdict.value, frame.name, [candidate.name for candidate in frame.candidates])

Addresses are run-time ones. An address alone leaves all functions that a linker has folded; the caller, or better
the whole stack, shows which one it is. Symbols, lines and tables come from symcaches: what was
looked up once in an image is there at once in the next process.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

from icf.errors import IcfError
from icf.log import warn
from unwind.process.live.live_process import LiveModule, LiveProcess, Place
from unwind.process.live.module_file import is_read_back
from unwind.symbolize.answer import Answer, made_at_run_time
from unwind.symbolize.reasons import NO_MODULE, NOTHING_MAPPED
from unwind.symbolize.symbolizer import Symbolizer, no_function

if TYPE_CHECKING:
    from icf.elf.image import Image
    from unwind.program.exports import Exports
    from unwind.program.program import Linkage, Program
    from unwind.resolve.vptrs import Vptrs
    from unwind.symcache.reader.symcache import SymCache
    from unwind.target.live_resolver import LiveResolver

_REMEMBERED = 1 << 18


def open_process(
    pid: int | Literal["self"] = "self",
    *,
    debug_roots: Sequence[str] = (),
    cache_dir: str | os.PathLike[str] | None = None,
    shared_caches: Sequence[str] = (),
) -> LiveSymbolizer:
    """Return the symbolizer of a running process; close it, or use it in a `with` block.

    Args:
        pid: number of the process, or `self`.
        debug_roots: directories to search for debug information, besides /usr/lib/debug.
        cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's.
        shared_caches: directories of symcaches that are only read.

    Returns:
        A symbolizer for run-time addresses of the process.

    Raises:
        IcfError: there is no such process, or it may not be read.
    """
    return LiveSymbolizer(LiveProcess(pid), debug_roots=debug_roots, cache_dir=cache_dir, shared_caches=shared_caches)


class LiveSymbolizer:
    """Looks up addresses and stacks of one running process; `unwind.open_process` makes one.

    Every method raises `IcfError` when the process has ended.
    """

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
        self._generation = live.generation
        self._remembered: dict[int, Answer] = {}  # by address

    def close(self) -> None:
        """Close all files."""
        for symbolizer in self._symbolizers.values():
            symbolizer.close()
        self._opened.close()
        self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def symbolize(self, address: int, caller: int | None = None) -> Answer:
        """Return the answer for an address now.

        Args:
            address: run-time address.
            caller: return address of the frame, if its caller is known; it may exclude candidates.

        Returns:
            The function, or the candidates, there.

        Raises:
            IcfError: the process has ended.
        """
        answer = self.symbolize_many((address,))[0]
        if caller is None or not answer.linkage_names:
            return answer
        return self.resolve((address, caller))[0]

    def symbolize_many(self, addresses: Sequence[int]) -> list[Answer]:
        """Return the answers for many addresses now.

        Args:
            addresses: run-time addresses.

        Returns:
            One answer for each address, in the same order.

        Raises:
            IcfError: the process has ended.
        """
        places = self.live.where_many(addresses)
        self._forget_what_is_gone()
        answers: dict[int, Answer] = {}
        new: dict[LiveModule, list[int]] = {}
        for address, place in zip(addresses, places, strict=True):
            if place.module is None:
                answers[address] = self._outside(address, place)
            elif address in self._remembered:
                answers[address] = self._remembered[address]
            else:
                new.setdefault(place.module, []).append(address)
        for module, group in new.items():
            for address, answer in zip(group, self._look_up(module, group), strict=True):
                answers[address] = answer
                if answer.size_bytes:
                    self._remember(address, answer)
        return [answers[address] for address in addresses]

    def addresses(self, linkage_name: str) -> list[int]:
        """Return where the functions of a name begin now, in all modules.

        Args:
            linkage_name: as in the symbol table.

        Returns:
            Run-time addresses; empty if no module has such a function.

        Raises:
            IcfError: the process has ended.
        """
        found = []
        for module in self.live.modules():
            symbolizer = self._symbolizer(module.image)
            if symbolizer is not None:
                found += [vaddr + module.bias for vaddr in symbolizer.addresses(linkage_name)]
        return found

    def resolve(
        self, addresses: Sequence[int | None], vptrs: Vptrs = (), exact: Collection[int] = ()
    ) -> Sequence[Answer]:
        """Return an answer for each frame of a stack, innermost first.

        Args:
            addresses: the program counter, then return addresses, run-time; None for an unknown one.
            vptrs: as for `unwind.Resolver.resolve`.
            exact: as for `unwind.Resolver.resolve`.

        Returns:
            One answer for each address, in the same order.

        Raises:
            IcfError: the process has ended.
        """
        answers = self.resolver.resolve(tuple(addresses), vptrs, exact)
        self._forget_what_is_gone()
        return answers

    @cached_property
    def resolver(self) -> LiveResolver:
        """The resolver of the process."""
        from unwind.target.live_resolver import LiveResolver

        return LiveResolver(self.live, self._load)

    # The meaning of an address

    def _outside(self, address: int, place: Place) -> Answer:
        """Return the answer for an address in no module."""
        if place.jit is not None:
            return made_at_run_time(address, place.jit, place.path)
        return Answer(address, reason=NO_MODULE if place.is_mapped else NOTHING_MAPPED, module=place.path)

    def _look_up(self, module: LiveModule, addresses: list[int]) -> list[Answer]:
        """Return the answers for addresses in a module, with any caller."""
        symbolizer = self._symbolizer(module.image)
        vaddrs = [address - module.bias for address in addresses]
        found = symbolizer.symbolize_many(vaddrs) if symbolizer is not None else map(no_function, vaddrs)
        return [self._placed(answer, address, module) for answer, address in zip(found, addresses, strict=True)]

    def _placed(self, answer: Answer, address: int, module: LiveModule) -> Answer:
        """Return the answer of a symbolizer, at the run-time address."""
        if not answer.size_bytes:  # node names functions that its own image has without symbols
            code = self.live.jit_at(address)
            if code is not None:
                return made_at_run_time(address, code, module.path)
        else:
            answer.start += module.bias
        answer.address, answer.module = address, module.path
        return answer

    # What is kept

    def _symbolizer(self, image: Image) -> Symbolizer | None:
        symbolizer = self._symbolizers.get(image)
        if symbolizer is None:
            cache = self.cache_of(image)
            if cache is None:
                return None
            symbolizer = self._symbolizers[image] = Symbolizer(cache)
        return symbolizer

    def cache_of(self, image: Image) -> SymCache | None:
        """Return the symcache of an image of the process.

        Args:
            image: of one of the modules of `live`.

        Returns:
            Its symcache; None, reported once, if it has none.
        """
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
        """Return the program of a module."""
        from unwind.program.program import Program
        from unwind.target.search import SearchPaths

        cache = self.cache_of(module.image)
        if cache is None:  # nothing is known of it
            return Program(exports=exports, linkage=linkage)
        search = SearchPaths(None, self._debug_roots)
        return search.program(cache, module.image.path, self._opened, exports, linkage)

    def _remember(self, address: int, answer: Answer) -> None:
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[address] = answer

    def _forget_what_is_gone(self) -> None:
        """Drop all answers when code has come or gone, and the symbolizers of images that have gone."""
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


def _in_memory(image: Image) -> SymCache:
    """Return a symcache that is not kept."""
    from unwind.symcache.format.identity import recognize
    from unwind.symcache.reader.symcache import SymCache
    from unwind.symcache.store.making import make_of

    return SymCache.from_container(make_of(image, recognize(image)).in_memory())
