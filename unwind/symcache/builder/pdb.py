"""Build a symcache from a PE image and its PDB: each member of a body has its own lines and inlined calls.

bodies     procedures and public symbols by address (`icf.pdb.functions`), or the classes of the side table
payloads   a module at a time: its lines as columns (`icf.pdb.lines`), encoded as those of DWARF are
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from icf.pdb.functions import PdbBody, Procedures, find_bodies, is_complete, read_procedures
from icf.pdb.lines import ModuleLines, Nodes, module_lines
from icf.pe.classes import code_ranges, fold_class
from icf.pe.image import PeImage
from unwind.symcache.builder.bodies import Bodies, bodies_at
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.encoded import Encoded
from unwind.symcache.builder.job import Choices, Job
from unwind.symcache.builder.names import Names
from unwind.symcache.builder.paths import Paths
from unwind.symcache.builder.sections import make_sections, number_members
from unwind.symcache.builder.selfcheck import check_sections
from unwind.symcache.format.container import SectionBytes


def build_sections(image: PeImage, wanted: Collection[int] | None = None) -> dict[str, SectionBytes]:
    """Return the sections that `SymCache` reads; with `wanted` only the bodies that hold these addresses.

    Without a PDB there are no bodies.
    """
    names = Names(None, None)
    found, procedures, complete = list[PdbBody](), None, False
    if image.pdb is not None:
        procedures = read_procedures(image.pdb)
        found, complete = find_bodies(image.pdb, procedures, code_ranges(image)), is_complete(image.pdb)
    bodies, nowhere = _bodies(image, found, complete), list[int]()
    if wanted is not None:
        bodies, nowhere = bodies_at(bodies, sorted(set(wanted)))
    by_start = {image.base + body.start: body for body in found}
    members = [by_start[int(start)].members for start in bodies.start.tolist()]
    flat = [member for each in members for member in each]
    counts = np.array([len(each) for each in members], np.int64)
    body = np.repeat(np.arange(len(members)), counts)
    row_of = np.array([member.procedure for member in flat], np.int64)
    claims = Claims(
        body,
        counts[body] > 1,
        np.array([names.of_text(member.name) for member in flat], np.uint64),
        np.array([int(member.flags) for member in flat], np.uint32),
        {row: [names.of_text(alias) for alias in member.aliases] for row, member in enumerate(flat) if member.aliases},
        row_of,
        np.full(len(flat), -1, np.int64),
    )
    encoded = Encoded(len(flat))
    if image.pdb is not None and procedures is not None:
        encoded = _encode(image.pdb, procedures, bodies, claims, names)
    numbered = number_members(claims, names, len(bodies.start))
    sections = make_sections(bodies, bodies.is_complete, numbered, encoded, names, nowhere)
    check_sections(sections, image.path)
    return sections


def _bodies(image: PeImage, found: list[PdbBody], complete: bool) -> Bodies:
    start, end = (np.array([getattr(body, side) for body in found], np.uint64) for side in ("start", "end"))
    base = np.uint64(image.base)
    folds = {row: fold_class(image, body, complete=complete) for row, body in enumerate(found)}
    none = np.full(len(found), -1, np.int64)
    end = np.minimum(end + base, np.uint64(image.span[1]))
    return Bodies(start + base, end, none, none, folds, complete)


class _Trees(NamedTuple):
    """Inlined calls of a module by procedure, as `TreeColumns`."""

    nodes: Nodes
    name: U32
    first_node: I64
    last_node: I64
    low: U64
    high: U64
    range_node: U32
    first_range: I64
    last_range: I64


class _Rows(NamedTuple):
    """Line rows at the addresses of the image."""

    address: U64
    file_idx: U32
    line: U32
    column: U32


def _encode(pdb: Pdb, procedures: Procedures, bodies: Bodies, claims: Claims, names: Names) -> Encoded:
    """Return the payload of each claim that has a procedure record."""
    encoded, paths = Encoded(len(claims.body)), Paths()
    described = np.flatnonzero(claims.function >= 0)
    described = described[np.argsort(claims.function[described], kind="stable")]
    of_module = procedures.module[claims.function[described]]
    first_row = np.searchsorted(procedures.module, np.arange(len(procedures.symbols) + 1))
    edges = np.searchsorted(of_module, np.arange(len(procedures.symbols) + 1))
    for module, symbols in enumerate(procedures.symbols):
        rows = described[edges[module] : edges[module + 1]]
        if not len(rows):
            continue
        lines = pdb.lines_of(pdb.dbi.modules[module], symbols)
        found = module_lines(pdb, symbols, lines)
        mine = claims.function[rows] - first_row[module]
        job = _job(pdb, module, found, symbols.procedures, mine, bodies, claims.body[rows], names, paths)
        for part in job.parts(len(rows)):
            encoded.add(rows[part], [job.run(part)])
    encoded.files = paths.paths
    return encoded


def _job(
    pdb: Pdb,
    module: int,
    found: ModuleLines,
    procedures: U64,
    mine: I64,
    bodies: Bodies,
    body: I64,
    names: Names,
    paths: Paths,
) -> Job:
    """Return the claims of one module, whose procedures are `mine`."""
    count = len(procedures)
    uses = np.bincount(found.file_idx, minlength=len(found.files)).tolist()
    numbers = paths.number(_sums(found.files, uses))
    file_map = np.array([numbers[path] for path in found.files], np.uint32)
    start = np.zeros(count, np.uint64)  # of the body that has the procedure's code
    start[mine] = bodies.start[body]
    first_line, last_line = _runs(found.procedure, count)
    rows = _Rows(start[found.procedure] + found.address, found.file_idx, found.line, found.column)
    inlinees: list[int] = np.unique(found.inlinee).tolist()
    texts = {number: names.of_text(pdb.inlined_name(pdb.dbi.modules[module], number)) for number in inlinees}
    references = np.array([texts[number] for number in found.inlinee.tolist()], np.uint64)
    moved = start[found.range_procedure]
    trees = _Trees(
        found.nodes, names.number(references),
        procedures[:, col.P_FIRST_SITE].astype(np.int64), procedures[:, col.P_LAST_SITE].astype(np.int64),
        found.low + moved, found.high + moved, found.range_node, *_runs(found.range_procedure, count),
    )  # fmt: skip
    table = np.zeros(len(mine), np.int64)
    choices = Choices(table, first_line[mine], last_line[mine])
    return Job(bodies.start[body], bodies.end[body], mine, mine, trees, [rows], [file_map], choices)


def _runs(owner: I64, count: int) -> tuple[I64, I64]:
    """Return where the rows of each owner begin and end; they are in order."""
    edges = np.searchsorted(owner, np.arange(count + 1))
    return edges[:-1], edges[1:]


def _sums(keys: Iterable[str], values: Iterable[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, value in zip(keys, values, strict=True):
        found[key] = found.get(key, 0) + value
    return found
