"""Claims of some units of a program, with all that describes them: inlined calls and line tables."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from icf.columns import I64, Mask
from icf.dwarf.inlines import InlineScan, TreeFunctions, scan_inlines
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from unwind.symcache.builder.anywhere import Anywhere
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.job import Choices
from unwind.symcache.builder.lines import Lines
from unwind.symcache.builder.paths import Paths
from unwind.symcache.builder.sequences import Chooser


class Group(NamedTuple):
    """Claims with what describes them: functions are rows of `scan`."""

    rows: I64  # of the claims of the image: first its own, then kept ones
    claims: Claims
    described: I64
    scan: InlineScan
    lines: Lines
    chooser: Chooser
    choices: Choices
    own_count: int

    def part(self, is_in: Mask) -> Self:
        """Return some claims, with all functions."""
        claims, described = select(self.claims, self.described, np.flatnonzero(is_in))
        return self._replace(
            rows=self.rows[is_in],
            claims=claims,
            described=described,
            choices=Choices(*(column[is_in] for column in self.choices)),
            own_count=int(is_in.sum()),
        )


class Source(NamedTuple):
    """All that groups are read from."""

    image: Image
    debug: DebugInfo
    functions: TreeFunctions  # of all units
    bodies: Bodies
    claims: Claims
    described: I64
    paths: Paths
    anywhere: Anywhere

    def read(self, units: slice, wanted: I64) -> Group:
        """Return a group; of claims that a function describes those in `wanted`, which must be of these units."""
        self.debug.hold(units)
        scan = scan_inlines(self.debug, units=units)
        base = int(np.searchsorted(self.functions.unit, units.start))
        claims, described = select(self.claims, self.described, wanted)
        claims = claims._replace(function=_less(claims.function, base), lost=_less(claims.lost, base))
        lines = Lines(self.image, self.debug, units, self.paths)
        chooser = Chooser(self.debug, scan)
        choices = lines.choose(chooser, scan, self.bodies, claims, wanted, self.anywhere)
        return Group(wanted, claims, _less(described, base), scan, lines, chooser, choices, len(wanted))


def select(claims: Claims, described: I64, rows: I64) -> tuple[Claims, I64]:
    """Return some claims, without aliases."""
    body, is_merged, name, flags, _, function, lost, _ = claims
    some = Claims(body[rows], is_merged[rows], name[rows], flags[rows], {}, function[rows], lost[rows])
    return some, described[rows]


def _less(function: I64, base: int) -> I64:
    return np.where(function >= 0, function - base, function)
