"""The weights of each name before and after: of the stacks that it stands in, and of those that it ends."""

from __future__ import annotations

from unwind.report.data import Function, Kind
from unwind.report.tree import FrameNumbers, Path

_SHOWN = 2000


class FunctionWeights:
    """Sums of stacks by name; a stack counts once for a name, however often that stands in it."""

    def __init__(self, numbers: FrameNumbers) -> None:
        self._numbers = numbers
        self._functions: dict[tuple[str, bool], Function] = {}
        self._by_frame: dict[tuple[int, bool], Function] = {}

    def add(self, before: Path, after: Path, weight: int) -> None:
        """Add a stack, outermost frame first."""
        for function in {self._of(number, False) for number in before}:
            function.total_before += weight
        for function in {self._of(number, True) for number in after}:
            function.total_after += weight
        self._of(before[-1], False).self_before += weight
        self._of(after[-1], True).self_after += weight

    def heaviest(self) -> tuple[list[Function], int]:
        """Return the functions with the most weight, and how many others there are."""
        by_weight = sorted(
            self._functions.values(), key=lambda each: (-max(each.total_before, each.total_after), each.name)
        )
        return by_weight[:_SHOWN], len(by_weight[_SHOWN:])

    def _of(self, number: int, is_after: bool) -> Function:
        function = self._by_frame.get((number, is_after))
        if function is None:
            name, kind, _ = self._numbers.frames[number]
            key = name, is_after and kind is Kind.OPEN  # before, an open frame has one name like any other
            function = self._by_frame[number, is_after] = self._functions.setdefault(key, Function(*key))
        return function
