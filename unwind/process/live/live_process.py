"""What an address of a running process means: which place of which image, or which function made at run time.

    address ──> mapping now ──> image, bias ──> link-time address        executable, shared objects, vdso
                            └─> perf map, jitdump ──> name               memory that no image is in

A library may be loaded, unloaded or replaced between any two questions, so each question asks `procfs` what is mapped
there now. If that differs from the known mappings, they are read again. A file that is still mapped keeps
its image, and with it all that a caller has derived from it; `generation` changes when some of it has gone.

Text that a program has copied over itself into anonymous memory (for huge pages) counts as its image's while the bytes
are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from icf.elf.image import Image
from icf.elf.types import PF_X, PT_LOAD
from icf.errors import IcfError
from icf.log import warn
from unwind.process.jit.code import JitCode
from unwind.process.live.jit_files import JitFiles
from unwind.process.live.module_file import open_module
from unwind.process.live.procfs import Target
from unwind.process.load_address import bias_of
from unwind.process.maps import VDSO, Mapping, parse_maps

_COMPARED_BYTES = 4096
_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class LiveModule:
    """An image at one place; of a file that is loaded twice there are two."""

    path: str  # as the process sees it
    image: Image
    bias: int  # run-time address = link-time address + bias
    start: int  # of its code, in the process
    end: int


class Place(NamedTuple):
    """The meaning of an address; all fields are empty where no known code is."""

    module: LiveModule | None = None
    vaddr: int = 0  # in the module's image
    jit: JitCode | None = None
    path: str = ""  # what is mapped there: a path, or a word such as [heap]
    is_mapped: bool = True


_NOTHING = Place(is_mapped=False)
_NOWHERE = (0, 0)
_END = 1 << 64


class LiveProcess:
    """A process by its number, or this one. Files stay open until `close`.

    It raises IcfError if there is no such process, if it may not be read, and from any method when it has ended.
    """

    def __init__(self, pid: int | Literal["self"] = "self") -> None:
        self.generation = 0  # changes when code of a file comes or goes
        self._warned: set[str] = set()
        self.target = Target(pid)
        self._images: dict[tuple[int, int], Image | None] = {}  # by file
        self._of_file: dict[tuple[int, int], list[Mapping]] = {}
        self._code: list[Mapping] = []
        try:
            self._jit = JitFiles(self.target, self._warn)
            self._read_maps()
        except BaseException:
            self.target.close()
            raise

    @property
    def pid(self) -> int:
        return self.target.pid

    def close(self) -> None:
        """Close all files."""
        self.target.close()
        self._jit.close()
        for image in self._images.values():
            if image is not None:
                image.close()
        self._images.clear()

    def __enter__(self) -> LiveProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def debug_roots(self) -> tuple[str, ...]:
        """Return the directories of the process's own debug information, if they are not this process's."""
        return self.target.debug_roots()

    def where(self, address: int) -> Place:
        """Return the meaning of the address now."""
        return self.where_many((address,))[0]

    def where_many(self, addresses: Iterable[int]) -> list[Place]:
        """Return the meaning of each address now, with one query for all addresses in one mapping."""
        places = []
        asked: dict[int, tuple[int, int]] = {}  # by start of the mapping: the range in which it is unchanged
        has_read_jit = False
        for address in addresses:
            mapping = self._mapping(address)
            begin = -1 if mapping is None else mapping.start
            start, end = asked.get(begin, _NOWHERE)
            if not start <= address < end and 0 <= address < _END:
                unchanged = self.target.unchanged(address, mapping, self._text)
                if unchanged is None:
                    self._read_maps()
                    asked.clear()
                    mapping = self._mapping(address)
                else:
                    asked[begin] = unchanged
            module = self._module(mapping) if mapping is not None else None
            if mapping is None:
                places.append(_NOTHING)
            elif module is not None:
                places.append(Place(module, address - module.bias, None, mapping.path))
            else:
                if not has_read_jit:
                    has_read_jit = True
                    self._read_jit(address)
                places.append(Place(None, 0, self._jit.find(address), mapping.path))
        return places

    def _read_jit(self, address: int) -> None:
        """Read on in the files of code made at run time; a jitdump may have been mapped meanwhile."""
        self._jit.read()
        if self._jit.find(address) is None and self.target.text("maps") != self._text:
            self._read_maps()
            self._jit.read()

    def jit_at(self, address: int) -> JitCode | None:
        """Return the function made at run time that its files have at the address, whatever is mapped there."""
        self._jit.read()
        return self._jit.find(address)

    def jit_codes(self) -> list[JitCode]:
        """Return the functions made at run time that its files have now."""
        self._jit.read()
        return [code for code in self._jit.codes() if self._jit.find(code.start) == code]

    def mapped_at(self, address: int) -> tuple[Mapping | None, LiveModule | None]:
        """Return the mapping of an address, as of the last look at the mappings, and the module whose file it is of.

        Unlike `where` it finds modules of data, too.
        """
        mapping = self._mapping(address)
        is_of_module = mapping is not None and (mapping.is_of_file or mapping.path == VDSO)
        return mapping, self._module_by(mapping) if mapping is not None and is_of_module else None

    def modules(self) -> list[LiveModule]:
        """Return all that is loaded, as of the last reading of the mappings, by address."""
        found = {self._module(mapping) for mapping in self.mappings}
        return sorted((module for module in found if module is not None), key=lambda module: module.start)

    @property
    def lacks_images(self) -> bool:
        """Whether code of a file is loaded that is in no module."""
        code = (mapping for mapping in self.mappings if mapping.is_executable and mapping.is_of_file)
        return any(self._module(mapping) is None for mapping in code)

    # From mappings to modules

    def _read_maps(self) -> None:
        self._text = self.target.text("maps")
        self.mappings = parse_maps(self._text, f"/proc/{self.pid}/maps")
        if not self.mappings:
            raise IcfError(f"process {self.pid}: has ended, or is one of the kernel's")
        self._starts = [mapping.start for mapping in self.mappings]
        self._module_at: dict[int, LiveModule | None] = {}  # by start of the mapping
        self._of_file.clear()
        for mapping in self.mappings:
            if mapping.is_of_file or mapping.path == VDSO:
                self._of_file.setdefault(mapping.file_id, []).append(mapping)
        for file_id in self._images.keys() - self._of_file.keys():
            image = self._images.pop(file_id)
            if image is not None:
                image.close()
        code = [m._replace(path="") for m in self.mappings if m.is_executable and m.file_id in self._of_file]
        self.generation += code != self._code
        self._code = code
        self._jit.take_note(self.mappings)

    def _mapping(self, address: int) -> Mapping | None:
        idx = bisect_right(self._starts, address) - 1
        return self.mappings[idx] if idx >= 0 and address < self.mappings[idx].end else None

    def _module(self, mapping: Mapping) -> LiveModule | None:
        """Return the module whose code a mapping is."""
        try:
            return self._module_at[mapping.start]
        except KeyError:
            module = self._find_module(mapping) if mapping.is_executable else None
            self._module_at[mapping.start] = module
            return module

    def _find_module(self, mapping: Mapping) -> LiveModule | None:
        if mapping.is_of_file or mapping.path == VDSO:
            return self._module_by(mapping)
        return self._copied_over(mapping) if mapping.inode == 0 else None

    def _module_by(self, mapping: Mapping) -> LiveModule | None:
        """Return the module that a mapping of its file shows, be that code or not."""
        image = self._image(mapping)
        bias = bias_of(mapping, image.segments, self._of_file[mapping.file_id]) if image is not None else None
        code = [s for s in image.segments if s.type == PT_LOAD and s.flags & PF_X] if image is not None else []
        if image is None or bias is None or not code:
            return None
        start, end = min(s.vaddr for s in code) + bias, max(s.vaddr + s.memsz for s in code) + bias
        return LiveModule(mapping.path_once, image, bias, start, end)

    def _copied_over(self, mapping: Mapping) -> LiveModule | None:
        """Return the module whose code lies in this anonymous memory: it is next to it, with the same bytes."""
        idx = bisect_right(self._starts, mapping.start) - 1
        for step in (-1, 1):
            at = idx + step
            while 0 <= at < len(self.mappings) and abs(at - idx) <= _NEIGHBOURS:
                beside, nearer = self.mappings[at], self.mappings[at - step]
                if beside.end != nearer.start and nearer.end != beside.start:
                    break
                if beside.is_of_file:
                    module = self._module_by(beside)
                    if module is not None and module.start < mapping.end and mapping.start < module.end:
                        start = max(mapping.start, module.start)
                        code = bytes(module.image.read(start - module.bias, _COMPARED_BYTES))
                        if code and self.target.read(start, len(code)) == code:
                            return module
                    break
                at += step
        return None

    def _image(self, mapping: Mapping) -> Image | None:
        file_id = mapping.file_id
        if file_id not in self._images:
            try:
                self._images[file_id] = open_module(self.target, mapping, self._of_file[file_id])
            except IcfError as error:
                self._images[file_id] = None
                self._warn(f"{error}: its frames are unknown")
        return self._images[file_id]

    def _warn(self, problem: str) -> None:
        """Report a problem once."""
        if problem not in self._warned:
            self._warned.add(problem)
            warn(problem)
