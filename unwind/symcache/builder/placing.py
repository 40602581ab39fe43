"""Places the inlined calls of a folded function without a twin, by a function that is known at the same body.

The code is the same, but the text may differ, in where functions are declared or in what is inlined into what:

    known   std::string operator==, out of line        tombstoned   bool is_dir(), which has operator== inlined
              size() 0..4, compare() 10..15 22..27              operator==  36 bytes
                                                                  size() 4 bytes, compare() 5 and 5, 12 apart

An inlined call whose subtree (sizes, nesting, places of calls, each relative to the function around) occurs once in
either is the same code: it lies where it lies in the known one. A call without such a match lies where it has room:
around the calls in it, and within the one that it is in. The result is checked instruction by instruction: a call
inlined from the known function must have the same line there, relative to where its function is declared; any other
must have a line of its own function, from the line that declares it to the next function of the file. If a call has no
place, or more than one, or the check fails, nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

Place = tuple[int, int]  # file, line
Span = tuple[int, int]


class Call(NamedTuple):
    """An inlined call."""

    up: int  # distance to the surrounding call, which comes before it; 0: none
    spans: tuple[Span, ...]  # of its code, from where that begins
    declared: Place  # the inlined function
    called: Place
    column: int


class Described(NamedTuple):
    """A function: its inlined calls and the line rows of its instructions."""

    declared: Place
    calls: list[Call]
    rows: list[tuple[int, Place, int]]  # offset, place, column; ascending, one for an offset


def place_calls(
    lost: Described, known: Described, starts: list[int], size_bytes: int, next_function: Callable[[Place], int]
) -> list[int] | None:
    """Return where each inlined call of `lost` begins, in bytes from the start of the body.

    `starts` are those of the calls of `known`. `next_function` returns the line where the function that is declared at
    a place has ended for certain.
    """
    subtrees: dict[object, int] = {}
    own, theirs = _subtrees(lost, subtrees), _subtrees(known, subtrees)
    counts, their_counts = Counter(number for number, _ in own), Counter(number for number, _ in theirs)
    of_known = {number: i for i, (number, _) in enumerate(theirs)}
    found: list[int | None] = [None] * len(own)
    same = [-1] * len(own)
    i = 0
    while i < len(own):
        number, end = own[i]
        if counts[number] == 1 and their_counts[number] == 1:
            shift = of_known[number] - i
            for j in range(i, end):
                found[j], same[j] = starts[j + shift], j + shift
            i = end
        else:
            i += 1
    if not _fill(lost.calls, found, size_bytes):
        return None
    placed = [start for start in found if start is not None]
    return placed if _agree(lost, placed, same, known, starts, size_bytes, next_function) else None


def _subtrees(function: Described, numbers: dict[object, int]) -> list[tuple[int, int]]:
    """Return, for each call, a number that equal-looking calls share, and the call after its subtree."""
    calls = function.calls
    inner: list[list[int]] = [[] for _ in calls]
    found = [(0, 0)] * len(calls)
    for i in reversed(range(len(calls))):
        call = calls[i]
        around = calls[i - call.up].declared if call.up else function.declared
        end = max([i + 1, *(found[child][1] for child in inner[i])])
        key = (
            call.spans, call.declared[0], _relative(call.called, around), call.column,
            tuple(found[child][0] for child in reversed(inner[i])),
        )  # fmt: skip
        found[i] = numbers.setdefault(key, len(numbers)), end
        if call.up:
            inner[i - call.up].append(i)
    return found


def _relative(place: Place, declared: Place) -> object:
    """Return a place relative to the function around it."""
    file, line = place
    return line - declared[1] if line and file == declared[0] else place + ("elsewhere",)


def _fill(calls: list[Call], found: list[int | None], size_bytes: int) -> bool:
    """Find the only place that others have left for a call; return whether all have one."""
    missing = [i for i, start in enumerate(found) if start is None]
    while missing:
        left = []
        for i in missing:
            if not calls[i].spans:
                found[i] = 0
                continue
            extent = calls[i].spans[-1][1]
            low, high = 0, size_bytes
            if calls[i].up:
                around = i - calls[i].up
                start = found[around]
                if start is not None and calls[around].spans:
                    low, high = start, start + calls[around].spans[-1][1]
            first, last = low, high - extent
            for j in range(i + 1, len(calls)):
                inner = found[j]
                if calls[j].up == j - i and inner is not None and calls[j].spans:
                    first, last = max(first, inner + calls[j].spans[-1][1] - extent), min(last, inner)
            if first == last:
                found[i] = first
            else:
                left.append(i)
        if len(left) == len(missing):
            return False
        missing = left
    return True


def _agree(
    lost: Described,
    placed: list[int],
    same: list[int],
    known: Described,
    starts: list[int],
    size_bytes: int,
    next_function: Callable[[Place], int],
) -> bool:
    """Return whether the line rows agree with the placed calls at each instruction."""
    own, theirs = _innermost(lost.calls, placed, size_bytes), _innermost(known.calls, starts, size_bytes)
    own_rows, their_rows = _by_byte(lost.rows, size_bytes), _by_byte(known.rows, size_bytes)
    for here in set(zip(own, theirs, own_rows, their_rows, strict=True)):
        call, their_call, row, their_row = here
        if row is None or their_row is None:
            return False
        (place, column), (their_place, their_column) = row, their_row
        declared = lost.calls[call].declared if call >= 0 else lost.declared
        their_declared = known.calls[their_call].declared if their_call >= 0 else known.declared
        if call >= 0 and same[call] >= 0 and same[call] != their_call:
            return False
        if column == their_column and _relative(place, declared) == _relative(their_place, their_declared):
            continue
        if call >= 0 and same[call] >= 0:
            return False
        file, line = place
        if line and not (file == declared[0] and declared[1] <= line < next_function(declared)):
            return False
    return True


def _innermost(calls: list[Call], starts: list[int], size_bytes: int) -> list[int]:
    """Return the innermost call at each byte of the body, -1 for none."""
    innermost = [-1] * size_bytes
    for i, (call, start) in enumerate(zip(calls, starts, strict=True)):
        for low, high in call.spans:
            low, high = max(start + low, 0), min(start + high, size_bytes)
            innermost[low:high] = [i] * max(high - low, 0)
    return innermost


def _by_byte(rows: list[tuple[int, Place, int]], size_bytes: int) -> list[tuple[Place, int] | None]:
    """Return the place and column of each byte of the body in the rows."""
    own_rows: list[tuple[Place, int] | None] = [None] * size_bytes
    for i, (offset, place, column) in enumerate(rows):
        end = rows[i + 1][0] if i + 1 < len(rows) else size_bytes
        own_rows[offset:end] = [(place, column)] * (min(end, size_bytes) - offset)
    return own_rows
