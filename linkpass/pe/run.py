"""`icf pass` on a PE image: read its PDB or DWARF and the objects of the link, write the side table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from icf.code.call_ends import find_call_ends
from icf.debugfiles.opening import open_any
from icf.elf.types import Machine
from icf.errors import IcfError
from icf.newfile import NewFile
from icf.pe.debugfile import MISSING_HINT
from icf.pe.image import PeImage
from icf.pe.sidetable import side_table_path
from linkpass.pe.branch_sites import call_target
from linkpass.pe.calls import ObjectCalls
from linkpass.pe.dwarf_members import members_of_dwarf
from linkpass.pe.inputs import Given, Inputs
from linkpass.pe.members import Members
from linkpass.pe.pdb_members import members_of_pdb
from linkpass.pe.pointers import find_pointers
from linkpass.pe.reach import find_reach
from linkpass.pe.references import References
from linkpass.pe.tables import Made, make_table

_NAMES = {Machine.X86_64: "x86-64", Machine.AARCH64: "ARM64"}


@dataclass(slots=True)
class PeSummary:
    """What the pass found and wrote."""

    image: str
    out: str
    functions: int  # bodies
    merged_bodies: int
    members: int
    direct_calls: int  # direct calls in the code that lead into a merged body
    named_calls: int  # those of them that have a record for each function which shares the calling code
    records: int
    tail_calls: int
    virtual_calls: int
    vtables: int
    table_bytes: int
    knows_objects: bool  # whether it is known which objects the link had
    machine: str
    dropped: dict[str, int]  # statements that the image contradicts, by reason
    without_code: list[str] = field(default_factory=list)  # objects of which the linker made the machine code (/GL)
    skipped: list[str] = field(default_factory=list)  # inputs of other kinds
    missing: list[str] = field(default_factory=list)  # objects of the link that were not given


def run_pass(
    path: str,
    out: str | None,
    pdb_path: str | None,
    roots: Sequence[str],
    objects: Sequence[str],
    *,
    is_just_linked: bool = False,
    given: Given = Given.SOME,
) -> PeSummary:
    """Write the side table of a PE image.

    Args:
        path: the image.
        out: the file to write; None: next to the PDB, with the suffix `.icf`.
        pdb_path: its PDB; None: found by its identity.
        roots: further directories to search for the PDB.
        objects: inputs of the link: objects, archives, `@response`.
        is_just_linked: whether files are as they were at the link; then those that an object names, as the libraries of
            a compiler, are found by their paths in the PDB.
        given: which inputs of the link `objects` are, if there is no PDB that shows it.

    Returns:
        What was found and written.

    Raises:
        FormatError: an input breaks its format.
        IcfError: the image has neither PDB nor DWARF, or a file cannot be read or written.
    """
    image = open_any(path, pdb_path, roots)
    try:
        assert image.format == "PE"
        has_references = image.machine is Machine.X86_64
        members = _members(image)
        calls, references = ObjectCalls(image, members), References(members)
        inputs = Inputs(objects, image.machine)
        read = _read(inputs, members, calls, references if has_references else None)
        missing = members.statics.unread(read)
        if is_just_linked and missing:
            rest = Inputs([each for each in dict.fromkeys(missing) if os.path.isfile(each)], image.machine)
            read += _read(rest, members, calls, references if has_references else None)
            missing = members.statics.unread(read)
        calls.finish()
        reach = find_reach(image, members.bodies)
        are_known = members.statics.lists_objects or _are_all(given, inputs)
        has_all_objects = are_known and not missing and has_references
        pointers = find_pointers(image, members, calls, references, reach, has_all_objects=has_all_objects)
        made = make_table(image, members, calls, reach, pointers)
        target = out or side_table_path(image)
        content = made.table.pack()
        _write(target, content)
        merged = [body for body in members.bodies if len(body.members) > 1]
        found, named = _coverage(image, members, made)
        return PeSummary(
            path, target, len(members.bodies), len(merged), sum(len(body.members) for body in merged),
            found, named, len(made.records), len(made.icf.tail_calls), len(made.virtual_calls), len(made.icf.vtables),
            len(content), are_known, _NAMES[image.machine],
            dict(calls.dropped), inputs.without_code, inputs.skipped, missing,
        )  # fmt: skip
    finally:
        image.close()


def _are_all(given: Given, inputs: Inputs) -> bool:
    """Return whether all inputs of a link were read."""
    if inputs.skipped or inputs.without_code:
        return False
    return given is Given.ALL or (given is Given.BUT_LIBRARIES and not inputs.asks_for_more)


def _members(image: PeImage) -> Members:
    """Return the functions of an image; raise IcfError if nothing describes it."""
    if image.pdb is not None:
        return members_of_pdb(image, image.pdb)
    if image.dwarf is not None:
        return members_of_dwarf(image, image.dwarf)
    raise IcfError(f"{image.path}: has no DWARF, and its PDB was not found", hint=MISSING_HINT)


def _read(inputs: Inputs, members: Members, calls: ObjectCalls, references: References | None) -> list[tuple[str, str]]:
    """Read objects; return their files and names."""
    found = []
    for each in inputs:
        found.append((each.file, each.name))
        calls.read(each)
        if references is not None and members.statics.may_be_linked(each):
            references.read(each)
    return found


def _write(path: str, content: bytes) -> None:
    """Replace a file as a whole."""
    try:
        with (
            NewFile(os.path.dirname(os.path.abspath(path)), ".icf-") as file,
            open(file.fd, "wb", closefd=False) as out,
        ):
            out.write(content)
            out.flush()
            os.fchmod(file.fd, 0o644)
            os.replace(file.name(), path)
    except OSError as error:
        raise IcfError(f"{path}: cannot be written: {error.strerror}") from error


def _coverage(image: PeImage, members: Members, made: Made) -> tuple[int, int]:
    """Return how many direct calls lead into merged bodies, and how many of these all have records."""
    merged = {image.base + body.start for body in members.bodies if len(body.members) > 1}
    recorded: dict[int, set[int]] = {}
    for site, caller in zip(made.records.call_site.tolist(), made.records.caller_die.tolist(), strict=True):
        recorded.setdefault(site, set()).add(caller)
    found = named = 0
    for body in members.bodies:
        start = image.base + body.start
        code = image.read(start, body.end - body.start)
        for end in find_call_ends(code, image.machine) or ():
            target = call_target(image.machine, code, end, start)
            if target in merged:
                found += 1
                named += len(recorded.get(start + end, ())) == len(body.members)
    return found, named


def warnings_of(summary: PeSummary) -> list[str]:
    """Return what the user has to know of the inputs, one line each."""
    found = [f"{path}: is not an object for {summary.machine}: its calls have no records" for path in summary.skipped]
    if summary.without_code:
        more = f" and {len(summary.without_code) - 1} more" if len(summary.without_code) > 1 else ""
        first = f"{summary.without_code[0]}{more}"
        found.append(f"{first}: compiled with /GL: without machine code, so the calls have no records")
    return found


def summary_lines(summary: PeSummary) -> list[str]:
    """Return the result of a run as lines for people."""
    share = f", {100 * summary.named_calls / summary.direct_calls:.1f} %" if summary.direct_calls else ""
    lines = [
        f"{summary.image}: {summary.members} functions share {summary.merged_bodies} of {summary.functions} bodies",
        f"  call sites  {summary.records} records",
        f"  named       {summary.named_calls} of {summary.direct_calls} direct calls of merged functions{share}",
        f"  tail calls  {summary.tail_calls}",
        f"  virtual     {summary.virtual_calls} calls, {summary.vtables} vftables",
        f"  written to  {summary.out}, {summary.table_bytes} bytes",
    ]
    lines += [f"  dropped     {count}: {reason}" for reason, count in sorted(summary.dropped.items())]
    if summary.machine != _NAMES[Machine.X86_64]:
        lines.append(f"  pointers    stay open: of objects for {summary.machine} only direct calls are read")
    elif summary.missing:
        more = f" and {len(summary.missing) - 1} more" if len(summary.missing) > 1 else ""
        lines.append(f"  missing     {summary.missing[0]}{more}: virtual calls stay open")
    elif not summary.knows_objects:
        lines.append("  pointers    stay open: DWARF does not say whether objects are missing, 'icf link' knows it")
    return lines
