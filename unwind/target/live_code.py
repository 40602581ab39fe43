"""The code of a running process: functions of its images and functions made at run time, as they are in memory now.

    with LiveCode(open_process(pid)) as code:
        for piece in code.pieces("List<Order>::grow"):          # or 0x7f19fdf1d2e0, or 0x7f19fdf1d2e0..0x7f19fdf1d300
            for instruction, notes in piece.lines: ...

Code of an image is annotated by what its file says of it, and its bytes are taken from memory. Addresses in arguments
are run-time ones; those of a piece's lines are as linked, `piece.bias` less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from icf.debugfiles.opening import open_with_debug
from icf.elf.image import Image
from icf.errors import IcfError
from unwind.disasm.data import ImageData
from unwind.disasm.listing import Listing, Piece
from unwind.disasm.memory import MemoryListing
from unwind.disasm.names import ElfNames
from unwind.disasm.notes import Data, Function, Meaning, Place
from unwind.disasm.select import Region, Selection
from unwind.process.jit.code import JitCode
from unwind.process.live.live_process import LiveModule, LiveProcess
from unwind.process.live.module_file import is_read_back
from unwind.program.facts import ImageFacts
from unwind.program.from_image import load_program
from unwind.target.live_symbolizer import LiveSymbolizer

_RANGE = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})\.\.(?:0x)?([0-9a-fA-F]{1,16})")
_ADDRESS = re.compile(r"0x([0-9a-fA-F]{1,16})")
_LARGEST_BYTES = 1 << 24  # of a range that no image has


class LiveCode:
    """Finds and annotates the code of one process; every method raises `IcfError` when it has ended."""

    def __init__(self, symbolizer: LiveSymbolizer) -> None:
        self._symbolizer, self._live = symbolizer, symbolizer.live
        self._opened = ExitStack()
        self._views: dict[Image, _View] = {}
        self._names = LiveNames(symbolizer)

    def close(self) -> None:
        """Close the files opened besides the process."""
        self._opened.close()

    def __enter__(self) -> LiveCode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pieces(self, argument: str) -> Iterator[Piece]:
        """Yield the code that an argument means: a function's name, an address, a range; `IcfError` if none."""
        given = _RANGE.fullmatch(argument)
        if given:
            return self._between(argument, int(given[1], 16), int(given[2], 16))
        address = _ADDRESS.fullmatch(argument)
        return self._around(int(address[1], 16)) if address else self._named(argument)

    def _around(self, address: int) -> Iterator[Piece]:
        place = self._live.where(address)
        code = self._live.jit_at(address) if place.module is None else None
        if place.module is not None:
            return self._of_module(place.module, hex(place.vaddr))
        if code is not None:
            return iter([self._made(code)])
        if not place.is_mapped:
            raise IcfError(f"process {self._live.pid}: nothing is mapped at {address:#x}")
        raise IcfError(
            f"process {self._live.pid}: {address:#x} is in {place.path or 'memory'}, in no function that is known",
            hint=f"a range shows the code there: {address:#x}..{address + 64:#x}",
        )

    def _between(self, argument: str, start: int, end: int) -> Iterator[Piece]:
        if start >= end:
            raise IcfError(f"{argument}: the range ends where it starts, or before")
        module = self._live.where(start).module
        if module is not None:
            return self._of_module(module, f"{start - module.bias:#x}..{end - module.bias:#x}")
        if end - start > _LARGEST_BYTES:
            raise IcfError(f"{argument}: has {end - start} bytes, must have {_LARGEST_BYTES} or fewer")
        if not self._live.target.read(start, 1):
            raise IcfError(f"process {self._live.pid}: no memory can be read at {start:#x}")
        return iter([self._memory(Region(start, end))])

    def _named(self, name: str) -> Iterator[Piece]:
        found = [self._made(code) for code in self._live.jit_codes() if code.name == name]
        problem = None
        for module in self._live.modules():
            try:
                found += self._of_module(module, name)
            except IcfError as error:
                problem = problem or error.hint
        if not found:
            raise IcfError(f"process {self._live.pid}: no function {name!r}", hint=problem)
        return iter(found)

    def _of_module(self, module: LiveModule, argument: str) -> Iterator[Piece]:
        view = self._view(module)
        for region in view.selection.regions(argument):
            yield Piece(region, view.listing(module).lines(region), module.bias, module.image.machine, module.image)

    def _made(self, code: JitCode) -> Piece:
        return self._memory(Region(code.start, code.start + code.size_bytes, made=code.name))

    def _memory(self, region: Region) -> Piece:
        machine = self._live.modules()[0].image.machine
        listing = MemoryListing(machine, self._live.target.read, self._names)
        return Piece(region, listing.lines(region), 0, machine)

    def _view(self, module: LiveModule) -> _View:
        view = self._views.get(module.image)
        if view is None:
            image = module.image
            if not is_read_back(image):
                image = self._opened.enter_context(open_with_debug(image.path, None, self._live.debug_roots()))
            view = self._views[module.image] = _View(image, self._live)
        return view


class _View:
    """The facts about the code of one image."""

    def __init__(self, image: Image, live: LiveProcess) -> None:
        self._image, self._live = image, live
        self._program, self._facts = load_program(image), ImageFacts(image)
        self.selection = Selection(image.path, ElfNames(image), self._program, self._facts)

    def listing(self, module: LiveModule) -> Listing:
        """Return the listing that annotates the code of one of the modules that have this image."""

        def read(vaddr: int, size_bytes: int) -> memoryview:
            return memoryview(self._live.target.read(vaddr + module.bias, size_bytes))

        return Listing(self._image, self._program, self._facts, read)


class LiveNames:
    """What lies where in a process (`unwind.disasm.memory.Names`)."""

    def __init__(self, symbolizer: LiveSymbolizer) -> None:
        self._symbolizer, self._live = symbolizer, symbolizer.live
        self._data: dict[Image, ImageData] = {}

    def at(self, address: int) -> Place | None:
        """Return the function or data at a run-time address; None: it is not known."""
        found = self._symbolizer.symbolize(address)
        if found.size_bytes:
            names = tuple(each.linkage_name for each in found.candidates) or (found.linkage_name or "",)
            meaning = Meaning(names, may_be_another=not found.is_complete)
            return Function(address, address - found.start, len(names), (meaning,))
        mapping, module = self._live.mapped_at(address)
        if mapping is None:
            return None
        if module is None:
            is_word = mapping.path.startswith("[")  # [heap], [stack]
            return Data(address, (), address - mapping.start, mapping.path) if is_word else None
        data = self._data.get(module.image)
        if data is None:
            data = self._data[module.image] = ImageData(module.image)
        place = data.at(address - module.bias, with_text=True)
        return None if place is None else replace(place, vaddr=address)
