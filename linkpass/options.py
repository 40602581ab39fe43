"""What a pass is asked to do, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from icf.errors import FormatError
    from linkpass.keep_unique import KeepUnique


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
        callbacks: functions that callers pass to imports that call them back.
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
    callbacks: int = 0  # functions that callers pass to imports that call them back


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
