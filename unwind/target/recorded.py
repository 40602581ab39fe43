"""Resolves the samples of a recording, of any number of processes.

Where frames may be missing (`Losses`), a stack is cut: what stands on one side of a gap says nothing about the other. A
walk along frame pointers leaves out the caller of each function that has no frame at its address.

Frames are moved to one address space (`unwind.target.recorded_images`), resolved there, and returned with the
addresses that the recording has. Which functions a call can reach depends on the modules of its process: processes
with the same images share a resolver, others do not.

A frame of which the recording has only a name is unknown to the resolver, which then does not know the caller of the
frame inwards of it. If that name is certain, as of a kernel function or one made at run time, it is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from copy import copy
from functools import partial
from os.path import expanduser
from typing import Self

from icf.log import note
from icf.model import RuntimeAddr, Verdict
from unwind.process.process import Module, Process
from unwind.program.program import Body, Linkage, Program
from unwind.resolve.bases import warn_of_bases
from unwind.resolve.reasons import LOST_CALLER
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.symbolize.answer import Answer, read_frames
from unwind.symbolize.reasons import NO_MODULE, ReasonCode
from unwind.target.recorded_images import Located, PlacedImage, RecordedImages
from unwind.target.search import SearchPaths

_KEPT_STACKS = 1 << 18
_KEPT_ANSWERS = 1 << 20
_HINT = "the recording is of another build, or its addresses are not what its format says"

_Answers = tuple[Answer, ...]


class RecordedResolver:
    """Resolves samples; to be closed."""

    def __init__(
        self,
        search: SearchPaths,
        module_roots: Sequence[str] = (),
        image: str | None = None,
        *,
        losses: Losses = Losses.NONE,
        with_lines: bool = True,
    ) -> None:
        self._search, self._with_lines, self._losses = search, with_lines, losses
        self._opened = ExitStack()
        roots = (*module_roots, *search.debug_roots, expanduser("~/.debug"))
        self._images = RecordedImages(self._opened, roots, search.cache_dir, image)
        self._resolvers: dict[tuple[frozenset[PlacedImage], bool], Resolver] = {}
        self._of_process: dict[RecordedProcess, tuple[int, _OfProcess]] = {}  # with the number of its modules
        self._stacks: dict[_Key, StackAnswers] = {}
        self._lost_callers: set[RecordedFrame] = set()  # frames of merged functions that stay open for that

    def resolve(self, samples: Iterable[Sample]) -> list[Resolved]:
        """Return the samples with an answer for each frame; some thousands at a time are looked up together.

        Raises `IcfError` for an image that cannot be read.
        """
        asked = [(sample, self._process(sample.process)) for sample in samples]
        new: dict[_Key, tuple[Sample, _OfProcess, _Answers]] = {}
        keys = [(process, sample.frames, sample.is_called, sample.vptrs) for sample, process in asked]
        if len(self._stacks) >= _KEPT_STACKS:
            self._stacks.clear()
        for key, (sample, process) in zip(keys, asked, strict=True):
            if key not in self._stacks and key not in new:
                new[key] = sample, process, self._resolve(sample, process)
        if self._with_lines:
            read_frames(answers for _, _, answers in new.values())
        for key, (sample, process, answers) in new.items():
            self._stacks[key] = self._as_recorded(sample.frames, answers, process)
        return [Resolved(sample, self._stacks[key]) for key, (sample, _) in zip(keys, asked, strict=True)]

    def body_of(self, frame: RecordedFrame, answer: Answer, process: RecordedProcess) -> Body | None:
        """Return the body that the answer for a frame of a process is about; None if it is about none."""
        address = self._address(frame, self._process(process))
        if address is None or answer.verdict is Verdict.UNKNOWN:
            return None
        modules = self._process(process).resolver.process
        module = modules.module_at(RuntimeAddr(address)) or modules.module_at(RuntimeAddr(address - 1))
        return None if module is None else modules.program(module).body_at(answer.vaddr)

    def exported(self, module: RecordedModule, symbol: str) -> list[int]:
        """Return where, as linked, a module has a symbol that it exports; several if there are several versions."""
        return self._images.exported(module, symbol)

    def report(self) -> None:
        """Report modules whose addresses do not fit their code, and callers that may be missing."""
        if self._lost_callers:
            note(
                f"the stacks may lack the callers of {len(self._lost_callers):,} distinct frames in merged functions,"
                " which stay open",
                "if the unwinder has read .eh_frame, and not walked along frame pointers, say --lossy none",
            )
        for resolver in self._resolvers.values():
            warn_of_bases(resolver.places, "", _HINT)

    def close(self) -> None:
        """Close the images."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resolve(self, sample: Sample, process: _OfProcess) -> _Answers:
        frames = sample.frames
        try:
            addresses = [process.addresses[frame] for frame in frames]
        except KeyError:  # a frame that was not met before
            addresses = [self._address(frame, process) for frame in frames]
        vptrs = tuple([(idx, process.moved(vptr)) for idx, vptr in sample.vptrs])
        if self._losses is Losses.NONE:
            return _resolve_part(process.resolver, sample, addresses, vptrs, 0, len(frames))
        answers: list[Answer] = []
        start = 0
        for idx, (frame, address) in enumerate(zip(frames, addresses, strict=True)):
            is_pc = frame.is_exact or (idx == 0 and not sample.is_called)
            if idx + 1 == len(frames) or self._may_lose_caller(frame, address, is_pc, process):
                answers += _resolve_part(process.resolver, sample, addresses, vptrs, start, idx + 1)
                start = idx + 1
        return tuple(answers)

    def _may_lose_caller(self, frame: RecordedFrame, address: int | None, is_pc: bool, process: _OfProcess) -> bool:
        """Return whether the caller of a frame may be missing from its stack."""
        known = process.losing.get((frame, is_pc))
        if known is None:
            if len(process.losing) >= _KEPT_ANSWERS:
                process.losing.clear()
            known = self._losses is Losses.ANY or (address is not None and not _has_frame(process, address, is_pc))
            process.losing[frame, is_pc] = known
        return known

    def _address(self, frame: RecordedFrame, process: _OfProcess) -> int | None:
        known = process.addresses
        if frame not in known:
            if len(known) >= _KEPT_ANSWERS:
                known.clear()
            known[frame] = None
            if frame.address is not None and frame.module is not None:
                address = self._images.address(frame.address, frame.module, process.root, in_call=frame.in_call)
                known[frame] = address
        return known[frame]

    def _process(self, process: RecordedProcess) -> _OfProcess:
        count, known = self._of_process.get(process, (-1, None))
        if known is None or count != len(process.modules):
            located = [self._images.locate(module, process.root) for module in process.modules]
            found = [each for each in located if each is not None]
            is_whole = process.is_whole and len(found) == len(located)
            resolver = self._resolver(frozenset(each.image for each in found), is_whole)
            known = _OfProcess(resolver, found, process.root)
            self._of_process[process] = len(process.modules), known
        return known

    def _resolver(self, images: frozenset[PlacedImage], is_whole: bool) -> Resolver:
        resolver = self._resolvers.get((images, is_whole))
        if resolver is None:
            modules = [
                Module(each.recorded_path, each.bias, each.start, each.end, partial(self._load, each), each.exports)
                for each in images
            ]
            resolver = self._resolvers[images, is_whole] = Resolver(Process(modules, is_whole=is_whole))
        return resolver

    def _load(self, image: PlacedImage, linkage: Linkage) -> Program:
        cache = image.cache or self._search.open(image.path)
        return self._search.program(cache, image.path, self._opened, image.exports, linkage)

    # Answers with the addresses of the recording

    def _as_recorded(self, frames: tuple[RecordedFrame, ...], answers: _Answers, process: _OfProcess) -> StackAnswers:
        known = process.recorded
        pairs = list(zip(frames, answers, strict=True))
        try:
            return StackAnswers([known[pair] for pair in pairs])
        except KeyError:  # an answer for a frame that did not have it before
            if len(known) >= _KEPT_ANSWERS:
                known.clear()
            for pair in pairs:
                if pair not in known:
                    known[pair] = self._recorded(*pair, process)
            return StackAnswers([known[pair] for pair in pairs])

    def _path(self, frame: RecordedFrame, process: _OfProcess) -> str:
        """Return the path of the module of an unknown frame; "" if its image is known, and has nothing there."""
        if frame.module is None or self._images.locate(frame.module, process.root) is not None:
            return ""
        return frame.module.path

    def _recorded(self, frame: RecordedFrame, answer: Answer, process: _OfProcess) -> Answer:
        if answer.address is None:
            if frame.is_certain:
                return Answer(frame.address, Verdict.UNMERGED, frame.name or None)
            recorded = Answer(frame.address, Verdict.UNKNOWN, reason=NO_MODULE, module=self._path(frame, process))
        else:
            recorded = process.as_recorded(answer)
            recorded.address = frame.address
        if recorded.verdict is Verdict.UNKNOWN:
            recorded.recorded_name = frame.name
        elif recorded.reason is not None and recorded.reason.code is ReasonCode.NO_CALLER and process.loses(frame):
            recorded.reason = LOST_CALLER
            self._lost_callers.add(frame)
        return recorded


