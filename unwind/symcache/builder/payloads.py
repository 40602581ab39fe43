"""Encodes the inline trees and lines of all members that DWARF describes: a group of units at a time, by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from icf.columns import I64
from icf.dwarf.inlines import InlineScan, TreeFunctions
from icf.dwarf.runs import thread_count
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from unwind.symcache.builder.anywhere import Anywhere
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.encoded import Encoded
from unwind.symcache.builder.group import Group, Source
from unwind.symcache.builder.groups import each_group
from unwind.symcache.builder.job import Job
from unwind.symcache.builder.names import Names
from unwind.symcache.builder.origins import Origins
from unwind.symcache.builder.paths import Paths
from unwind.symcache.builder.trees import Trees
from unwind.symcache.builder.twins import find_twins

_REPEAT_FACTOR = 4
_GROUPS_TO_TRIM = 4  # after each one it would take a tenth of the time
_NO_ROWS = np.empty(0, np.int64)


def encode_payloads(
    image: Image, debug: DebugInfo | None, scan: InlineScan | None, bodies: Bodies, claims: Claims, names: Names
) -> Encoded:
    """Return each claim encoded, and the numbers of files; `scan` has no nodes."""
    encoded = Encoded(len(claims.body))
    if debug is None or scan is None:
        return encoded
    described = _affordable(scan.functions, np.maximum(claims.function, claims.lost))
    claims = claims._replace(function=np.minimum(claims.function, described), lost=np.minimum(claims.lost, described))
    anywhere, paths = Anywhere(len(described), claims.lost_tables), Paths()
    source = Source(image, debug, scan.functions, bodies, claims, described, paths, anywhere)
    for number, group in enumerate(each_group(source), 1):
        _encode_group(debug, bodies, names, group, encoded)
        if not number % _GROUPS_TO_TRIM:
            debug.trim_heap()
    encoded.drop(np.flatnonzero(anywhere.is_open))
    encoded.files = paths.paths
    return encoded


def _encode_group(debug: DebugInfo, bodies: Bodies, names: Names, group: Group, encoded: Encoded) -> None:
    """Encode the claims of a group."""
    all_rows, claims, described, scan, lines, chooser, choices, own_count = group
    origins = Origins(debug, scan, described)
    tree, placed = find_twins(debug, scan, origins, bodies, claims, lines, chooser, choices)
    choices.last_row[(tree < 0) & (claims.lost >= 0)] = 0  # without the calls nothing shows whose a line is
    own = tree[:own_count]
    shared = own[(own >= 0) & (own < len(scan.functions.die))]
    trees = Trees(scan, np.union1d(described[:own_count][own >= 0], shared), origins, names, placed)
    start, end = bodies.start[claims.body], bodies.end[claims.body]
    job = Job(start, end, described, tree, trees, lines.tables, lines.file_maps, choices)
    jobs = list(job.parts(own_count))
    with ThreadPoolExecutor(thread_count()) as pool:
        payloads = list(pool.map(job.run, jobs))
    encoded.add(all_rows[np.concatenate([_NO_ROWS, *jobs])], payloads)


def _affordable(functions: TreeFunctions, function: I64) -> I64:
    """Return the functions of claims, without those whose nodes would be written many times over.

    Two claims of one function are a hot and a cold part, or labels in it. Thousands are an attack.
    """
    counts = np.zeros(len(function), np.int64)
    counts[function >= 0] = (functions.last_node - functions.first_node)[function[function >= 0]]
    limit = _REPEAT_FACTOR * int(functions.last_node[-1:].sum()) + (1 << 16)
    return np.where(np.cumsum(counts) <= limit, function, -1)
