"""Plain members, found for all bodies at once: one symbol, and DIEs of its name or none.

    symbols at A     _Z1fv  _Z1hv  _ZN3CatC1Ev  _ZN3CatC2Ev  _Z1gv.cold
    DIEs at A        <_Z1fv> of a.cc, <_Z1fv> of b.cc, <_ZN3CatC4Ev>, <_Z1gv>
    plain            _Z1fv: its symbol, both DIEs
                     _Z1hv: its symbol, which has external linkage; its DIEs are tombstoned, or there are none
    left             the rest: two symbols of one constructor, a part of a function

Bodies of visitors have thousands of members, and nearly all are like this. Names are compared by their hashes, and
by those of their kin (see `aliases.kin`): if a kin has exactly one symbol and DIEs of the same name at a body, nothing
else there can belong to that member. Nor can a local function of that name in another unit: all DIEs of a local symbol
lead to one declaration, and those of a global one are not local. `members.match` handles the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf.columns import LANGUAGE
from icf.dwarf.constants import DW_LANG_C_names
from icf.dwarf.scan import Functions
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.folds.body_members import KEPT, REMOVED, UNKNOWN, PlainRows
from icf.folds.functions import Bodies
from icf.folds.identity import Identities, offsets_in_debug_str
from icf.sets import distinct_pairs, is_in, is_one_of, runs


class Plain(NamedTuple):
    """Plain members, and the symbols and DIEs they consist of."""

    rows: PlainRows
    runs: dict[int, range]  # address of a body -> its rows
    symbol_taken: Mask  # for each row of the symbol table
    function_taken: Mask  # for each row of `Functions`


class _Symbols(NamedTuple):
    """The function symbols at the shared addresses."""

    vaddr: U64
    row: I64
    name_hash: U64
    kin_hash: U64


class _Dies(NamedTuple):
    """The functions of DWARF at the shared addresses."""

    vaddr: U64
    row: I64
    die: U64
    root: U64
    linkage: U64  # string reference
    name_hash: U64  # of the linkage name; 0 if it is not known
    kin_hash: U64  # of the linkage name, or else of the name
    is_local: Mask  # without a linkage name and not external: a global function may have the same name


def find_plain(
    image: Image,
    bodies: Bodies,
    functions: Functions,
    identities: Identities,
    shared: U64,
    lost: frozenset[int] | None,
) -> Plain:
    """Return the plain members at shared addresses.

    `lost` are the DIEs there whose address was a tombstone, None if the image does not show that.
    """
    symbols, dies = _symbols_at(image, bodies, shared), _dies_at(bodies, functions, identities, shared)
    symbol_kin, die_kin, kin_count = _number(symbols, dies)
    name_of_kin = np.zeros(kin_count, np.uint64)
    name_of_kin[symbol_kin] = symbols.name_hash
    is_local = np.zeros(kin_count, np.bool_)
    is_local[symbol_kin[image.symbols.bind[symbols.row] == STB_LOCAL]] = True
    is_plain = np.bincount(symbol_kin, minlength=kin_count) == 1
    is_plain &= ~is_local | (np.bincount(die_kin, minlength=kin_count) > 0)
    root_of_kin = np.zeros(kin_count, np.uint64)
    root_of_kin[die_kin] = dies.root
    is_plain[die_kin[is_local[die_kin] & (dies.root != root_of_kin[die_kin])]] = False
    is_plain[die_kin[dies.name_hash != name_of_kin[die_kin]]] = False
    is_plain[die_kin[~is_local[die_kin] & dies.is_local]] = False
    if image.linker.kept_symbols.may_lack_some:
        is_plain[_of_other_units(image, identities, symbols, dies, symbol_kin, die_kin, is_plain & is_local)] = False

    symbol_taken = np.zeros(image.symbols.count, np.bool_)
    function_taken = np.zeros(len(functions.die), np.bool_)
    symbol_taken[symbols.row[is_plain[symbol_kin]]] = True
    function_taken[dies.row[is_plain[die_kin]]] = True

    # by kin: one symbol, and a run of DIEs, which may be empty
    own_symbols, own_dies = _by_kin(symbol_kin, symbols.row, is_plain), _by_kin(die_kin, dies.die, is_plain)
    kin, die = die_kin[own_dies], dies.die[own_dies]
    # two ranges of a DIE may begin at one address
    fresh = np.append(True, (kin[1:] != kin[:-1]) | (die[1:] != die[:-1]))[: len(kin)]
    own_dies, kin, die = own_dies[fresh], kin[fresh], die[fresh]
    start, end = (np.searchsorted(kin, symbol_kin[own_symbols], side=side) for side in ("left", "right"))
    described = np.flatnonzero(start < end)
    count = len(own_symbols)
    linkage = np.zeros(count, np.uint64)
    linkage[described] = dies.linkage[own_dies[end[described] - 1]]
    kept = np.full(count, UNKNOWN, np.int8)
    if lost is not None and len(described):
        is_kept = np.logical_or.reduceat(~is_in(die, np.array(list(lost), np.uint64)), start[described])
        kept[described] = np.where(is_kept, KEPT, REMOVED)

    rows = PlainRows(
        symbol=symbols.row[own_symbols],
        symbols=image.symbols,
        is_local=is_local[symbol_kin[own_symbols]],
        alone=np.zeros(count, np.bool_),
        kept=kept,
        str_offset=offsets_in_debug_str(linkage),
        start=np.append(start, len(die)),
        die=die,
        root=dies.root[own_dies],
        files_of=_files_of(image, identities),
    )
    bodies_of_rows = zip(*(column.tolist() for column in runs(symbols.vaddr[own_symbols])), strict=True)
    return Plain(rows, {vaddr: range(a, b) for vaddr, a, b in bodies_of_rows}, symbol_taken, function_taken)


def find_alone(
    image: Image, bodies: Bodies, functions: Functions | None, identities: Identities | None, vaddrs: U64
) -> tuple[PlainRows, U64]:
    """Return the members of bodies that are not shared, and the body of each: those of bodies with one symbol.

    All DIEs at such a body are its member's, whatever their name.
    """
    first = np.searchsorted(bodies.symbol_value, vaddrs)
    is_one = np.searchsorted(bodies.symbol_value, vaddrs, side="right") - first == 1
    vaddrs, symbol = vaddrs[is_one], bodies.symbol_rows[first[is_one]]
    start, die, root = np.zeros(len(vaddrs) + 1, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64)
    linkage = np.zeros(len(vaddrs), np.uint64)
    if functions is not None and identities is not None:
        at = is_in(bodies.dwarf_low, vaddrs)
        low, die = distinct_pairs(bodies.dwarf_low[at], functions.die[bodies.dwarf_rows[at]])
        described, which = np.unique(die, return_inverse=True)
        known = identities.columns(described).rows(which)
        root, start = known.root, np.append(np.searchsorted(low, vaddrs), len(low))
        owner = np.repeat(np.arange(len(vaddrs)), np.diff(start))
        hashes = image.symbols.hashes(symbol)
        is_named = (known.linkage_name != 0) & (known.name_hash == hashes[owner])
        linkage[owner[is_named]] = known.linkage_name[is_named]
    rows = PlainRows(
        symbol=symbol,
        symbols=image.symbols,
        is_local=image.symbols.bind[symbol] == STB_LOCAL,
        alone=np.ones(len(symbol), np.bool_),
        kept=np.full(len(symbol), UNKNOWN, np.int8),
        str_offset=offsets_in_debug_str(linkage),
        start=start,
        die=die,
        root=root,
        files_of=_files_of(image, identities),
    )
    return rows, vaddrs


def _files_of(image: Image, identities: Identities | None) -> Callable[[int, list[int]], frozenset[str]]:
    def files_of(symbol: int, dies: list[int]) -> frozenset[str]:
        described = frozenset[str]() if identities is None else identities.files_of(dies)
        return described | ({image.symbols.file_name(symbol)} - {""})

    return files_of


def _symbols_at(image: Image, bodies: Bodies, shared: U64) -> _Symbols:
    at = is_in(bodies.symbol_value, shared)
    rows = bodies.symbol_rows[at]
    exact, kin = image.symbols.hashes(rows), image.symbols.hashes(rows, of_kin=True)
    return _Symbols(bodies.symbol_value[at], rows, exact, kin)


def _dies_at(bodies: Bodies, functions: Functions, identities: Identities, shared: U64) -> _Dies:
    at = is_in(bodies.dwarf_low, shared)
    rows = bodies.dwarf_rows[at]
    die = functions.die[rows]
    described, which = np.unique(die, return_inverse=True)
    known = identities.columns(described)
    debug = identities.debug
    is_c = is_one_of(debug.units[debug.unit_of(described), LANGUAGE], DW_LANG_C_names)
    name_hash = np.where((known.linkage_name != 0) | is_c, known.name_hash, np.uint64(0))
    return _Dies(
        vaddr=bodies.dwarf_low[at],
        row=rows,
        die=die,
        root=known.root[which],
        linkage=known.linkage_name[which],
        name_hash=name_hash[which],
        kin_hash=known.kin_hash[which],
        is_local=((known.linkage_name == 0) & ~known.external)[which],
    )


def _of_other_units(
    image: Image,
    identities: Identities,
    symbols: _Symbols,
    dies: _Dies,
    symbol_kin: I64,
    die_kin: I64,
    is_asked: Mask,
) -> list[int]:
    """Return the kins, of those asked for, whose local symbol is of another source file than their DIEs.

    The symbol of the function that these describe was dropped.
    """
    asked = np.flatnonzero(is_asked[die_kin])
    dies_of: dict[int, list[int]] = {}
    for kin, die in zip(die_kin[asked].tolist(), dies.die[asked].tolist(), strict=True):
        dies_of.setdefault(kin, []).append(die)
    own = np.flatnonzero(is_asked[symbol_kin])
    found = []
    for kin, row in zip(symbol_kin[own].tolist(), symbols.row[own].tolist(), strict=True):
        file, files = image.symbols.file_name(row), identities.files_of(dies_of.get(kin, ()))
        if file and files and file not in files:
            found.append(kin)
    return found


def _number(symbols: _Symbols, dies: _Dies) -> tuple[I64, I64, int]:
    """Return a number for each kin at each body: those of the symbols, those of the DIEs, how many there are."""
    vaddr = np.concatenate([symbols.vaddr, dies.vaddr])
    kin = np.concatenate([symbols.kin_hash, dies.kin_hash])
    order = np.lexsort((kin, vaddr))
    vaddr, kin = vaddr[order], kin[order]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(np.append(True, (vaddr[1:] != vaddr[:-1]) | (kin[1:] != kin[:-1]))[: len(order)]) - 1
    count = len(symbols.row)
    return number[:count], number[count:], int(number.max(initial=-1)) + 1


def _by_kin(kin: I64, value: U64 | I64, is_plain: Mask) -> I64:
    """Return rows of the plain ones, by kin and value."""
    rows = np.flatnonzero(is_plain[kin])
    return rows[np.lexsort((value[rows], kin[rows]))]
