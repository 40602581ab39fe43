"""Model, formats, images and the command `icf`. `linkpass` and `unwind` import this package; it imports neither.

    model        the terms of the project as types
    aliases      linkage names of one source function
    image        what images of every format have in common; opens them
    elf/         images, objects, archives
    dwarf/       debug information
    debugfiles/  finds debug information outside of the image
    code/        machine code
    vtables/     virtual tables, their classes
    folds/       fold classes: which functions share a body
    tables/      reads and writes .debug_dcall, .debug_vcall, .debug_icf and the annotations of objects
    linkinputs/  the objects of a link, link maps, response files
    columns      the types of columns
    linkers      what each linker keeps, drops, overwrites and folds
    cli          the command `icf`; its commands are in cmd_* here, in `linkpass` and in `unwind`

`__all__` is the public interface; everything else may change between versions.

A `_name.py` is a kernel: an install compiles it; without a compiler it runs as plain Python (`icf.kernels`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icf.errors import FormatError as FormatError
    from icf.errors import IcfError as IcfError
    from icf.errors import UnsupportedError as UnsupportedError
    from icf.image import Image as Image
    from icf.image import open_image as open_image
    from icf.model import Evidence as Evidence
    from icf.model import Verdict as Verdict
    from icf.tables.load import Tables as Tables
    from icf.tables.load import load_tables as load_tables

__version__ = "0.1.0"
_HOME = {  # imported on first use
    "Evidence": "icf.model",
    "FormatError": "icf.errors",
    "IcfError": "icf.errors",
    "Image": "icf.image",
    "Tables": "icf.tables.load",
    "UnsupportedError": "icf.errors",
    "Verdict": "icf.model",
    "load_tables": "icf.tables.load",
    "open_image": "icf.image",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'icf' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
