"""The share of samples that each function has, in recordings of two links of the same objects, and if they agree.

A function's *total* is the number of samples that have it in their stack, its *self* that of those that it is innermost
in. A frame that is still one of several functions is *possible* in each of them: the share of a function lies between
what is certainly its, and that with what is possible.

The statistic is Fisher's exact test. Of all samples that have a function, how likely is it that so many or more are in
one of the two recordings, if it has the same rate in both? Two shares differ if this is less likely than LIKELY divided
by the number of questions. A clock's samples depend on where code lies: a loop that spans one line of the cache more
is slower. So a difference counts only if it is SLACK of the share, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from math import exp, lgamma
from typing import NamedTuple

from tests.truth.names import identifier, plain_name
from tests.truth.symbols import FunctionTable

LIKELY = 0.001
SLACK = 0.2


class Functions:
    """The functions of the unfolded link: one for all names of an address, and all addresses of a name."""

    def __init__(self, table: FunctionTable) -> None:
        self._table = table
        self._of_name: dict[str, str] = {}  # plain name -> the function that it stands for
        for keys in table.keys_at.values():
            roots = {self._root(plain_name(key)) for key in keys}
            self._of_name.update(dict.fromkeys(roots, min(roots)))
        self._of_identifier: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for name in list(self._of_name):
            word, arguments = identifier(name)
            self._of_identifier[word].append((arguments, name))
        self.of_name = cache(self._named)

    def at(self, vaddr: int) -> str | None:
        """Return the function at an address of the unfolded link."""
        start = self._table.start_of(vaddr)
        return None if start is None else self._root(plain_name(self._table.keys_at[start][0]))

    def starts(self, name: str) -> set[int]:
        """Return where the code of a function is."""
        return {start for start, keys in self._table.keys_at.items() if self._root(plain_name(keys[0])) == name}

    def _root(self, name: str) -> str:
        while (parent := self._of_name.setdefault(name, name)) != name:
            name = parent
        return name

    def _named(self, name: str) -> frozenset[str]:
        """Return the functions that a name can mean: several if it has neither scope nor parameters."""
        plain = plain_name(name)
        if plain in self._of_name:
            return frozenset({self._root(plain)})
        word, arguments = identifier(plain)
        return frozenset(
            self._root(each) for its, each in self._of_identifier[word] if arguments == its[: len(arguments)]
        )


class Sampled(NamedTuple):
    """A sample: the functions that each frame of the program can be, innermost first."""

    frames: tuple[frozenset[str], ...]
    is_innermost: bool  # the first of them is where the sample was taken
    weight: int


@dataclass
class Shares:
    """How many samples have each function."""

    samples: int = 0
    total: Counter[str] = field(default_factory=Counter)
    self_: Counter[str] = field(default_factory=Counter)
    total_possible: Counter[str] = field(default_factory=Counter)  # in addition
    self_possible: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, samples: Iterable[Sampled]) -> Shares:
        shares = cls()
        for frames, is_innermost, weight in samples:
            shares.samples += weight
            certain = {name for each in frames if len(each) == 1 for name in each}
            for name in certain:
                shares.total[name] += weight
            for name in frozenset[str]().union(*frames) - certain:
                shares.total_possible[name] += weight
            if is_innermost and frames:
                counts = shares.self_ if len(frames[0]) == 1 else shares.self_possible
                for name in frames[0]:
                    counts[name] += weight
        return shares


class Difference(NamedTuple):
    """A function of which the shares are not the same."""

    function: str
    what: str
    unfolded: float  # share
    low: float  # share in the folded program, at least
    high: float
    likelihood: float

    def __str__(self) -> str:
        said = f"{100 * self.low:.2f} to {100 * self.high:.2f} %" if self.high > self.low else f"{100 * self.low:.2f} %"
        return f"{self.what} of {self.function}: {said}, unfolded {100 * self.unfolded:.2f} % (p {self.likelihood:.1e})"


def differences(unfolded: Shares, folded: Shares) -> list[Difference]:
    """Return the functions with another share, the least likely first."""
    found = []
    questions = 0
    for what, true, low, possible in (
        ("total", unfolded.total, folded.total, folded.total_possible),
        ("self", unfolded.self_, folded.self_, folded.self_possible),
    ):
        for name in sorted({*true, *low}):
            high = low[name] + possible[name]
            questions += 2
            too_many = tail(low[name], folded.samples, true[name], unfolded.samples)
            too_few = tail(true[name], unfolded.samples, high, folded.samples)
            shares = true[name] / unfolded.samples, low[name] / folded.samples, high / folded.samples
            beyond = max(shares[1] - shares[0], shares[0] - shares[2])
            if beyond > SLACK * max(shares[0], shares[1]):
                found.append(Difference(name, what, *shares, min(too_many, too_few)))
    return sorted((each for each in found if each.likelihood < LIKELY / questions), key=lambda each: each.likelihood)


def tail(count: int, of: int, other: int, other_of: int) -> float:
    """Return how likely `count` or more of `of` have it, of the `count + other` that have it in `of + other_of`."""
    drawn = count + other
    most = min(drawn, of)
    whole = _log_choose(of + other_of, drawn)
    terms = (
        exp(_log_choose(of, each) + _log_choose(other_of, drawn - each) - whole)
        for each in range(count, most + 1)
        if drawn - each <= other_of
    )
    return min(sum(terms), 1.0)


def _log_choose(of: int, count: int) -> float:
    return lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1)
