"""The pass: opens the image; threads scan it while the steps are imported, and copy it while this thread makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_with_debug
from icf.elf.image import Image
from icf.tables import ANNOTATION_SECTION
from linkpass.background import Background
from linkpass.options import Options, Summary
from linkpass.rewrite.outputs import plan_outputs
from linkpass.scanning import start_scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from icf.folds.report import FoldedSections
    from icf.tables.dcall import DirectCalls
    from icf.tables.foldtable import IcfTable
    from linkpass.evidence.annotated import Annotations
    from linkpass.linked import Linked
    from linkpass.objects.functions import LinkObjects
    from linkpass.rewrite.layout import Layout

    Inspect = Callable[[Linked, IcfTable, DirectCalls], None]

__all__ = ["SWITCH_INTERVAL_S", "Options", "Summary", "prepare", "run_pass"]

# how long a thread between two kernels waits for the interpreter; the default is five times as long
SWITCH_INTERVAL_S = 0.001


def prepare() -> None:
    """Import the modules that a pass otherwise imports on first use; for a caller that waits for an image."""
    import pycxxfilt

    from linkpass import steps
    from linkpass.evidence import object as evidence_object
    from linkpass.pointers import slots_by_object, taken_by_object
    from linkpass.rewrite import check

    _ = pycxxfilt, steps, evidence_object, check, slots_by_object, taken_by_object


def run_pass(
    path: str,
    options: Options,
    report: list[FoldedSections] | None = None,
    objects: LinkObjects | None = None,
    laid_out: Callable[[Layout], None] | None = None,
    inspect: Inspect | None = None,
    beside: Callable[[], None] | None = None,
) -> Summary:
    """Put the tables into the image at `path`, or its debug file. On failure the input stays as it is.

    Args:
        path: the linked image.
        options: those of `icf pass`.
        report: the report that `options.icf_report` names, if it has been parsed already.
        objects: the objects that `options.objects` names, if they have been read already.
        laid_out: is called with the layout of the image, if the tables went into it.
        inspect: is called with what was found, if the image did not have its tables already.
        beside: is called by a thread when the others have read the image, and most of the pass has one thread.

    Returns:
        What the pass found and wrote.

    Raises:
        FormatError: an input breaks its format.
        UnsupportedError: the image is of a kind that is not supported.
        IcfError: any other error of an input, or an output that cannot be written.
    """
    report = _read_report(options) if report is None else report
    objects = _open_objects(options) if objects is None else objects
    with (
        open_with_debug(path, options.debug_file, options.debug_roots, in_build=True, needs_code=True) as image,
        Background() as background,
    ):
        outputs = plan_outputs(image, options.out, options.debug_out, in_image=options.in_image)
        target = image if outputs.debug is None else image.debug
        if target.section(".debug_icf") is not None and report is None and objects is None:
            from linkpass.steps import copy_tables

            return copy_tables(image, outputs, options)
        scanning = start_scan(image, options.threads, background)
        from linkpass.rewrite.writing import OutputFiles
        from linkpass.steps import sections_to_remove, write_tables

        annotations = _annotations(image)
        removals = sections_to_remove(image, options, annotations)
        with OutputFiles(image, outputs, removals, is_durable=options.is_durable, laid_out=laid_out) as files:
            files.copy_ahead(background)
            if beside is not None:
                background.start(beside)
            return write_tables(image, scanning, files, options, report, objects, annotations, inspect)


def _annotations(image: Image) -> Annotations | None:
    """Return the annotations that objects left in the image."""
    if image.named(ANNOTATION_SECTION) is None:
        return None
    from linkpass.evidence.annotated import Annotations

    return Annotations.read(image)


def _read_report(options: Options) -> list[FoldedSections] | None:
    """Return the linker's report, if one is given."""
    if options.icf_report is None:
        return None
    from pathlib import Path

    from icf.folds.report import parse_icf_report

    return parse_icf_report(Path(options.icf_report))


def _open_objects(options: Options) -> LinkObjects | None:
    """Return the objects of the link, if any were given."""
    if not options.objects:
        return None
    from icf.linkinputs.inputs import open_inputs
    from linkpass.objects.functions import LinkObjects

    return LinkObjects(open_inputs(options.objects, pipes=options.named_objects))