class _OfProcess:
    """One process: its resolver, and how far its modules lie from their places."""

    def __init__(self, resolver: Resolver, located: Sequence[Located], root: str) -> None:
        self.resolver, self.root = resolver, root
        self.addresses: dict[RecordedFrame, int | None] = {}  # in the address space of all images
        self.losing: dict[tuple[RecordedFrame, bool], bool] = {}  # may its caller be missing; is it a program counter
        self.recorded: dict[tuple[RecordedFrame, Answer], Answer] = {}  # with the addresses of the recording
        # start and end of each place, and what to add to an address there to get one of the process
        self._moves = [(each.image.start, each.image.end, -each.to_linked - each.image.bias) for each in located]
        self._is_moved = any(move for _, _, move in self._moves)

    def loses(self, frame: RecordedFrame) -> bool:
        """Return whether a frame was met whose caller may be missing."""
        return self.losing.get((frame, True), False) or self.losing.get((frame, False), False)

    def as_recorded(self, answer: Answer) -> Answer:
        """Return a copy of an answer, with the addresses of this process."""
        recorded = copy(answer)
        if self._is_moved:
            if answer.address is not None:
                recorded.address = self._back(answer.address)
            if answer.size_bytes:
                recorded.start = self._back(answer.start)
            recorded.missing = tuple(self.as_recorded(each) for each in answer.missing)
            if answer.reason is not None and answer.reason.address is not None:
                recorded.reason = answer.reason._replace(address=self._back(answer.reason.address))
        return recorded

    def moved(self, address: int) -> int:
        """Return the place of an address of this process."""
        for start, end, move in self._moves:
            if start <= address - move < end:
                return address - move
        return address

    def _back(self, address: int) -> int:
        for start, end, move in self._moves:
            if start <= address <= end:
                return address + move
        return address


def _resolve_part(
    resolver: Resolver,
    sample: Sample,
    addresses: Sequence[int | None],
    vptrs: tuple[tuple[int, int], ...],
    start: int,
    end: int,
) -> _Answers:
    """Return the answers for the frames `start:end` of a sample; nothing is known of what called the last one."""
    first = 0
    part = list(addresses[start:end])
    if start or sample.is_called:  # the first address follows a call, too: something unknown was called
        part.insert(0, None)
        first = 1
    exact = [idx - start + first for idx in range(start, end) if idx and sample.frames[idx].is_exact]
    moved = tuple([(idx - start + first, vptr) for idx, vptr in vptrs if start <= idx < end])
    return resolver.resolve(part, moved, exact)[first:]


def _has_frame(process: _OfProcess, address: int, is_pc: bool) -> bool:
    """Return whether a walk along frame pointers finds the caller of the function at an address."""
    place = process.resolver.places.of(address, is_pc)
    if place.body is None:
        return False
    code = place.body.program.code
    return code.has_frame(place.body.start, place.vaddr, is_called=not is_pc and place.return_address != 0)


_Key = tuple[_OfProcess, tuple[RecordedFrame, ...], bool, tuple[tuple[int, int], ...]]
