"""The program of a linked image: its tables, here or in its debug file, its symbols and its code.

With `.debug_icf` the fold classes, tail calls and evidence are those of the link pass. With only a
`.debug_dcall` the classes are computed for its records (`foreign`). Without tables, several symbols at
one address are candidates.
"""

from __future__ import annotations

from functools import partial

from icf.elf.image import Image
from icf.tables.place import ICF, file_with_tables, has_tables
from unwind.program.bound_slots import BoundSlots
from unwind.program.exports import Exports
from unwind.program.facts import ImageFacts
from unwind.program.from_tables import Tables, make_program, parse_tables
from unwind.program.functions import SymbolFunctions
from unwind.program.image_bound_slots import find_bound_slots, has_classes
from unwind.program.image_exports import ImageExports
from unwind.program.program import Linkage, Program

DCALL, VCALL = ".debug_dcall", ".debug_vcall"


def has_only_records(image: Image) -> bool:
    """Return whether the image has the proposal's table and not this project's: one of another tool or a compiler."""
    file = file_with_tables(image)
    return file.section(ICF) is None and len(file.contents(DCALL)) > 0


def read_tables(image: Image) -> Tables | None:
    """Return the tables that the link pass wrote for this code; None if there are none."""
    if not has_tables(image):
        return None
    file = file_with_tables(image)
    icf, dcall, vcall = (file.contents(name) for name in (ICF, DCALL, VCALL))
    return parse_tables(icf, dcall, vcall, file.path, image.debug.streamed(".debug_str"))


def load_program(image: Image, exports: Exports | None = None, linkage: Linkage | None = None) -> Program:
    """Return the program of `image`; sections are parsed now, symbols and code on first use.

    `linkage`: the module of a process that the image is; None: it stands alone.
    """
    exports = exports or ImageExports(image)
    if has_only_records(image):
        from unwind.program.from_foreign_tables import load_foreign

        return load_foreign(image, exports, linkage)
    functions = SymbolFunctions(image, folds_known=has_tables(image))
    bound_slots = BoundSlots(partial(find_bound_slots, image))
    facts, folds_imports = ImageFacts(image), may_fold_imports(image)
    return make_program(
        read_tables(image),
        facts,
        functions,
        exports,
        folds_imports,
        linkage,
        bound_slots=bound_slots,
        has_classes=has_classes(image),
    )


def may_fold_imports(image: Image) -> bool:
    """Return whether the linker takes imports for equal that lie at one address in the module they come from."""
    return image.linker.may_fold_imports
