"""The functions at an address that the linker's report, or the objects, name.

With `-ffunction-sections` a section is named after its function, so a report names the members of each class
even where the image lacks their symbols (mold). That ends with the first folded section that names no
function: `.text` of code compiled without that option, or `.text.hot`, which may be of a function called `hot`.

A report has no addresses; the symbol of the kept section leads to them. A local function may have
namesakes in other files. Then the other witnesses decide about the class; without any, it counts for all
of the addresses, since a superfluous candidate makes an answer ambiguous and a missing one would make it wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.aliases import is_cold_part
from icf.columns import U64
from icf.elf.image import Image
from icf.folds.body_members import Members
from icf.folds.functions import Bodies
from icf.folds.members import ReportedFunction
from icf.linkers import KeptSymbols
from icf.sets import is_in
from icf.strings import hash_names
from icf.tables.pointed import thunk_target

if TYPE_CHECKING:
    from icf.folds.report import FoldedSections

_THUNKS = (b"_ZTh", b"_ZTv", b"_ZTc")  # the names of thunks begin so
_COLD_SECTIONS = ".text.unlikely."  # of cold parts, and of functions that are cold as a whole


class Reported(NamedTuple):
    """The functions that a report or objects name at the addresses of one image; empty without either."""

    functions: dict[int, list[ReportedFunction]] = {}
    given: bool = False  # all folded functions are named
    kept: frozenset[int] = frozenset()  # addresses where the first one was kept

    @property
    def vaddrs(self) -> U64:
        """Return the addresses at which functions are named."""
        return np.array(sorted(self.functions), np.uint64)

    def at(self, vaddr: int) -> list[ReportedFunction]:
        """Return the functions named at the address: all of a class, or those without a symbol."""
        return self.functions.get(vaddr, [])

    def mark_kept(self, vaddr: int, members: Members) -> None:
        """Mark which of the members was kept, if that is known."""
        if vaddr not in self.kept:
            return
        name = self.functions[vaddr][0].name
        kept = [idx for idx, names in enumerate(members.linkage_names) if name in names]
        if len(kept) == 1:
            members.mark_kept(kept[0])


class _Class(NamedTuple):
    """A class of a report whose kept section names a function."""

    section: str  # the kept one
    names: list[str]  # of functions, the kept one first

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the code of the kept section may have, the most probable first."""
        name = self.names[0]
        return (f"{name}.cold", name) if self.section.startswith(_COLD_SECTIONS) else (name,)


def read_report(image: Image, bodies: Bodies, report: Iterable[FoldedSections]) -> Reported:
    """Find the addresses of the classes of a report."""
    classes: list[_Class] = []
    names_all = True
    for folded in report:
        names = [ref.function_name for ref in (folded.kept, *folded.removed)]
        names_all &= all(names) or not folded.hides_functions
        if names[0]:
            classes.append(_Class(folded.kept.section, [name for name in names if name]))
    wanted = {symbol for each in classes for symbol in each.symbols}
    by_name = _addresses_of(image, bodies, wanted) if classes else {}
    functions: dict[int, list[ReportedFunction]] = {}
    kept: set[int] = set()
    for each in classes:
        choices = [(name, by_name[name]) for name in each.symbols if name in by_name]
        if not choices:
            continue  # it has no symbol
        cold = is_cold_part(choices[0][0])
        if each.section.startswith(_COLD_SECTIONS) and not cold:
            continue  # a cold part without a symbol, or a function that is cold as a whole: indistinguishable
        vaddrs = choices[0][1]
        if len(vaddrs) == 1:
            kept |= vaddrs - set(functions)
        else:
            vaddrs = {vaddr for vaddr in vaddrs if _may_lack_names(image, bodies, vaddr)}
        for vaddr in vaddrs:
            functions.setdefault(vaddr, []).extend(
                ReportedFunction(name + (".cold" if cold else "")) for name in each.names
            )
    _add_thunks(image, bodies, classes, functions)
    return Reported(functions, names_all, frozenset(kept))


def _add_thunks(
    image: Image, bodies: Bodies, classes: list[_Class], functions: dict[int, list[ReportedFunction]]
) -> None:
    """Add thunks to the sections of their functions, where no thunk has a section of its own (clang's have)."""
    class_of = {name: each for each in classes for name in each.names}
    if any(map(thunk_target, class_of)):
        return
    symbols = image.symbols
    is_thunk = symbols.begin_with(_THUNKS, bodies.symbol_rows)
    seen: set[tuple[int, str]] = set()  # gold leaves the symbols of the folded ones: each would add all
    for at in np.flatnonzero(is_thunk).tolist():
        symbol = symbols.name(int(bodies.symbol_rows[at]))
        function = thunk_target(symbol)
        if function in class_of:
            prefix = symbol[: len(symbol) - len(function) + len("_Z")]
            vaddr = int(bodies.symbol_value[at])
            for name in class_of[function].names:
                thunk = prefix + name[2:]
                if name.startswith("_Z") and (vaddr, thunk) not in seen:
                    seen.add((vaddr, thunk))
                    functions.setdefault(vaddr, []).append(ReportedFunction(thunk))


def _may_lack_names(image: Image, bodies: Bodies, vaddr: int) -> bool:
    """Return whether functions at an address may be missing: mold drops symbols, gold keeps debug information."""
    kept = image.linker.kept_symbols
    return kept is KeptSymbols.SOME or (kept is KeptSymbols.GLOBAL and not len(bodies.dwarf_at(vaddr)))


def _addresses_of(image: Image, bodies: Bodies, names: set[str]) -> dict[str, set[int]]:
    """Return addresses of the function symbols with these names."""
    symbols = image.symbols
    rows = bodies.symbol_rows
    hashes = symbols.hashes(rows)
    wanted = hash_names(sorted(names))
    found: dict[str, set[int]] = {}
    for at in np.flatnonzero(is_in(hashes, wanted)).tolist():
        found.setdefault(symbols.name(int(rows[at])), set()).add(int(bodies.symbol_value[at]))
    return found
