"""What each linker does with functions that it folds: one record per linker, the only place that has their names.

    gold   drops the symbols of folded local functions; debug information keeps the kept copy's addresses
    lld    keeps all symbols; overwrites the addresses of folded functions in debug information
    mold   drops symbols of folded functions of every kind, and overwrites addresses as lld does
    bfd    folds nothing (GNU ld)

`icf.elf.notes` finds the linker of an image, `linkpass.link.command` that of a link command. GNU ld leaves no
signature, so an image without a signature counts as its work. In `BFD`, as in `UNKNOWN`, no field but
`folds_functions` therefore promises anything that would be wrong of another linker.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class KeptSymbols(Enum):
    """The symbols of folded functions that are left in an image which has not been stripped."""

    ALL = auto()  # each name, at the address of the kept copy; with -x no local ones
    GLOBAL = auto()  # those of local functions are dropped
    SOME = auto()  # any may be dropped
    UNKNOWN = auto()

    @property
    def may_lack_some(self) -> bool:
        """Whether the linker is known to drop symbols of functions that it folds."""
        return self in (KeptSymbols.GLOBAL, KeptSymbols.SOME)


class HiddenSymbols(Enum):
    """Where the symbol table has the symbols that the linker makes local (hidden ones, and by version scripts)."""

    WITH_THEIR_FILE = auto()  # after the STT_FILE symbol of the file that defines them
    AFTER_NAMELESS_FILE = auto()  # after an STT_FILE symbol that has no name
    AFTER_ALL_FILES = auto()  # after the symbols of the last file, which does not define them
    AFTER_ANY_FILE = auto()  # after the STT_FILE symbol of some file, which may not define them


class Linker(NamedTuple):
    """What one linker does."""

    name: str  # as users write it after -fuse-ld=; "" where it is not known

    # Folding
    folds_functions: bool  # it knows --icf
    may_fold_data: bool  # two vtables may share one address
    may_fold_imports: bool  # two imports whose modules have them at one address count as equal
    # callers are equal if their callees were folded, even where the calls name different symbols
    may_fold_by_target: bool
    folds_before_keeping: bool  # it folds first, then unfolds what --keep-unique names: callers stay folded
    lacks_keep_unique: bool  # it folds, and has no --keep-unique

    # What folded functions leave in the image
    kept_symbols: KeptSymbols
    hidden_symbols: HiddenSymbols
    overwrites_addresses: bool  # in debug information those of folded functions become a tombstone, 0 or 1
    relocations_restore: bool  # with --emit-relocs the relocations of debug sections hold the overwritten addresses

    # Options
    takes_lto_plugin: bool  # LTO is a plugin's (-plugin-opt=obj-path=); else the linker's own (--lto-obj-path=)
    strips_all_with_debug: bool  # -S leaves out all symbols, too
    colours: bool  # it knows --color-diagnostics
    is_translated: bool  # it words its messages, and the report, in the user's language


GOLD = Linker(
    name="gold",
    folds_functions=True,
    may_fold_data=False,
    may_fold_imports=False,
    may_fold_by_target=True,
    folds_before_keeping=True,
    lacks_keep_unique=False,
    kept_symbols=KeptSymbols.GLOBAL,
    hidden_symbols=HiddenSymbols.AFTER_ALL_FILES,
    overwrites_addresses=False,
    relocations_restore=False,
    takes_lto_plugin=True,
    strips_all_with_debug=False,
    colours=False,
    is_translated=True,
)

LLD = Linker(
    name="lld",
    folds_functions=True,
    may_fold_data=True,
    may_fold_imports=False,
    may_fold_by_target=False,
    folds_before_keeping=False,
    lacks_keep_unique=False,
    kept_symbols=KeptSymbols.ALL,
    hidden_symbols=HiddenSymbols.WITH_THEIR_FILE,
    overwrites_addresses=True,
    relocations_restore=True,
    takes_lto_plugin=False,
    strips_all_with_debug=False,
    colours=True,
    is_translated=False,
)

MOLD = Linker(
    name="mold",
    folds_functions=True,
    may_fold_data=True,
    may_fold_imports=True,
    may_fold_by_target=True,
    folds_before_keeping=False,
    lacks_keep_unique=True,
    kept_symbols=KeptSymbols.SOME,
    hidden_symbols=HiddenSymbols.AFTER_ANY_FILE,
    overwrites_addresses=True,
    relocations_restore=False,  # the relocations against a folded section's symbol no longer name it
    takes_lto_plugin=True,
    strips_all_with_debug=True,
    colours=True,
    is_translated=False,
)

BFD = Linker(
    name="bfd",
    folds_functions=False,
    may_fold_data=True,
    may_fold_imports=False,
    may_fold_by_target=False,
    folds_before_keeping=False,
    lacks_keep_unique=False,
    kept_symbols=KeptSymbols.UNKNOWN,
    hidden_symbols=HiddenSymbols.AFTER_NAMELESS_FILE,
    overwrites_addresses=False,
    relocations_restore=False,
    takes_lto_plugin=True,
    strips_all_with_debug=False,
    colours=False,
    is_translated=True,
)

UNKNOWN = BFD._replace(
    name="", folds_functions=True, may_fold_imports=True, may_fold_by_target=True, relocations_restore=True
)

LINKERS = (GOLD, LLD, MOLD, BFD)


def linker_named(name: str) -> Linker:
    """Return the linker of that name, `UNKNOWN` if there is none."""
    return next((linker for linker in LINKERS if linker.name == name), UNKNOWN)
