"""Shared model, formats, images and the umbrella command; `linkpass` and `unwind` build on it, never the other way.

    model        the words of the project as types
    aliases      linkage names that are one function's
    image        what images of every format have in common, and how one is opened
    elf/         images, objects, archives
    dwarf/       debug information
    debugfiles/  where it is, if not in the image
    code/        machine code
    vtables/     virtual tables, their classes
    folds/       fold classes: who shares a body
    tables/      .debug_dcall, .debug_vcall, .debug_icf and what annotated objects carry: read and written
    linkinputs/  the objects of a link, link maps, response files
    columns      the types of columns
    linkers      what each linker keeps, drops, overwrites and folds
    cli          the command `icf`; its verbs are in cmd_* here, in `linkpass` and in `unwind`

A `_name.py` is a kernel: compiled by an install, plain Python where there is no compiler (`icf.kernels`).
"""

__version__ = "0.1.0"
