"""The functions at an address that the linker's report, or the objects, name.

With `-ffunction-sections` a section is named after its function, so a report names the members of each class
even where the image lacks their symbols (mold). That ends with the first folded section that names no
function: `.text` of code compiled without that option, or `.text.hot`, which may be of a function called `hot`.

A report has no addresses; the symbol of the kept section leads to them. A local function may have
namesakes in other files. Then the other witnesses decide about the class; without any, it counts for all
of the addresses, since a superfluous candidate makes an answer ambiguous and a missing one would make it wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.aliases import is_cold_part, is_of_one_unit, name_in_section
from icf.columns import U64
from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import STB_GLOBAL, STB_LOCAL
from icf.folds.body_members import Members
from icf.folds.functions import Bodies
from icf.folds.named import ReportedFunction
from icf.linkers import KeptSymbols
from icf.sets import distinct, is_in
from icf.strings import hash_names
from icf.tables.pointed import thunk_target

if TYPE_CHECKING:
    from icf.folds.report import FoldedSections

_THUNKS = (b"_ZTh", b"_ZTv", b"_ZTc")  # the names of thunks begin so
_COMPLETE, _BASE = "D1Ev", "D2Ev"  # the ends of names of destructors
_COLD_SECTIONS = ".text.unlikely."  # of cold parts, and of functions that are cold as a whole


class Reported(NamedTuple):
    """The functions that a report or objects name at the addresses of one image; empty without either."""

    functions: dict[int, list[ReportedFunction]] = {}
    given: bool = False  # all folded functions are named, but those at `open`
    kept: frozenset[int] = frozenset()  # addresses where the first one was kept
    open: frozenset[int] = frozenset()  # addresses of thunks that others share whose names are not known

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
    def is_cold(self) -> bool:
        """Whether its code is a cold part, or a function that is cold as a whole."""
        return self.section.startswith(_COLD_SECTIONS)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the code of the kept section may have, the most probable first."""
        name = self.names[0]
        return (f"{name}.cold", name) if self.is_cold else (name,)


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
    wanted.update(name for each in classes if each.is_cold for name in each.names)
    by_name = _addresses_of(image, bodies, wanted) if classes else {}
    bare = [each for each in classes if not each.is_cold and by_name.keys().isdisjoint(each.symbols)]
    certain = _global_addresses(image, {name for each in classes if not each.is_cold for name in each.names})
    others = _addresses_of(image, bodies, {name for each in bare for name in each.names[1:]}) if bare else {}
    hot = {name for each in classes if not each.is_cold for name in each.names}
    functions: dict[int, list[ReportedFunction]] = {}
    kept: set[int] = set()
    namesakes: dict[frozenset[int], list[list[str]]] = {}  # addresses, and the classes of which the kept one has a name
    for each in classes:
        choices = [(name, by_name[name]) for name in each.symbols if name in by_name]
        if not choices and not each.is_cold:  # its object had no local symbols; those of removed ones lead there, too
            choices = [(name, others[name]) for name in each.names[1:] if len(others.get(name, ())) == 1]
        if not choices:  # it has no symbol
            names_all &= each.is_cold
            continue
        symbol, vaddrs = choices[0]
        if each.is_cold and not is_cold_part(symbol) and symbol in hot:
            continue  # a cold part without a symbol
        others_at = set() if each.is_cold else {certain[name] for name in each.names if name in certain} - vaddrs
        if len(vaddrs) == 1 and symbol in each.symbols and not others_at:
            kept |= vaddrs - set(functions)
        names = each.names
        if each.is_cold:  # parts of functions, and functions that are cold as a whole
            are_parts = is_cold_part(symbol)
            elsewhere = hot.union(name for name in names if by_name.get(name, vaddrs) - vaddrs)
            names = [f"{name}.cold" if are_parts or name in elsewhere else name for name in names]
        if others_at:  # the symbol of a definition that lost, kept or removed, leads to the one that won
            for vaddr in vaddrs | others_at:
                functions.setdefault(vaddr, []).extend(map(ReportedFunction, names))
        elif len(vaddrs) > 1:
            namesakes.setdefault(frozenset(vaddrs), []).append(names)
        else:
            functions.setdefault(min(vaddrs), []).extend(map(ReportedFunction, names))
    for several, names_of in namesakes.items():  # each address has one of these classes
        names = list(reduce(or_, map(Counter, names_of)).elements())
        longest = max(map(len, names_of))
        for vaddr in several:
            if _may_lack_names(image, bodies, vaddr, longest):
                functions.setdefault(vaddr, []).extend(map(ReportedFunction, names))
    shared = _add_thunks(image, bodies, classes, functions)
    return Reported(functions, names_all, frozenset(kept), shared)


class _Thunk(NamedTuple):
    """A thunk in the section of its function."""

    symbol: str
    vaddr: int
    function: str
    section: _Class  # with what was folded into it


