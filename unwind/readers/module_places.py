"""Where modules lay in the process that a text is of, as far as the text says it.

    #3 0x5581d7f0 in main shop.cpp:17:23                        which module?
    #7 0x55806a60 in _start (/usr/bin/shop+0x62a60)             shop lay at 0x55806a60 - 0x62a60 = 0x557a4000

A frame that a symbolizer has named has a run-time address alone. Another line of the same report, of a function without
debug information, has both, as mostly the outermost one does. What lies above a module's place and below that of the
next module is its own: an address that is past its end means nothing there, and has no answer.

What was learned holds for one process. A banner (`==1234==ERROR:`, `Process 1234 (shop) of user 1000 dumped core.`) of
another process, or a stack after the end of a report (`SUMMARY:`) without a banner, begins anew.

Where no line has both, the names of functions may say where the program lay that the user has named (`Named`).

systemd-coredump has written build ids before its stacks: `Found module shop with build-id: 5d0c83a1`. lldb lists build
ids and places for `image list` (`unwind.process.lldb_images`).

A line that has a file's name beside its address (`shop`main`) is not placed in a file of another name, unless a list
says that the process had the file under that name.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from unwind.process.lldb_images import parse_listed
from unwind.readers.frame_line import FrameLine
from unwind.samples.recording import Base, RecordedModule

_BANNER = re.compile(
    rb"==([0-9]{1,10})==|\(pid=([0-9]{1,10})\)|Process ([0-9]{1,10}) (?:\(.{1,64}\) of user |launched: |stopped\s)"
)
_CORE = re.compile(rb"Core file '.{1,4000}' \(.{1,40}\) was loaded")  # of lldb
_BUILD_ID = re.compile(rb"[Mm]odule (\S.{0,4000}?) with build-id:? ((?:[0-9a-f]{2}){4,64})\s*\Z")
_PAGE_BYTES = 4096
_IMAGE_BYTES = 1 << 32  # an image is not larger: what is further away is of another, which the text does not name
_KEPT = 1 << 12
_ADDRESSES = 1 << 64


class ModulePlace(NamedTuple):
    """A module that is known to lie in the process; `start` and `end` are run-time addresses.

    `module` has the path of its image, which may be a copy of another name than `recorded`, as the process had it.
    """

    start: int
    end: int
    bias: int
    module: RecordedModule
    recorded: str = ""


class Named(Protocol):
    """What finds the place of a program by the names of the functions in a stack."""

    module: RecordedModule

    def bias(self, frames: Iterable[tuple[int | None, str]]) -> int | None:
        """Return what was added to its addresses; None if these addresses and names do not say it."""


SymbolAddresses = Callable[[RecordedModule, str], Sequence[int]]


class ModulePlaces:
    """The places that are given, and those that lines have shown."""

    def __init__(
        self,
        given: Sequence[ModulePlace] = (),
        symbols: SymbolAddresses | None = None,
        named: Named | None = None,
        paths: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._given = sorted(given, key=lambda each: each.start)
        self._symbols, self._named = symbols, named
        self._paths = paths or {}  # of the files with a name, where lines have names alone
        self._biases: dict[RecordedModule, int] = {}
        self._learned: list[tuple[int, int]] = []  # bias, and index in `_modules`
        self._modules: list[RecordedModule] = []
        self._pid = b""
        self._has_ended = False
        self._build_ids: dict[str, bytes] = {}  # of a file name
        self._state: tuple[object, ...] = ()
        self.modules: frozenset[RecordedModule] = frozenset(each.module for each in given)
        self._same: dict[RecordedModule, RecordedModule] = {}

    @property
    def state(self) -> tuple[object, ...]:
        """What was learned so far: equal stacks mean the same while it is the same."""
        return self._state, self._has_ended

    def note(self, line: bytes) -> None:
        """Take note of a line that shows no frame: a report may begin, or end."""
        if b"SUMMARY: " in line:
            self._has_ended = True
        elif b" with build-id" in line:
            found = _BUILD_ID.search(line)
            if found and len(self._build_ids) < _KEPT:
                self._build_ids[_file_name(found[1].decode("utf-8", "surrogateescape"))] = bytes.fromhex(
                    found[2].decode("ascii")
                )
                self._remember()
        elif line.startswith(b"[") and (listed := parse_listed(line)) is not None:
            if listed.idx == 0:
                self._forget()
            self._learn(RecordedModule(listed.path, listed.build_id, Base.LOWEST), listed.start)
        elif line.startswith(b"Core file '") and _CORE.match(line):
            self._pid = b""
            self._forget()
        elif b"==" in line or b"(pid=" in line or b"Process " in line:
            found = _BANNER.search(line)
            if found:
                pid = found[1] or found[2] or found[3]
                if pid != self._pid:
                    self._forget()
                self._pid, self._has_ended = pid, False

    def learn(self, line: FrameLine) -> None:
        """Take note of a frame of which both addresses are known."""
        if self._has_ended:
            self._has_ended, self._pid = False, b""
            self._forget()
        if line.address is None or line.vaddr is None or line.module is None or line.module.path[:1] in ("", "["):
            return
        module = self._identified(line.module)
        bias = line.address - line.vaddr
        if line.symbol:
            found = self._of_symbol(module, line.symbol, line.vaddr, line.address)
            if found is None:
                return
            bias = line.address - found
        self._learn(module, bias)

    def learn_names(self, frames: Sequence[tuple[int | None, str]]) -> None:
        """Take note of a whole stack: run-time addresses, and the names of the functions that were called."""
        if self._named is None or any(address is not None and self._is_given(address) for address, _ in frames):
            return
        bias = self._named.bias(frames)
        if bias is not None:
            self._learn(self._named.module, bias)

    def _is_given(self, address: int) -> bool:
        at = bisect_right(self._given, address, key=lambda each: each.start) - 1
        return at >= 0 and address < self._given[at].end

    def _learn(self, module: RecordedModule, bias: int) -> None:
        if bias % _PAGE_BYTES or not 0 <= bias < _ADDRESSES or self._biases.get(module) == bias:
            return
        self._biases[module] = bias
        self._learned = sorted((bias, idx) for idx, bias in enumerate(self._biases.values()))
        self._modules = list(self._biases)
        self._remember()

    def place(self, line: FrameLine) -> tuple[int | None, RecordedModule | None]:
        """Return the address as linked and the module of a frame; the run-time address where it is in none."""
        if line.vaddr is not None and line.module is not None:
            module = self._identified(line.module)
            if not line.symbol:
                return line.vaddr, self._given_one(module)
            bias = self._biases.get(module)
            if bias is not None and line.address is not None and line.address >= bias:
                return line.address - bias, self._given_one(module)
            found = self._of_symbol(module, line.symbol, line.vaddr, line.address)
            if found is not None:
                return found, self._given_one(module)
            at, place = self.find(line.address) if line.address is not None else (None, None)
            return (at, place) if place is not None else (None, self._given_one(module))
        if line.address is None:
            return None, None
        vaddr, placed = self.find(line.address)
        if placed is not None and line.module is not None:
            names = {_library(path) for path in (placed.path, self._recorded_path(line.address, placed))}
            if _library(line.module.path) not in names:
                return line.address, None
        return vaddr, placed

    def find(self, address: int) -> tuple[int, RecordedModule | None]:
        """Return the address as linked and the module that a run-time address lies in."""
        learned = bisect_right(self._learned, (address, len(self._modules))) - 1
        bias, module_idx = self._learned[learned] if learned >= 0 else (-1, 0)
        given = bisect_right(self._given, address, key=lambda each: each.start) - 1
        if given >= 0 and bias <= self._given[given].start and address < self._given[given].end:
            return address - self._given[given].bias, self._given[given].module
        if learned < 0 or address - bias >= _IMAGE_BYTES:
            return address, None
        return address - bias, self._given_one(self._modules[module_idx])

    def _recorded_path(self, address: int, placed: RecordedModule) -> str:
        """Return the path that the process had for a module which lies at an address, if a list says it; else ""."""
        given = bisect_right(self._given, address, key=lambda each: each.start) - 1
        if given >= 0 and self._given[given].module == placed and self._given[given].recorded:
            return self._given[given].recorded
        of_build = (each.path for each in self._modules if placed.build_id and each.build_id == placed.build_id)
        return next(of_build, "")

    def _identified(self, module: RecordedModule) -> RecordedModule:
        """Return a module with the build id, and the one path, that the text has for its name."""
        paths = self._paths.get(module.path, ())
        if len(paths) == 1:
            module = replace(module, path=next(iter(paths)))
        build_id = self._build_ids.get(_file_name(module.path)) if self._build_ids else None
        return module if module.build_id or build_id is None else replace(module, build_id=build_id)

    def _given_one(self, module: RecordedModule) -> RecordedModule:
        """Return the given module that is the same file, by its path or name, and build id; else the module itself."""
        known = self._same.get(module)
        if known is None:
            names = module.path, os.path.basename(module.path)
            same = [
                each
                for each in self.modules
                if (each.path == module.path or os.path.basename(each.path) in names)
                and (not module.build_id or each.build_id == module.build_id)
            ]
            if len(self._same) >= _KEPT:
                self._same.clear()
            known = self._same[module] = replace(same[0], base=module.base) if len(same) == 1 else module
        return known

    def _of_symbol(self, module: RecordedModule, symbol: str, offset: int, address: int | None) -> int | None:
        """Return the one address as linked that lies so far after a symbol, and so in its page."""
        if self._symbols is None:
            return None
        found = {value + offset for value in self._symbols(module, symbol)}
        if address is not None:
            found = {each for each in found if (address - each) % _PAGE_BYTES == 0}
        return found.pop() if len(found) == 1 else None

    def _remember(self) -> None:
        self._state = *self._biases.items(), *self._build_ids.items()

    def _forget(self) -> None:
        self._biases.clear()
        self._build_ids.clear()
        self._learned, self._modules, self._state = [], [], ()


def _file_name(path: str) -> str:
    return os.path.basename(path)


def _library(path: str) -> str:
    """Return the name of a file without the version after `.so`: links lead from one to the other."""
    return _file_name(path).partition(".so.")[0].removesuffix(".so")
