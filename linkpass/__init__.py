"""The pass of a build: it runs over the linked image and writes which function each of its calls means.

    pipeline     the pass; `steps` lists what it does, `options` what it is asked for and what it reports
    scanning     the threads that read the image meanwhile
    linked       the image before calls are read: bodies, their members, and the way from symbols and DIEs to them
    pointer_jumps, relocation_types    calls and jumps through pointers; relocations by their types
    objects/     the objects of the link, and where their functions are in the image
    evidence/    which function calls which: relocations, objects, debug information, aligned call sites, as records
    pointers/    functions whose address is taken, slots of vtables, targets of calls through pointers
    tables/      from records to bytes, and back: `icf verify`
    second_reader/  other code that reads the tables, to compare: `icf verify --second-reader`
    rewrite/     puts the tables into the image, with nothing else changed
    link/        `icf link`: parses a link command, runs it, then the pass
    annotate     objects that carry their call targets through any link
    keep_unique  which functions should stay unfolded

Commands are in cmd_*. `__all__` is the public interface; everything else may change between versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkpass.options import Options as Options
    from linkpass.options import Summary as Summary
    from linkpass.pipeline import run_pass as run_pass
    from linkpass.tables.verify import verify_image as verify_image

_HOME = {  # imported on first use
    "Options": "linkpass.options",
    "Summary": "linkpass.options",
    "run_pass": "linkpass.pipeline",
    "verify_image": "linkpass.tables.verify",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'linkpass' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
