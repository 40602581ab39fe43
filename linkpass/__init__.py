"""What runs in a build: a pass over the linked image that writes down what each of its calls means.

    pipeline     the pass, as a list of steps
    linked       the image before its calls are looked at: bodies, their members, and the way back
    pointer_jumps, relocation_types    its calls and jumps through pointers; what its relocations say of their places
    objects/     what the objects of the link say, and where in the image they lie
    evidence/    who calls whom: relocations, objects, debug information, aligned call sites; collected into records
    pointers/    whose address is taken, what is in the slots of vtables, where calls through pointers lead
    tables/      from records to bytes, and back: `icf verify`
    second_reader/  the tables read by other code, to compare: `icf verify --second-reader`
    rewrite/     the tables into the image, with nothing else changed
    link/        `icf link`: understand a link command, run it, then the pass
    annotate     objects that carry what they know of their calls through any link
    keep_unique  which functions should stay unfolded

Commands are in cmd_*. `__all__` is the public interface; everything else may change between versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkpass.pipeline import Options as Options
    from linkpass.pipeline import Summary as Summary
    from linkpass.pipeline import run_pass as run_pass
    from linkpass.tables.verify import verify_image as verify_image

_HOME = {  # imported when they are first used
    "Options": "linkpass.pipeline",
    "Summary": "linkpass.pipeline",
    "run_pass": "linkpass.pipeline",
    "verify_image": "linkpass.tables.verify",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'linkpass' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
