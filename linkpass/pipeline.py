"""The pass, as a list of steps. Nothing is written before the tables have been checked.

    read image -> classes -> records (collect, merge, check) -> address-taken -> prune and lay out -> verify
        -> write -> check -> replace

Pruning is not a step of its own: the pass only ever reads calls that can end in a merged body.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.stripped import STRIPPED_HINT, is_stripped
from icf.elf.image import Image
from icf.elf.types import SHT_RELA
from icf.errors import FormatError, IcfError
from icf.linkers import KeptSymbols
from icf.model import ImageFlag
from icf.tables import ANNOTATION_SECTION
from icf.vtables.layout import Vtables
from linkpass.background import Background
from linkpass.compiler_merging import find_compilers
from linkpass.evidence.collect import collect
from linkpass.linked import Linked
from linkpass.pointers.address_taken import find_marks
from linkpass.pointers.virtual_calls import find_virtual
from linkpass.pointers.vtable_slots import find_slots
from linkpass.rewrite.outputs import Outputs, plan_outputs, write_outputs
from linkpass.tables.encode import build_tables, evidence_counts
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
    from linkpass.rewrite.layout import Layout

# how long a thread between two kernels waits for the interpreter; the default is five times as long
SWITCH_INTERVAL_S = 0.001


@dataclass(slots=True)
class Summary:
    """The result of a pass: counts, unless the name says otherwise.

    Attributes:
        image: path of the input.
        out: path of the output.
        tables_file: the file that has the tables: `out`, or the debug file.
        debug_file: where debug information was read, if not in the image.
        functions: functions with a body in the image.
        merged_bodies: bodies that several functions share.
        members: these functions.
        records: call-site records.
        records_by_evidence: records of each kind of evidence.
        table_bytes: size of the tables in bytes.
        debug_info_bytes: size of `.debug_info` in bytes.
        open_calls: calls of merged bodies without evidence for the callee.
        dropped: statements that the machine code contradicts, by reason.
        declarations_added: declarations for functions without a DIE.
        undescribed: bodies that may have members which the image does not name.
        already_done: the image had its tables; the pass only made a copy.
        is_self_contained: all was read from the image, the report and the objects.
    """

    image: str
    out: str
    tables_file: str  # the file that has the tables: `out`, or the debug file
    debug_file: str | None = None  # where debug information was read, if not in the image
    functions: int = 0
    merged_bodies: int = 0
    members: int = 0
    records: int = 0
    records_by_evidence: dict[str, int] = field(default_factory=dict)
    tail_calls: int = 0
    virtual_calls: int = 0  # with a slot that leads to a merged body
    indirect_calls: int = 0  # calls through pointers, with a slot or without
    vtables: int = 0  # that have such a slot
    pointer_jumps: int = 0  # jumps through a pointer that leave a function
    open_calls: int = 0  # calls of merged bodies without evidence for the callee
    dropped: dict[str, int] = field(default_factory=dict)  # statements that the machine code contradicts, by reason
    declarations_added: int = 0
    table_bytes: int = 0
    debug_info_bytes: int = 0
    unread_units: list[FormatError] = field(default_factory=list)
    missing_debug_files: list[str] = field(default_factory=list)  # a line for each .dwo
    undescribed: int = 0  # bodies where folded static functions may have left no trace (gold, without a report)
    merged_by_compiler: bool = False  # functions may have been merged before the link, without a trace
    merging_compilers: list[str] = field(default_factory=list)  # by these compilers
    already_done: bool = False  # the image had its tables; the pass only made a copy
    is_self_contained: bool = False  # all was read from the image, the report and the objects
    keep_unique: KeepUnique | None = None  # the functions to keep so that every frame has one name, if requested


class Options(NamedTuple):
    """The options of a pass, which are those of `icf pass`.

    Attributes:
        out: path of the output; None: over the image.
        debug_file: path; None: found by build id or debug link, if the image needs one.
        debug_roots: further directories to search for debug information.
        debug_out: path of the new debug file; None: over the debug file, or beside `out`.
        in_image: put the tables into the image, wherever the debug information is.
        icf_report: path of the linker's `--print-icf-sections`.
        objects: inputs of the link: objects, archives, `lib.a(member.o)`, `@response`.
        drop_relocations: remove the sections of --emit-relocs.
        threads: how many; None: one for each processor.
        is_durable: wait for the disk where an input is replaced.
        keep_unique_out: path for the linker options that give each frame one name.
    """

    out: str | None = None  # None: over the image
    debug_file: str | None = None  # None: found by build id or debug link, if the image needs one
    debug_roots: tuple[str, ...] = ()  # further folders to look for debug information
    debug_out: str | None = None  # None: over the debug file, or beside `out`
    in_image: bool = False  # tables go in the image, wherever debug information is
    icf_report: str | None = None
    objects: tuple[str, ...] = ()  # inputs of the link: objects, archives, lib.a(member.o), @response
    named_objects: tuple[str, ...] = ()  # those that the user named, not a link map: they may be pipes
    drop_relocations: bool = False  # remove the sections of --emit-relocs
    threads: int | None = None
    is_durable: bool = False  # whether to wait for the disk where an input is replaced
    keep_unique_out: str | None = None  # where to write the options that make every frame unique


def prepare() -> None:
    """Import the modules that a pass otherwise imports on first use; for a caller that waits for an image."""
    import concurrent.futures.thread

    import pycxxfilt

    from linkpass.evidence import object as evidence_object
    from linkpass.pointers import slots_by_object, taken_by_object
    from linkpass.rewrite import check

    _ = concurrent.futures.thread, pycxxfilt
    _ = evidence_object, check, slots_by_object, taken_by_object


def run_pass(
    path: str,
    options: Options,
    report: list[FoldedSections] | None = None,
    objects: LinkObjects | None = None,
    laid_out: Callable[[Layout], None] | None = None,
) -> Summary:
    """Put the tables into the image at `path`, or its debug file. On failure the input stays as it is.

    Args:
        path: the linked image.
        options: those of `icf pass`.
        report: the report that `options.icf_report` names, if it has been parsed already.
        objects: the objects that `options.objects` names, if they have been read already.
        laid_out: is called with the layout of the image, if the tables went into it.

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
        open_with_debug(path, options.debug_file, options.debug_roots, strict=True, needs_code=True) as image,
        Background() as background,
    ):
        outputs = plan_outputs(image, options.out, options.debug_out, in_image=options.in_image)
        target = image if outputs.debug is None else image.debug
        if target.section(".debug_icf") is not None and report is None and objects is None:
            return _already_done(image, outputs, options)
        annotations = _annotations(image)
        reported = _reported(image, report, objects, annotations)
        linked = Linked.read(image, reported, options.threads, background)
        if not len(linked.bodies.start) and is_stripped(image):
            raise IcfError(f"{path}: is stripped: it has no symbols and no debug information", hint=STRIPPED_HINT)
        vtables = Vtables(image)
        complete_objects = _complete_objects(linked, reported, objects)
        by_object = _slots_by_object(linked, vtables, objects)
        # waits for pointer jumps, which a thread may still be finding
        collected = collect(linked, objects, annotations)
        marks = find_marks(linked, collected, vtables, complete_objects)
        virtual = find_virtual(linked, collected.reach, find_slots(linked, vtables, by_object))
        compilers = find_compilers(linked)
        image_flags = ImageFlag.MERGED_BY_COMPILER if compilers else ImageFlag.NONE
        apart = target is not image.debug
        tables = build_tables(linked, collected, marks, vtables, virtual, apart=apart, image_flags=image_flags)
        problems = check_tables(image, tables.icf, tables.calls, tables.virtual_calls)
        if problems:  # an error of this program: every record was made from the code
            raise IcfError(f"{path}: tables do not fit the code: {problems[0]} (and {len(problems) - 1} more)")
        growths, edits = tables.growths(linked) if target is image.debug else ([], [])
        edits += tables.edits()
        removals = emitted_relocations(image) if options.drop_relocations else []
        removals += [] if annotations is None else annotations.sections(removals)
        write_outputs(image, outputs, edits, growths, removals, is_durable=options.is_durable, laid_out=laid_out)
        keep_unique = _write_keep_unique(image, tables.icf, tables.calls, options)
        folds = linked.folds.values()
        return Summary(
            image=path,
            out=outputs.image,
            tables_file=outputs.tables,
            debug_file=None if image.debug is image else image.debug.path,
            functions=len(linked.bodies.start),
            merged_bodies=len(folds),
            members=sum(len(fold.members) for fold in folds),
            records=len(tables.calls),
            records_by_evidence=evidence_counts(tables.icf),
            tail_calls=len(tables.icf.tail_calls),
            open_calls=len(collected.open_calls),
            virtual_calls=len(tables.virtual_calls),
            indirect_calls=virtual.indirect_calls,
            vtables=len(tables.icf.vtables),
            pointer_jumps=len(tables.icf.pointer_jumps),
            dropped=dict(Counter(collected.records.dropped) + virtual.dropped),
            declarations_added=len(tables.synthetic.dies),
            table_bytes=tables.size_bytes,
            debug_info_bytes=tables.synthetic.info_keep_bytes + len(linked.debug.more),
            unread_units=linked.debug.errors(),
            undescribed=len(linked.undescribed),
            merged_by_compiler=bool(compilers),
            merging_compilers=compilers,
            missing_debug_files=linked.debug.missing,
            keep_unique=keep_unique,
            is_self_contained=image.debug is image and not len(linked.debug.more) and not linked.debug.missing,
        )


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
    linked: Linked, reported: Reported | list[FoldedSections] | None, objects: LinkObjects | None
) -> LinkObjects | None:
    """Return the objects, if no object of the link is missing."""
    if objects is None or (
        linked.image.linker.kept_symbols.may_lack_some and (reported is None or isinstance(reported, list))
    ):
        return None
    from linkpass.pointers.taken_by_object import are_complete

    return objects if are_complete(linked, objects) else None


def _slots_by_object(linked: Linked, vtables: Vtables, objects: LinkObjects | None) -> SlotsByObject | None:
    """Return the functions that the objects put into the slots of vtables."""
    if objects is None or not objects.objects:
        return None
    from linkpass.pointers.slots_by_object import SlotsByObject

    return SlotsByObject(linked, vtables, objects)


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


def emitted_relocations(image: Image) -> list[str]:
    """Return the sections that --emit-relocs has put into an image: relocations that are not loaded."""
    return [section.name for section in image.sections if section.type == SHT_RELA and not section.is_alloc]


def _already_done(image: Image, outputs: Outputs, options: Options) -> Summary:
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
        table_bytes=sum(len(file_with_tables(image).contents(name)) for name in tables.present),
        debug_info_bytes=len(image.debug.contents(".debug_info")),
        merged_by_compiler=bool(tables.icf.image_flags & ImageFlag.MERGED_BY_COMPILER),
        already_done=True,
    )
    removals = emitted_relocations(image) if options.drop_relocations else []
    write_outputs(image, outputs, removals=removals, is_durable=options.is_durable)
    summary.keep_unique = _write_keep_unique(image, tables.icf, tables.direct, options)
    return summary
