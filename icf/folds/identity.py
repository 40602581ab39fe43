"""Which source function a DIE describes: its names, and the declaration it goes back to.

Strings are decoded for the few DIEs that matter; all others are compared by hash.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.aliases import is_of_one_unit
from icf.columns import I64, U64, Mask
from icf.dwarf.clone_names import clone_names
from icf.dwarf.columns import COMP_DIR, LANGUAGE, NAME, OFFSET
from icf.dwarf.constants import DW_LANG_C_names
from icf.dwarf.dies import resolve
from icf.dwarf.method_classes import MethodClasses
from icf.dwarf.units import DebugInfo
from icf.elf.types import source_name
from icf.folds.member import NOWHERE
from icf.sets import distinct
from icf.string_kinds import IN_STR, STRING_KIND

_MANY = 8  # the fewest that stay at hand are one for so many that do


class Described(NamedTuple):
    """The names that DWARF has for a function."""

    linkage: str  # linkage name, "" if DWARF has none; for C the name
    name: str
    external: bool
    root: int  # the DIE at the end of the chain of origins
    decl_line: int
    from_abstract: bool  # code of an abstract instance: of the function itself, or of a clone that gcc made


class Columns(NamedTuple):
    """What DIEs, ascending, describe; names are references (see `DebugInfo.string`) and hashes (see `icf.strings`)."""

    die: U64
    linkage_name: U64
    name: U64
    external: Mask
    root: U64
    decl_line: U64
    from_abstract: Mask
    name_hash: U64  # of the linkage name, or else of the name
    kin_hash: U64

    def rows(self, at: I64 | NDArray[np.intp]) -> Columns:
        """Return some of them."""
        return Columns(*(column[at] for column in self))  # type: ignore[arg-type]  # each as it was

    def with_others(self, others: Columns) -> Columns:
        """Return these and others, none of them twice."""
        both = Columns(*map(np.concatenate, zip(self, others, strict=True)))  # type: ignore[arg-type]  # as they were
        return both.rows(np.argsort(both.die, kind="stable"))


class Identities:
    """The described functions of one image, read once each."""

    def __init__(self, debug: DebugInfo) -> None:
        self.debug = debug
        self.str_offsets: dict[str, int] = {}  # linkage name -> its offset in .debug_str
        self._known: dict[int, Described] = {}
        self._texts: dict[int, str] = {0: ""}
        self._files: dict[int, str] = {}  # by unit
        self._classes: dict[int, str] = {}  # of methods, by the DIEs of their declarations
        self._methods: MethodClasses | None = None
        self._columns: Columns | None = None

    def forget(self) -> None:
        """Drop what was read; it is read again when it is asked for."""
        self._known.clear()
        self._texts = {0: ""}
        self._columns = None
        self._classes.clear()
        self._methods = None

    def columns(self, dies: U64) -> Columns:
        """Return what each of the DIEs, ascending, describes. Many that are read together stay at hand."""
        known = self._columns
        if known is None or not len(known.die):
            self._columns = _read_columns(self.debug, dies)
            return self._columns
        at = np.minimum(np.searchsorted(known.die, dies), len(known.die) - 1)
        is_known = known.die[at] == dies
        if is_known.all():
            return known.rows(at)
        read = _read_columns(self.debug, dies[~is_known])
        if len(read.die) >= len(known.die) // _MANY:
            self._columns = known.with_others(read)
        return known.rows(at[is_known]).with_others(read)

    def of(self, dies: Iterable[int]) -> list[Described]:
        """Return what each of the DIEs describes, in their order."""
        dies = list(dies)
        unknown = set(dies).difference(self._known)
        if unknown:
            offsets = np.array(sorted(unknown), np.uint64)
            self.learn(self.columns(offsets))
        return [self._known[die] for die in dies]

    def learn(self, known: Columns) -> None:
        """Read the names of these DIEs."""
        languages = self.debug.units[self.debug.unit_of(known.die), LANGUAGE].tolist()
        self._read_texts(distinct(np.concatenate([known.linkage_name, known.name])))
        clones = clone_names(self.debug, np.where(known.linkage_name == 0, known.name, np.uint64(0)), known.root)
        columns = known.linkage_name, known.name, known.external, known.root, known.decl_line, known.from_abstract
        rows = zip(known.die.tolist(), languages, *(column.tolist() for column in columns), strict=True)
        for at, row in enumerate(rows):
            die, language, linkage_reference, name_reference, external, root, line, from_abstract = row
            name = clones.get(at) or self._text(name_reference)
            linkage = self._text(linkage_reference)
            if linkage and linkage_reference >> 60 == 2:  # a reference out of .debug_str reads as the empty string
                self.str_offsets[linkage] = linkage_reference & (1 << 60) - 1
            if not linkage and language in DW_LANG_C_names:
                linkage = name
            self._known[die] = Described(linkage, name, external, root, line, from_abstract)

    def hashes(self, references: U64, *, of_kin: bool = False) -> U64:
        """Return a hash of each referenced string, or of its kin (see `aliases.kin`); 0 for none."""
        return self.debug.string_hashes(references, of_kin=of_kin)

    def files_of(self, dies: Iterable[int]) -> frozenset[str]:
        """Return the file names of the units that hold the DIEs, spelled as STT_FILE symbols.

        None for code of many sources.
        """
        return frozenset(self._file_of_unit(bisect_right(self._unit_starts, die) - 1) for die in dies) - {""}

    def classes_of(self, dies: Iterable[int]) -> list[str]:
        """Return the name of the class of each method, without its scopes; "" for a function without an object."""
        roots = [described.root for described in self.of(dies)]
        new = sorted(set(roots).difference(self._classes))
        if new:
            self._methods = self._methods or MethodClasses(self.debug)
            self._classes.update(zip(new, self._methods.of(new), strict=True))
        return [self._classes[root] for root in roots]

    def tells_linkage(self, die: int) -> bool:
        """Return whether a DIE tells which linkage its function has: clang -g1 does not, and leaves out lines, too."""
        if self.of([die])[0].decl_line:
            return True
        unit = bisect_right(self._unit_starts, die) - 1
        return self.debug.is_of_gcc(unit)

    def files_of_units(self) -> list[str]:
        """Return the file name of each unit, spelled as in STT_FILE symbols."""
        return [self._file_of_unit(unit) for unit in range(len(self.debug.units))]

    def paths_of_units(self) -> list[tuple[bytes, bytes]]:
        """Return the path of the source file of each unit, and the directory in which it was compiled."""
        references = self.debug.units[:, [NAME, COMP_DIR]].tolist()
        return [(self.debug.string(name), self.debug.string(directory)) for name, directory in references]

    @cached_property
    def _unit_starts(self) -> list[int]:
        starts: list[int] = self.debug.units[:, OFFSET].tolist()
        return starts

    def _file_of_unit(self, unit: int) -> str:
        file = self._files.get(unit)
        if file is None:
            name = self.debug.string(int(self.debug.units[unit, NAME])).decode("utf-8", "replace")
            file = self._files[unit] = source_name(name.rsplit("/", 1)[-1])
        return file

    def _read_texts(self, references: U64) -> None:
        """Read strings together, which is faster than one by one."""
        new = [reference for reference in references.tolist() if reference not in self._texts]
        for reference, text in zip(new, self.debug.strings(np.array(new, np.uint64)), strict=True):
            self._texts[reference] = text.decode("utf-8", "surrogateescape")

    def _text(self, reference: int) -> str:
        text = self._texts.get(reference)
        if text is None:
            text = self._texts[reference] = self.debug.string(reference).decode("utf-8", "surrogateescape")
        return text


def offsets_in_debug_str(references: U64) -> I64:
    """Return where names are in .debug_str, NOWHERE for those that are not there."""
    offsets = (references & np.uint64((1 << STRING_KIND) - 1)).astype(np.int64)
    return np.where(references >> np.uint64(STRING_KIND) == IN_STR, offsets, NOWHERE)


def _read_columns(debug: DebugInfo, dies: U64) -> Columns:
    found = resolve(debug, dies)
    external = found.external.copy()
    # clang describes thunks, without a name, and says of all that they have external linkage
    thunks = np.flatnonzero(external & (found.name == 0) & (found.linkage_name != 0))
    names = debug.strings(found.linkage_name[thunks])
    external[thunks] = [not is_of_one_unit(name.decode("utf-8", "replace")) for name in names]
    hashes = debug.name_hashes(np.where(found.linkage_name != 0, found.linkage_name, found.name))
    return Columns(
        dies, found.linkage_name, found.name, external, found.root, found.decl_line, found.from_abstract, *hashes
    )
