"""Names of constructors and destructors that gcc has under a name of its own.

gcc makes each constructor and destructor several times, as clones with names that no source can have. It describes the
clone itself where it knows no more: link-time optimization with -g of a file that was compiled without.

    DW_TAG_structure_type Nut
      DW_TAG_subprogram "__dt_base "          ~Nut
        DW_TAG_formal_parameter this          Nut *
    DW_TAG_subprogram "__ct_comp "            a constructor; no DIE knows its class
"""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.dwarf.method_classes import MethodClasses
from icf.dwarf.units import DebugInfo
from icf.sets import is_in
from icf.strings import hash_names

_CONSTRUCTORS = ("__ct ", "__ct_base ", "__ct_comp ")
_DESTRUCTORS = ("__dt ", "__dt_base ", "__dt_comp ", "__dt_del ")
_HASHES = np.sort(hash_names([*_CONSTRUCTORS, *_DESTRUCTORS]))
# words that are in no symbol together, so that no symbol counts as this function's
_CLASS_UNKNOWN = "<{} of an unknown class>"


def clone_names(debug: DebugInfo, names: U64, roots: U64) -> dict[int, str]:
    """Return what to call those functions whose DIEs have the name of such a clone, by row.

    Args:
        debug: the debug information.
        names: a reference of each function's DW_AT_name, or 0.
        roots: the DIE that declares each function.
    """
    rows = np.flatnonzero(is_in(debug.string_hashes(names), _HASHES))
    if not len(rows):
        return {}
    classes = MethodClasses(debug).of(roots[rows].tolist())
    texts = [text.decode("utf-8", "replace") for text in debug.strings(names[rows])]
    return {row: _spelled(text, name) for row, text, name in zip(rows.tolist(), texts, classes, strict=True)}


def _spelled(clone: str, class_name: str) -> str:
    is_destructor = clone in _DESTRUCTORS
    if not class_name:
        return _CLASS_UNKNOWN.format("destructor" if is_destructor else "constructor")
    return "~" * is_destructor + (class_name.partition("<")[0] or class_name)
