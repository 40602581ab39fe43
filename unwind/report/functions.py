"""The weights of each name before and after: of the stacks that it stands in, and of those that it ends."""

from __future__ import annotations

from collections.abc import Sequence

from unwind.report.data import Function, Kind
from unwind.report.rows import Shown
from unwind.report.tree import TreeSums

_SHOWN = 2000


def functions_of(frames: Sequence[Shown], before: TreeSums, after: TreeSums) -> tuple[list[Function], int]:
    """Return the functions with the most weight, and how many others there are.

    A stack counts once for a name, however often that stands in it.
    """
    functions: list[Function] = []
    numbers: dict[tuple[str, bool], int] = {}

    def number(name: str, is_open: bool) -> int:
        found = numbers.setdefault((name, is_open), len(functions))
        if found == len(functions):
            functions.append(Function(name, is_open))
        return found

    named = [number(frame.name, False) for frame in frames]  # before, an open frame has one name like any other
    for key, weight in before.of_stacks(named).items():
        functions[key].total_before = weight
    for key, weight in before.of_innermost(named).items():
        functions[key].self_before = weight
    named = [number(frame.name, frame.kind is Kind.OPEN) for frame in frames]
    for key, weight in after.of_stacks(named).items():
        functions[key].total_after = weight
    for key, weight in after.of_innermost(named).items():
        functions[key].self_after = weight
    weighed = [each for each in functions if each.total_before or each.total_after]
    weighed.sort(key=lambda each: (-max(each.total_before, each.total_after), each.name))
    return weighed[:_SHOWN], len(weighed[_SHOWN:])
