"""Unwinds and resolves the threads of a dump: a core file, a minidump, what was copied of a running process.

with ImageFinder() as images, DumpStacks(dump, SearchPaths(), images) as stacks:
    for walked, resolved in stacks.threads():
        print(walked.thread.tid, [answer.name for answer in resolved.answers])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from icf.elf.types import PF_X, PT_LOAD
from unwind.dumps.dump import DumpedModule, ProcessDump
from unwind.dumps.images import DumpImages
from unwind.dumps.loaded import LoadedImage
from unwind.dumps.walk import DumpWalker, WalkedThread
from unwind.process.image_finder import ImageFinder
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Base, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.target.thread_objects import ThreadObjects
from unwind.target.thread_stacks import ResolvedThread, labels_of
from unwind.walk.frame import WalkedFrame
from unwind.walk.vdso import vdso_functions

_KERNEL_FROM = 1 << 63  # the vsyscall page lies there


class DumpStacks:
    """The stacks of a dump; to be closed."""

    def __init__(
        self,
        dump: ProcessDump,
        search: SearchPaths,
        finder: ImageFinder,
        *,
        with_lines: bool = True,
        use_vptrs: bool = True,
    ) -> None:
        self._dump, self._finder = dump, finder
        self.images = DumpImages(dump, finder)
        self._use_vptrs, self._objects = use_vptrs, ThreadObjects(self.images, search)
        self._walker = DumpWalker(dump, self.images)
        self._resolver = RecordedResolver(search, finder, with_lines=with_lines)
        self._modules = dict(self._recorded_modules())
        self._process = RecordedProcess(dump.pid, list(self._modules.values()), is_whole=self._is_whole())
        self._frames: dict[tuple[int, bool], RecordedFrame] = {}

    def threads(self) -> Iterator[ResolvedThread]:
        """Yield each thread with its frames. Raises `IcfError` for an image that cannot be read."""
        walks = [self._walker.walk(thread) for thread in self._dump.threads]
        for walked in walks:
            if walked.problem:
                self._finder.end_stacks(walked.problem)
        resolved = self._resolver.resolve(map(self._sample, walks))
        if self._use_vptrs:
            resolved = self._resolver.resolve(map(self._with_vptrs, walks, resolved))
        yield from map(ResolvedThread, walks, resolved)
        self._resolver.report()

    def close(self) -> None:
        """Close what the answers rest on."""
        self._resolver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recorded_modules(self) -> Iterator[tuple[LoadedImage | DumpedModule, RecordedModule]]:
        """Yield the modules that the resolver may look for: those that were found, or that a symcache may know."""
        for module in self._dump.modules:
            found = self.images.of(module)
            if not found and module.build_id:
                first, last = module.mappings[0], module.mappings[-1]
                yield (
                    module,
                    RecordedModule(
                        module.path, module.build_id, Base.RUN_TIME, first.start, last.end, first.offset, pe=module.pe
                    ),
                )
            for loaded in found:
                if loaded.image.format == "PE":
                    place = Base.RUN_TIME, loaded.start, loaded.end
                    yield loaded, RecordedModule(module.path, module.build_id, *place, pe=module.pe)
                    continue
                for segment in loaded.image.segments:
                    if segment.type == PT_LOAD and segment.flags & PF_X and segment.filesz:
                        start, end = segment.vaddr + loaded.bias, segment.vaddr + segment.memsz + loaded.bias
                        yield (
                            loaded,
                            RecordedModule(module.path, module.build_id, Base.RUN_TIME, start, end, segment.offset),
                        )
                        break

    def _is_whole(self) -> bool:
        """Return whether all code of the process is in images that were found."""
        places = (start for start, _ in self._dump.code if start < _KERNEL_FROM)
        return bool(self._dump.code) and all(self.images.at(start) is not None for start in places)

    def _sample(self, walked: WalkedThread) -> Sample:
        return Sample(tuple(map(self._frame, walked.frames)), self._process, labels=labels_of(walked, self._dump))

    def _with_vptrs(self, walked: WalkedThread, resolved: Resolved) -> Sample:
        return resolved.sample._replace(vptrs=self._objects.vptrs(walked.frames, resolved.answers))

    def _frame(self, walked: WalkedFrame) -> RecordedFrame:
        key = walked.pc, walked.is_call
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = self._recorded_frame(*key)
        return frame

    def _recorded_frame(self, pc: int, is_call: bool) -> RecordedFrame:
        address = pc - is_call
        loaded, module = self.images.at(address), self.images.module_at(address)
        if loaded is not None and loaded is self.images.vdso:
            name = _function_at(loaded, address)
            return RecordedFrame(pc, None, name, is_exact=not is_call, is_certain=bool(name))
        recorded = self._modules.get(loaded if loaded is not None else module) if module is not None else None
        if module is not None and recorded is None:
            self._finder.lack(self.images.problems.get(module, module.path), pc)
        return RecordedFrame(pc, recorded, is_exact=not is_call)


def _function_at(loaded: LoadedImage, address: int) -> str:
    """Return the function of the vdso at an address; empty if it has no symbol."""
    vaddr = address - loaded.bias
    assert loaded.image.format == "ELF"
    return next((name for start, end, name in vdso_functions(loaded.image) if start <= vaddr < end), "")
