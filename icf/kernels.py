"""Which kernels run as machine code and which as plain Python.

A kernel is a `_name.py` that an install compiles if there is a C compiler. Without one the same file runs as Python,
with the same results, hundreds of times slower. Nothing fails then, so `icf --version` reports it. This module imports
no kernel: the place from which the import system would load one is enough.
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

# setup.py compiles them
KERNELS = (
    "icf._mangled",
    "icf._mangled_rust",
    "icf._strings",
    "icf.code._aarch64",
    "icf.code._branches",
    "icf.code._flow",
    "icf.code._x86_64",
    "icf.dwarf._abbrev",
    "icf.dwarf._children",
    "icf.dwarf._line",
    "icf.dwarf._line_header",
    "icf.dwarf._ranges",
    "icf.dwarf._registers",
    "icf.dwarf._scan",
    "icf.dwarf._tombstones",
    "icf.dwarf._unit_headers",
    "icf.dwarf.cfi._rows",
    "icf.pdb._lines",
    "icf.pdb._symbols",
    "icf.tables._leb",
    "icf.vtables._methods",
    "unwind.arrow._spread",
    "unwind.readers.perf_data._samples",
    "unwind.resolve._follow",
    "unwind.samples._stack_columns",
    "unwind.samples._tree",
    "unwind.symbolize._write",
    "unwind.symcache.builder._encode",
    "unwind.symcache.builder._records",
    "unwind.symcache.reader._decode",
    "unwind.symcache.reader._look_up",
    "unwind.trace._records",
    "unwind.trace._stacks",
    "unwind.trace._stretches",
    "unwind.walk._expressions",
    "unwind.walk._walk",
    "unwind.writers._lines",
    "unwind.writers._stacks",
)


def is_compiled(kernel: str) -> bool:
    """Return whether importing `kernel` would load machine code."""
    package, *rest = kernel.split(".")
    spec = find_spec(package)  # a package within would be imported for its path
    folders = spec.submodule_search_locations if spec is not None else None
    return any(
        os.path.exists(os.path.join(at, *rest) + suffix) for at in folders or () for suffix in EXTENSION_SUFFIXES
    )


def kernel_status() -> str:
    """Return the text of `icf --version` about the kernels."""
    pure = [kernel for kernel in KERNELS if not is_compiled(kernel)]
    if not pure:
        return "kernels: compiled"
    return "kernels: pure Python (slow): " + ", ".join(pure)