def _add_thunks(
    image: Image, bodies: Bodies, classes: list[_Class], functions: dict[int, list[ReportedFunction]]
) -> frozenset[int]:
    """Add the thunks that gcc puts into the section of their function: those of functions that many units may have.

    All others have sections of their own, as all of clang's. What a report or another address names is one of these.

    Return the addresses of thunks that share their bodies with others whose names are not known: if a function ignores
    its object, `_ZThn8_` and `_ZThn16_` are the same code. So they may be where a thunk is as long as its function.
    """
    by_heat = sorted(classes, key=lambda each: not each.is_cold)  # a function with a cold part is not that
    class_of = {name: each for each in by_heat for name in each.names}
    thunks = _thunks_of(image, bodies, class_of)
    vaddrs_of: dict[str, set[int]] = {}
    for thunk in thunks:
        vaddrs_of.setdefault(thunk.symbol, set()).add(thunk.vaddr)
    known = {(thunk.vaddr, thunk.function) for thunk in thunks}  # each function has one thunk there
    starts = _addresses_of(image, bodies, {thunk.function for thunk in thunks}) if thunks else {}
    found: set[int] = set()
    done: set[tuple[int, str]] = set()  # gold leaves the symbols of the folded ones: each would ask for all
    for symbol, vaddr, function, section in thunks:
        if (vaddr, section.names[0]) in done:
            continue
        prefix = symbol[: len(symbol) - len(function) + len("_Z")]
        others = [_complete(name) for name in section.names if name.startswith("_Z")]
        others = [name for name in others if (vaddr, name) not in known]
        names = [prefix + name[2:] for name in others]
        if any(name in class_of for name in names):
            continue
        done.add((vaddr, section.names[0]))
        if not names:
            continue
        if image.linker.kept_symbols is KeptSymbols.SOME and _ignores_object(bodies, vaddr, starts.get(function, ())):
            found.add(vaddr)
            continue
        known.update((vaddr, name) for name in others)
        names = [name for name in names if not vaddrs_of.get(name, {vaddr}) - {vaddr}]
        functions.setdefault(vaddr, []).extend(map(ReportedFunction, names))
    return frozenset(found)


def _thunks_of(image: Image, bodies: Bodies, class_of: dict[str, _Class]) -> list[_Thunk]:
    """Return the thunks of the image that may be in the section of a function with one of these names."""
    symbols = image.symbols
    at = np.flatnonzero(symbols.begin_with(_THUNKS, bodies.symbol_rows))
    rows, vaddrs = bodies.symbol_rows[at], bodies.symbol_value[at].tolist()
    has_own = (symbols.bind[rows] == STB_GLOBAL).tolist()  # weak functions become local where they are not exported
    found = []
    for symbol, vaddr, has_section in zip(symbols.names(rows.tolist()), vaddrs, has_own, strict=True):
        function = thunk_target(symbol)
        section = class_of.get(function) or class_of.get(_of_base(function))
        if section is not None and not has_section and not is_of_one_unit(symbol):
            found.append(_Thunk(symbol, vaddr, function, section))
    return found


def _of_base(function: str) -> str:
    """Return the base object destructor, after which gcc names the section of a destructor that is both."""
    return f"{function.removesuffix(_COMPLETE)}{_BASE}" if _is_destructor(function, _COMPLETE) else function


def _complete(function: str) -> str:
    """Return the complete object destructor, of which thunks are."""
    return f"{function.removesuffix(_BASE)}{_COMPLETE}" if _is_destructor(function, _BASE) else function


def _is_destructor(function: str, kind: str) -> bool:
    return function.endswith(kind) and "::~" in demangle(function)


def _ignores_object(bodies: Bodies, thunk: int, functions: Iterable[int]) -> bool:
    """Return whether a thunk may be without a step from one object to the other; its function is in its section."""
    if len(bodies.dwarf_at(thunk)):
        return False  # clang's, which is described, and has a section of its own
    before = [vaddr for vaddr in functions if vaddr < thunk]
    return not before or bodies.end_of(max(before)) - max(before) == bodies.end_of(thunk) - thunk


def _may_lack_names(image: Image, bodies: Bodies, vaddr: int, count: int) -> bool:
    """Return whether some of so many functions at an address may be missing.

    mold drops symbols, gold keeps debug information; not all units need have it.
    """
    kept = image.linker.kept_symbols
    return kept is KeptSymbols.SOME or (kept is KeptSymbols.GLOBAL and len(bodies.dwarf_at(vaddr)) < count)


def _addresses_of(image: Image, bodies: Bodies, names: set[str]) -> dict[str, set[int]]:
    """Return addresses of the function symbols with these names.

    Where `f.lto_priv.0` is none of them it counts as `f`, as the section of a thunk has it.
    """
    symbols = image.symbols
    rows = bodies.symbol_rows
    hashes = symbols.hashes(rows, of_kin=True)
    wanted = distinct(hash_names(sorted(names), of_kin=True))
    found: dict[str, set[int]] = {}
    at = np.flatnonzero(is_in(hashes, wanted))
    for name, vaddr in zip(symbols.names(rows[at].tolist()), bodies.symbol_value[at].tolist(), strict=True):
        own = name if name in names else name_in_section(name)
        if own in names:
            found.setdefault(own, set()).add(vaddr)
    return found


def _global_addresses(image: Image, names: set[str]) -> dict[str, int]:
    """Return where the functions with these names are that have a symbol which is not local."""
    symbols, ordered = image.symbols, sorted(names)
    rows = symbols.functions
    rows = rows[symbols.bind[rows] != STB_LOCAL]
    by_hash = dict(zip(hash_names(ordered).tolist(), ordered, strict=True))
    hashes = symbols.hashes(rows)
    at = np.flatnonzero(is_in(hashes, np.array(sorted(by_hash), np.uint64)))
    found = zip(hashes[at].tolist(), symbols.value[rows[at]].tolist(), strict=True)
    return {by_hash[value]: vaddr for value, vaddr in found}
