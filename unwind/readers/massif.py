"""Read the heap of a program at its peak, as valgrind's massif has recorded it: `massif.out.4711`.

    desc: --threshold=0.3
    cmd: ./shop
    time_unit: i
    ...
    heap_tree=peak                                                      empty, detailed: of other moments
    n2: 73992 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
     n1: 73004 0x10998C: List<Order>::grow(int) (list.h:5)              bytes, callers, the frame that has allocated
      n2: 73004 0x1098C5: List<Order>::add(int) (list.h:6)              the frame that has called it
       n0: 72704 0x1098DE: post(int) (orders.cpp:10)                    the outermost one that massif shows
       n0: 300 in 2 places, all below massif's threshold (1.00%)        stacks of which no more is known
     n0: 988 in 4 places, all below massif's threshold (1.00%)

Each line without callers is a stack. Addresses are those of valgrind's reports: run-time ones, return addresses less
one, lines at one address for inlined functions (`unwind.readers.valgrind`). If massif met no peak, the last detailed
tree is read. Source: valgrind, massif/ms_main.c, coregrind/m_xtree.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from unwind.readers import valgrind
from unwind.readers.frame_line import FrameLine
from unwind.readers.module_places import ModulePlaces
from unwind.readers.source import LineError, Source
from unwind.readers.text_stacks import Dialect, Samples, TextStack
from unwind.samples.recording import Recording, Sample, Value

_HEAD = re.compile(rb"desc: [^\n]*\ncmd: [^\n]*\ntime_unit: ")
_TREE = re.compile(rb"heap_tree=(empty|detailed|peak)\s*")
_NODE = re.compile(rb"( {0,1024})n([0-9]{1,9}): ([0-9]{1,18}) (?=\S)")
_ADDRESS = re.compile(rb"(0x[0-9A-F]{1,16}): (?=\S)")
_REST = re.compile(rb"in [0-9]{1,9} places?, ")


class _Node(NamedTuple):
    """A line of a tree."""

    size_bytes: int
    caller_count: int
    line: FrameLine | None  # None: of all stacks, or of those that are not shown


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line of a tree shows; None if it shows none."""
    found = _NODE.match(line)
    address = _ADDRESS.match(line, found.end()) if found is not None else None
    if address is None:
        return None
    frame = FrameLine(-1, int(address[1], 16))
    valgrind.read_function(frame, line, address.end())
    return frame


def _goes_on(before: list[FrameLine], line: FrameLine) -> bool:
    return True  # as the tree has it


DIALECT = Dialect("massif", parse, valgrind.DIALECT.joins, _goes_on, is_called=True, in_call=True)


def recognizes(head: bytes) -> bool:
    """Return whether a file with these first bytes was written by massif."""
    return _HEAD.match(head) is not None


def read(source: Source) -> Recording:
    """Read what was allocated at the peak; raises `FormatError` for a tree that massif would not write."""
    return Recording(DIALECT.name, _samples(source), (Value("inuse_space", "bytes"),))


def _samples(source: Source) -> Iterator[Sample]:
    samples = Samples(ModulePlaces(source.places, named=source.named))
    path: list[_Node] = []
    for depth, node in _tree(source):
        path[depth:] = [node]
        lines = [each.line for each in path if each.line is not None]
        if not node.caller_count and lines:
            stack = TextStack(DIALECT, lines)
            yield samples.sample(stack, stack.frames())._replace(weights=(node.size_bytes,))


def _tree(source: Source) -> list[tuple[int, _Node]]:
    """Return the lines of the tree of the peak, each with its depth."""
    tree: list[tuple[int, _Node]] = []
    left: list[int] = []  # of each node that is open, how many callers are to come
    is_peak, number = False, 0
    for number, line in enumerate(source.lines(), 1):
        if left:
            found = _NODE.match(line)
            if found is None or len(found[1]) != len(left) - 1:
                raise LineError(source.path, "line", number, f"{line[:60]!r} is not a line of the tree at this depth")
            node = _node(line, found)
            if node is None:
                raise LineError(
                    source.path, "line", number, f"{line[:60]!r} is not `nCALLERS: bytes address: function`"
                )
            tree.append((len(left) - 1, node))
            left[-1] -= 1
            left.append(node.caller_count)
            while left and not left[-1]:
                left.pop()
            continue
        head = _TREE.fullmatch(line)
        if head is not None and head[1] != b"empty" and not (is_peak and head[1] != b"peak"):
            tree, left, is_peak = [], [1], head[1] == b"peak"
    if left:
        raise LineError(source.path, "line", number, f"ends within a tree: {left[-1]} more callers must follow")
    return tree


def _node(line: bytes, found: re.Match[bytes]) -> _Node | None:
    frame = parse(line)
    is_first = not found[1]
    is_rest = _REST.match(line, found.end()) is not None
    if frame is None and not (is_rest or (is_first and line.startswith(b"(", found.end()))):
        return None
    return _Node(int(found[3]), int(found[2]), None if is_first else frame)
