"""The steps of a pass over a scanned image. Nothing is written before the tables have been checked.

    classes -> records (collect, merge, check) -> address-taken -> prune and lay out -> verify
        -> write -> check -> replace

Pruning is not a step of its own: the pass only ever reads calls that can end in a merged body.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from icf.debugfiles.stripped import STRIPPED_HINT, is_stripped
from icf.elf.image import Image
from icf.elf.types import SHT_RELA
from icf.errors import IcfError
from icf.linkers import KeptSymbols
from icf.model import ImageFlag
from icf.vtables.layout import Vtables
from linkpass.compiler_merging import find_compilers
from linkpass.evidence.collect import collect
from linkpass.linked import Linked
from linkpass.options import Options, Summary
from linkpass.pointers.address_taken import find_marks
from linkpass.pointers.object_types import find_object_types
from linkpass.pointers.virtual_calls import find_virtual
from linkpass.pointers.vtable_slots import find_slots
from linkpass.rewrite.outputs import Outputs
from linkpass.rewrite.writing import OutputFiles
from linkpass.tables.encode import Tables, build_tables, evidence_counts
from linkpass.tables.verify import check_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from icf.folds.report import FoldedSections
    from icf.folds.reported import Reported
    from icf.tables.dcall import DirectCalls
    from icf.tables.icftable import IcfTable
    from linkpass.evidence.annotated import Annotations
    from linkpass.keep_unique import KeepUnique
    from linkpass.objects.functions import LinkObjects
    from linkpass.pointers.slots_by_object import SlotsByObject
    from linkpass.scanning import Scanning


class _Found(NamedTuple):
    """The tables of an image, and what its summary says of the way to them."""

    linked: Linked
    tables: Tables
    by_register: dict[int, int]  # targets of calls through registers, by return address
    compilers: list[str]  # that may have merged functions without a trace
    open_calls: int
    indirect_calls: int
    dropped: dict[str, int]


def write_tables(
    image: Image,
    scanning: Scanning,
    files: OutputFiles,
    options: Options,
    report: list[FoldedSections] | None,
    objects: LinkObjects | None,
    annotations: Annotations | None,
    inspect: Callable[[Linked, IcfTable, DirectCalls], None] | None = None,
) -> Summary:
    """Put the tables of the image into its outputs; the sources of evidence are those that there are.

    `inspect` is called with what was found.
    """
    outputs = files.outputs
    target = image if outputs.debug is None else image.debug
    found = _find_tables(image, scanning, report, objects, annotations, apart=target is not image.debug)
    linked, tables = found.linked, found.tables
    linked.debug.trim_heap()
    problems = check_tables(image, tables.icf, tables.calls, tables.virtual_calls, found.by_register)
    if problems:  # an error of this program: every record was made from the code
        raise IcfError(f"{image.path}: tables do not fit the code: {problems[0]} (and {len(problems) - 1} more)")
    growths, edits = tables.growths(linked) if target is image.debug else ([], [])
    files.write([*edits, *tables.edits()], growths)
    keep_unique = _write_keep_unique(image, tables.icf, tables.calls, options)
    if inspect is not None:
        inspect(linked, tables.icf, tables.calls)
    folds = linked.folds.values()
    return Summary(
        image=image.path,
        out=outputs.image,
        tables_file=outputs.tables,
        debug_file=None if image.debug is image else image.debug.path,
        functions=len(linked.bodies.start),
        merged_bodies=len(folds),
        members=sum(len(fold.members) for fold in folds),
        records=len(tables.calls),
        records_by_evidence=evidence_counts(tables.icf),
        tail_calls=len(tables.icf.columns.tail_jump),
        open_calls=found.open_calls,
        virtual_calls=len(tables.virtual_calls),
        indirect_calls=found.indirect_calls,
        vtables=len(tables.icf.columns.vtable_vaddr),
        pointer_jumps=len(tables.icf.columns.pointer_jump),
        callbacks=len(tables.icf.columns.callback_site),
        dropped=found.dropped,
        declarations_added=len(tables.synthetic.dies),
        table_bytes=tables.size_bytes,
        debug_info_bytes=tables.synthetic.info_keep_bytes + len(linked.debug.more),
        unread_units=linked.debug.errors(),
        undescribed=len(linked.undescribed),
        merged_by_compiler=bool(found.compilers),
        merging_compilers=found.compilers,
        missing_debug_files=linked.debug.missing,
        keep_unique=keep_unique,
        is_self_contained=image.debug is image and not len(linked.debug.more) and not linked.debug.missing,
    )


def _find_tables(
    image: Image,
    scanning: Scanning,
    report: list[FoldedSections] | None,
    objects: LinkObjects | None,
    annotations: Annotations | None,
    *,
    apart: bool,
) -> _Found:
    """Return the tables; with `apart` they go into another file than the debug information."""
    reported = _reported(image, report, objects, annotations)
    vtables = Vtables(image)
    complete_objects, by_object = _complete_objects(image, reported, objects), _slots_by_object(image, vtables, objects)
    # waits for the scan, which began before this
    linked = Linked.read(image, reported, scanning)
    linked.debug.trim_heap()
    if not len(linked.bodies.start) and is_stripped(image):
        raise IcfError(f"{image.path}: is stripped: it has no symbols and no debug information", hint=STRIPPED_HINT)
    # waits for pointer jumps, which a thread may still be finding
    collected = collect(linked, objects, annotations)
    linked.finder.forget()
    linked.debug.trim_heap()
    marks = find_marks(linked, collected, vtables, complete_objects)
    virtual = find_virtual(linked, vtables, collected.reach, find_slots(linked, vtables, by_object))
    linked.debug.trim_heap()
    objects_of_calls = find_object_types(linked, vtables, collected.reach.pointers, marks, virtual)
    compilers = find_compilers(linked)
    image_flags = ImageFlag.MERGED_BY_COMPILER if compilers else ImageFlag.NONE
    linked.debug.trim_heap()
    return _Found(
        linked,
        build_tables(
            linked, collected, marks, vtables, virtual, objects_of_calls, apart=apart, image_flags=image_flags
        ),
        collected.reach.by_register(),
        compilers,
        len(collected.open_calls),
        virtual.indirect_calls,
        dict(Counter(collected.records.dropped) + virtual.dropped),
    )


def _reported(
    image: Image,
    report: list[FoldedSections] | None,
    objects: LinkObjects | None,
    annotations: Annotations | None,
) -> Reported | list[FoldedSections] | None:
    """Return the most reliable source for functions whose symbols the linker dropped: objects, report, or
    annotations.
    """
    kept = image.linker.kept_symbols
    if kept.may_lack_some and report is None and objects is None and annotations is not None:
        return annotations.reported()
    if not kept.may_lack_some or (objects is None and kept is KeptSymbols.GLOBAL):
        return report
    from linkpass.objects.placed_functions import find_reported

    return find_reported(image, report, objects)


def _complete_objects(
    image: Image, reported: Reported | list[FoldedSections] | None, objects: LinkObjects | None
) -> LinkObjects | None:
    """Return the objects, if no object of the link is missing."""
    if objects is None or (
        image.linker.kept_symbols.may_lack_some and (reported is None or isinstance(reported, list))
    ):
        return None
    from linkpass.pointers.taken_by_object import are_complete

    return objects if are_complete(image, objects) else None


def _slots_by_object(image: Image, vtables: Vtables, objects: LinkObjects | None) -> SlotsByObject | None:
    """Return the functions that the objects put into the slots of vtables."""
    if objects is None or not objects.objects:
        return None
    from linkpass.pointers.slots_by_object import SlotsByObject

    objects.index()
    return SlotsByObject(image, vtables, objects)


def _write_keep_unique(image: Image, table: IcfTable, calls: DirectCalls, options: Options) -> KeepUnique | None:
    """Write the functions to keep unfolded as options of the linker, if requested."""
    if options.keep_unique_out is None:
        return None
    from linkpass.keep_unique import find_keep_unique

    found = find_keep_unique(table.classes, table.tail_calls, calls, image.linker)
    try:
        with open(options.keep_unique_out, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(found.response_file())
    except OSError as error:
        raise IcfError(f"{options.keep_unique_out}: {error.strerror}") from error
    return found


def sections_to_remove(image: Image, options: Options, annotations: Annotations | None = None) -> list[str]:
    """Return the sections that the pass removes: annotations, and on request what --emit-relocs has put there.

    Those are the relocations that are not loaded.
    """
    names = []
    if options.drop_relocations:
        names = [section.name for section in image.sections if section.type == SHT_RELA and not section.is_alloc]
    return names if annotations is None else [*names, *annotations.sections(names)]


def copy_tables(image: Image, outputs: Outputs, options: Options) -> Summary:
    """Finish a pass over an image whose tables fit its code: they stay as they are."""
    from icf.tables.load import load_tables
    from icf.tables.place import file_with_tables
    from linkpass.tables.verify import verify_image

    problems = verify_image(image)
    tables = load_tables(image)
    if problems:
        raise IcfError(f"{image.path}: its tables do not fit its code: {problems[0]}", hint="link the program again")
    merged = [fold for fold in tables.icf.classes if fold.merged]
    summary = Summary(
        image=image.path,
        out=outputs.image,
        tables_file=outputs.tables,
        debug_file=None if image.debug is image else image.debug.path,
        functions=len(image.symbols.functions),
        merged_bodies=len(merged),
        members=sum(len(fold.members) for fold in merged),
        records=len(tables.direct),
        records_by_evidence=evidence_counts(tables.icf),
        tail_calls=len(tables.icf.tail_calls),
        virtual_calls=len(tables.virtual),
        vtables=len(tables.icf.vtables),
        pointer_jumps=len(tables.icf.pointer_jumps),
        callbacks=len(tables.icf.callbacks),
        table_bytes=sum(len(file_with_tables(image).streamed(name)) for name in tables.present),
        debug_info_bytes=len(image.debug.streamed(".debug_info")),
        merged_by_compiler=bool(tables.icf.image_flags & ImageFlag.MERGED_BY_COMPILER),
        already_done=True,
    )
    removals = sections_to_remove(image, options)
    with OutputFiles(image, outputs, removals, is_durable=options.is_durable) as files:
        files.write()
    summary.keep_unique = _write_keep_unique(image, tables.icf, tables.direct, options)
    return summary
