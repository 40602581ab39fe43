"""The scan of an image, which threads make while the steps of the pass are imported.

    this thread      open: units, sections   import the steps    fold classes      records ...
    other threads                            scan    bodies      jumps through pointers

The threads import nothing: a signal that ends the process must not find two threads that import. So this module
imports all that they need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from icf.dwarf.opening import open_debug
from icf.dwarf.runs import thread_count
from icf.dwarf.scan import Scan, scan_functions
from icf.dwarf.units import DebugInfo
from icf.elf import compression, notes, plt, relocations  # noqa: F401 - the threads use them
from icf.elf.image import Image
from icf.elf.types import Machine
from icf.folds.functions import Bodies, find_bodies
from linkpass.background import Background
from linkpass.pointer_jumps import PointerJumps, find_pointer_jumps


class Scanned(NamedTuple):
    """The functions and call sites that DWARF describes, and all bodies."""

    scan: Scan
    bodies: Bodies


class Scanning(NamedTuple):
    """An image that is being scanned; the functions wait for their results."""

    debug: DebugInfo
    scanned: Callable[[], Scanned]
    pointers: Callable[[], PointerJumps]


def start_scan(image: Image, threads: int | None = None, background: Background | None = None) -> Scanning:
    """Begin to scan an image; without `background` it is scanned now, and its jumps are found on first use."""
    debug = open_debug(image)
    _import_decoder(image.machine)
    count = threads or thread_count()
    scan = partial(_scan, image, debug, count)
    if background is None:
        done = scan()
        return Scanning(debug, lambda: done, lambda: _find_jumps(image, done, count))
    scanned = background.start(scan)
    return Scanning(debug, scanned, background.start(lambda: _find_jumps(image, scanned(), count)))


def _scan(image: Image, debug: DebugInfo, threads: int) -> Scanned:
    scan = scan_functions(debug, threads)
    return Scanned(scan, find_bodies(image, scan.functions))


def _find_jumps(image: Image, scanned: Scanned, threads: int) -> PointerJumps:
    return find_pointer_jumps(image, scanned.bodies, scanned.scan.functions, threads)


def _import_decoder(machine: Machine) -> None:
    """Import what `icf.code.flow` imports on first use, for images of one machine."""
    if machine is Machine.AARCH64:
        import icf.code._aarch64
    else:
        import icf.code._x86_64
        import icf.code.x86_64_opcodes  # noqa: F401
