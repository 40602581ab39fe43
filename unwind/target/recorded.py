"""Resolves the samples of a recording, of any number of processes.

Frames are moved to one address space (`unwind.target.recorded_images`), resolved there, and returned with the
addresses that the recording has. Which functions a call can reach depends on the modules of its process: processes
with the same images share a resolver, others do not.

A frame of which the recording has only a name is unknown to the resolver, which then does not know the caller of the
frame inwards of it. If that name is certain, as of a kernel function or one made at run time, it is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np

from icf.columns import U64, Mask
from icf.elf.image import Image
from icf.log import note, warn
from icf.model import RuntimeAddr, Verdict
from unwind.process.image_finder import ImageFinder
from unwind.process.process import Module, Process
from unwind.program.program import Body, Linkage, Program
from unwind.resolve.answer import Facts
from unwind.resolve.bases import warn_of_bases
from unwind.resolve.resolved import AnsweredColumns, AnsweredSums, Resolved, StackAnswers, WholeStack
from unwind.resolve.resolver import Resolver
from unwind.samples.calls import CallStack, CallTree, stacks_at
from unwind.samples.lossy_process import losses_in
from unwind.samples.recording import Losses, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.samples.stack_columns import NewStacks
from unwind.samples.sums import AddsUp, StackSums
from unwind.samples.together import together
from unwind.symbolize.answer import Answer, read_frames
from unwind.target.recorded_images import PlacedImage, RecordedImages
from unwind.target.recorded_process import ProcessStacks
from unwind.target.search import SearchPaths
from unwind.target.states import TreeStates
from unwind.target.untabled import Untabled

_KEPT_STACKS, _KEPT_FRAMES, _KEPT_NODES, _KEPT_STATES = 1 << 18, 1 << 24, 1 << 20, 1 << 20
_HINT = "the recording is of another build, or its addresses are not what its format says"
_HINT_OF_LOSSES = "the recording is of another build, or frame pointers were followed through code that has none"


_SampleOf = Callable[[int, CallStack], tuple[ProcessStacks, Sample]]


class _New(NamedTuple):
    """A stack that a process has not had yet."""

    process: ProcessStacks
    key: object  # of the stack in `process.stacks`
    sample: Sample


def _frame_count(sample: Sample) -> int:
    return len(sample.frames)


class RecordedResolver:
    """Resolves samples; to be closed."""

    def __init__(
        self,
        search: SearchPaths,
        images: ImageFinder | None = None,
        *,
        losses: Losses = Losses.NONE,
        with_lines: bool = True,
    ) -> None:
        self._search, self._with_lines, self._losses = search, with_lines, losses
        self._opened = ExitStack()
        if images is None:
            images = self._opened.enter_context(ImageFinder((), search.debug_roots))
        self._finder = images
        self._images = RecordedImages(images, search.cache_dir)
        self._resolvers: dict[tuple[frozenset[PlacedImage], bool], Resolver] = {}
        self._of_process: dict[RecordedProcess, tuple[int, ProcessStacks]] = {}  # with the number of its modules
        self._is_debug_file_used = False
        self._untabled = Untabled()
        self._stack_count = self._frame_count = 0  # of those that processes keep
        self._trees: dict[CallTree, TreeStates] = {}
        self._own = CallTree()  # of stacks that come without one

    def resolve(self, samples: Iterable[Sample]) -> list[Resolved]:
        """Return the samples with an answer for each frame; some thousands at a time are looked up together.

        Raises `IcfError` for an image that cannot be read.
        """
        if self._stack_count > _KEPT_STACKS or self._frame_count > _KEPT_FRAMES:
            self._forget()
        known = self._of_process
        new: dict[tuple[ProcessStacks, object], _New] = {}
        asked: list[tuple[Sample, StackAnswers | None, ProcessStacks, object]] = []
        for sample in samples:
            met = known.get(sample.process)
            process = met[1] if met and met[0] == len(sample.process.modules) else self._process(sample.process)
            key = (sample.frames, sample.is_called, sample.vptrs) if sample.is_called or sample.vptrs else sample.frames
            answers = process.stacks.get(key)
            if answers is None:
                new[process, key] = _New(process, key, sample)
            asked.append((sample, answers, process, key))
        self._answer(new.values())
        make = tuple.__new__  # as Resolved(...), in half the time
        return [make(Resolved, (sample, answers or process.stacks[key])) for sample, answers, process, key in asked]

    def _answer(self, new: Collection[_New]) -> None:
        """Keep the answers for stacks that are new."""
        self._stack_count += len(new)
        self._frame_count += sum([len(each.sample.frames) for each in new])
        whole = [(each, each.process.of_whole(each.sample, ())) for each in new if each.sample.vptrs]
        plain: list[tuple[TreeStates, _New, int]] = []  # their answers are those of their states
        for states, stacks in self._by_tree(new).items():
            nodes = np.array([node for _, node in stacks], np.uint64)
            are_plain = states.look_up(nodes, {each.process for each, _ in stacks})
            for is_plain, (each, node) in zip(are_plain.tolist(), stacks, strict=True):
                if is_plain:
                    plain.append((states, each, node))
                else:
                    whole.append((each, each.process.of_whole(each.sample, states.states_of(node))))
        processes = {each.process for each in new}
        self._read_frames(processes)
        for states, of_one in groupby(plain, itemgetter(0)):
            stacks = [(each, node) for _, each, node in of_one]
            for (each, _), answers in zip(stacks, states.answers_of([node for _, node in stacks]), strict=True):
                each.process.stacks[each.key] = answers
        for each, found in whole:
            each.process.stacks[each.key] = each.process.answered(each.sample, found)

    def _sums(self, sums: StackSums) -> AnsweredSums:
        if self._stack_count > _KEPT_STACKS:
            self._forget()
        self._stack_count += len(sums.nodes)
        process = self._process(sums.process)

        def sample(idx: int, stack: CallStack) -> tuple[ProcessStacks, Sample]:
            weights = tuple([each[idx] for each in sums.weights])
            return process, Sample(stack, sums.process, weights, sums.labels)

        states, are_plain, whole = self._look_up(sums.calls, sums.nodes, [process], sample)
        answered = [WholeStack(int(sums.nodes[idx]), int(sums.counts[idx]), resolved) for idx, resolved in whole]
        return AnsweredSums(sums.only(are_plain), states, answered)

    def of_columns(self, calls: CallTree, new: NewStacks, processes: Mapping[int, RecordedProcess]) -> AnsweredColumns:
        """Return the answers for stacks in columns, given the process of each root of their tree.

        Raises `IcfError` for an image that cannot be read.
        """
        of_root = {root: self._process(process) for root, process in processes.items()}

        def sample(idx: int, stack: CallStack) -> tuple[ProcessStacks, Sample]:
            process = of_root[int(new.roots[idx])]
            return process, Sample(stack, process.recorded, is_called=bool(new.is_called[idx]))

        return AnsweredColumns(*self._look_up(calls, new.nodes, of_root.values(), sample))

    def _look_up(
        self, calls: CallTree, nodes: U64, processes: Collection[ProcessStacks], sample_of: _SampleOf
    ) -> tuple[TreeStates, Mask, list[tuple[int, Resolved]]]:
        """Return the answers for stacks of a tree: those of their states, and those that follow from whole stacks."""
        states = self._states(calls)
        are_plain = states.look_up(nodes, processes)
        held = np.flatnonzero(~are_plain)
        whole: list[tuple[int, ProcessStacks, Sample, Sequence[Answer]]] = []
        for idx, stack in zip(held.tolist(), stacks_at(calls, nodes[held].tolist()), strict=True):
            process, sample = sample_of(idx, stack)
            whole.append((idx, process, sample, process.of_whole(sample, states.states_of(stack.node))))
        self._read_frames(processes)
        states.fill()
        return (
            states,
            are_plain,
            [(idx, Resolved(sample, process.answered(sample, found))) for idx, process, sample, found in whole],
        )

    def _read_frames(self, processes: Collection[ProcessStacks]) -> None:
        """Read the lines of answers that are new."""
        if self._with_lines:
            read_frames(process.fresh for process in processes)
        for process in processes:
            self._untabled.note(process.fresh)
            process.fresh.clear()

    def _by_tree(self, new: Iterable[_New]) -> dict[TreeStates, list[tuple[_New, int]]]:
        """Return the stacks without vtable pointers by the tree that has them, each with its node."""
        of_tree: dict[TreeStates, list[tuple[_New, int]]] = {}
        for each in new:
            frames = each.sample.frames
            if each.sample.vptrs:
                continue
            if isinstance(frames, CallStack):
                calls, node = frames.tree, frames.node
            else:
                calls, node = self._own, self._own.node_of(each.sample.process, frames, each.sample.is_called)
            of_tree.setdefault(self._states(calls), []).append((each, node))
        return of_tree

    def batches(
        self, samples: Iterable[Sample], has_more: Callable[[], bool] = lambda: True
    ) -> Iterator[list[Resolved]]:
        """Yield the samples resolved, some thousands at a time; fewer where `has_more` says that nothing more waits.

        Raises `IcfError` for a recording that breaks a rule of its format, after what was read before.
        """
        for part in together(samples, _frame_count, has_more):
            yield self.resolve(part)

    def added_up(
        self, samples: Iterable[Sample], has_more: Callable[[], bool] = lambda: True
    ) -> Iterator[AnsweredSums | list[Resolved]]:
        """Yield the samples resolved, added up if that is how they can be read; all else is as of `batches`."""
        if not isinstance(samples, AddsUp):
            yield from self.batches(samples, has_more)
            return
        for part in samples.added_up():
            yield self._sums(part) if isinstance(part, StackSums) else self.resolve(part)

    def missing(self, process: RecordedProcess) -> list[str]:
        """Return the paths of the modules of a process that were not found."""
        return [each.path for each in process.modules if self._images.locate(each, process.root) is None]

    def body_of(self, frame: RecordedFrame, answer: Answer, process: RecordedProcess) -> Body | None:
        """Return the body that the answer for a frame of a process is about; None if it is about none."""
        address = self._process(process).address(frame)
        if address is None or answer.verdict is Verdict.UNKNOWN:
            return None
        modules = self._process(process).resolver.process
        module = modules.module_at(RuntimeAddr(address)) or modules.module_at(RuntimeAddr(address - 1))
        return None if module is None else modules.program(module).body_at(answer.vaddr)

    def explained(self, resolved: Resolved) -> Facts:
        """Return the facts on which the answers for a sample rest."""
        return self._process(resolved.sample.process).explained(resolved.sample, resolved.answers)

    def merged_body(self, frame: RecordedFrame, process: RecordedProcess) -> Body | None:
        """Return the body that a frame of a process lies in, if several functions share it."""
        stacks = self._process(process)
        address = stacks.address(frame)
        body = None if address is None else stacks.resolver.places.of(address, frame.is_exact).body
        return None if body is None or body.settled else body

    def image_of(self, module: RecordedModule, root: str) -> tuple[Image, int] | None:
        """Return the ELF image of a module, and its run-time less its link-time addresses; None if it is not there."""
        found = self._images.locate(module, root)
        if found is None or (image := found.image.image) is None or image.format == "PE":
            return None
        return image, -found.to_linked

    def exported(self, module: RecordedModule, symbol: str) -> list[int]:
        """Return where, as linked, a module has a symbol that it exports; several if there are several versions."""
        return self._images.exported(module, symbol)

    def report(self) -> None:
        """Report modules that were not found or do not fit, and callers that may be missing."""
        self._finder.report()
        if self._search.debug_file is not None and not self._is_debug_file_used:
            warn(f"{self._search.debug_file}: belongs to none of the modules: it was not used")
        lost_count = sum(len(process.lost_callers) for _, process in self._of_process.values())
        if lost_count:
            note(
                f"the stacks may lack the callers of {lost_count:,} distinct frames in merged functions,"
                " which stay open",
                "if the unwinder has read .eh_frame, and not walked along frame pointers, say --lossy none",
            )
        for resolver in self._resolvers.values():
            warn_of_bases(resolver.places, "", _HINT if self._losses is Losses.NONE else _HINT_OF_LOSSES)
        self._untabled.report()

    def close(self) -> None:
        """Close the images."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _states(self, tree: CallTree) -> TreeStates:
        """Return what is known of the stacks of a tree."""
        states = self._trees.get(tree)
        if states is None:
            if tree is not self._own:  # a reader has one at a time
                self._trees = {each: self._trees[each] for each in self._trees if each is self._own}
            states = self._trees[tree] = TreeStates(tree)
        return states

    def _forget(self) -> None:
        """Forget whole stacks, and trees that grew too large."""
        self._is_debug_file_used = False
        self._stack_count = self._frame_count = 0
        for _, process in self._of_process.values():
            process.stacks.clear()
        if self._own.node_count > _KEPT_NODES:
            self._trees.pop(self._own, None)
            self._own = CallTree()
        self._trees = {tree: states for tree, states in self._trees.items() if states.count < _KEPT_STATES}

    def _process(self, process: RecordedProcess) -> ProcessStacks:
        count, known = self._of_process.get(process, (-1, None))
        if known is None or count != len(process.modules):
            located = [self._images.locate(module, process.root) for module in process.modules]
            found = [each for each in located if each is not None]
            is_whole = process.is_whole and len(found) == len(located)
            resolver = self._resolver(frozenset(each.image for each in found), is_whole)
            losses = losses_in(process, self._losses)
            if count >= 0:
                self._trees.clear()  # what the process calls may lie in the module that is new
            known = ProcessStacks(process, resolver, self._images, found, losses)
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
        search = self._search.for_module(image.image)
        self._is_debug_file_used |= search.debug_file is not None
        cache = image.cache or search.open(image.path)
        program = search.program(cache, image.path, self._opened, image.exports, linkage)
        if image.image is None or image.image.format == "PE" or image.image.linker.folds_functions:
            self._untabled.add(program, image.path, cache)
        return program
