"""Inline trees and lines of all members, encoded: a line table at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.line import LineProgram, LineSections, SequenceMark, choose_sequence, scan_all
from icf.dwarf.scan import thread_count
from icf.dwarf.units import COMP_DIR, FLAGS, HAS_STMT_LIST, STMT_LIST, DebugInfo
from icf.elf.image import Image
from unwind.symcache._records import encode
from unwind.symcache.bodies import Bodies
from unwind.symcache.claims import Claims
from unwind.symcache.names import Names

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


class Encoded(NamedTuple):
    """What the sections are made of."""

    payloads: list[bytes]  # by claim
    column_bytes: int  # so many bytes of them are columns
    final: U32  # by provisional number of a name: its number
    texts: list[bytes]  # names by number
    files: list[str]  # paths by number


class Trees:
    """Inlined calls of the functions that are claimed, ready for the kernel."""

    def __init__(self, debug: DebugInfo, scan: InlineScan, wanted: I64, names: Names) -> None:
        nodes, ranges = scan.nodes, scan.node_ranges
        is_wanted = np.zeros(len(scan.functions.die), np.bool_)
        is_wanted[wanted] = True
        function = nodes.function[ranges.owner]
        kept = np.flatnonzero(is_wanted[function])
        function, owner = function[kept], ranges.owner[kept]
        low, high = ranges.low[kept], ranges.high[kept]
        order = np.lexsort((owner, low, function))
        self.low, self.high = low[order], high[order]
        function = function[order]
        self.range_node = (owner[order] - scan.functions.first_node[function]).astype(np.uint32)
        rows = np.arange(len(scan.functions.die))
        self.first_range = np.searchsorted(function, rows)
        self.last_range = np.searchsorted(function, rows, side="right")
        self.first_node, self.last_node = scan.functions.first_node, scan.functions.last_node
        named = is_wanted[nodes.function]
        self.name = np.zeros(len(nodes.origin), np.uint32)
        origins, back = np.unique(nodes.origin[named], return_inverse=True)
        identity = resolve(debug, origins)
        text = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)
        self.name[named] = names.of_references(text)[back.reshape(-1)]
        self.nodes = nodes


class Lines:
    """Line tables by their offset, and the sequences of claims."""

    def __init__(self, image: Image, debug: DebugInfo) -> None:
        file = image.debug
        line, line_str, str_ = map(file.contents, (".debug_line", ".debug_line_str", ".debug_str"))
        sections = LineSections(line, line_str, str_, file.path)
        units = debug.units
        has = (units[:, FLAGS] & np.uint64(HAS_STMT_LIST)) != 0
        self.offset = np.where(has, units[:, STMT_LIST].astype(np.int64), -1)
        directories = {
            int(unit[STMT_LIST]): debug.string(int(unit[COMP_DIR])).decode("utf-8", "surrogateescape")
            for unit in units[has][::-1]
        }
        offsets = sorted(directories)
        found = scan_all(sections, offsets, thread_count(), [directories[offset] for offset in offsets])
        self.programs = {
            offset: program for offset, program in zip(offsets, found, strict=True) if isinstance(program, LineProgram)
        }


def encode_payloads(
    image: Image, debug: DebugInfo | None, scan: InlineScan | None, bodies: Bodies, claims: Claims, names: Names
) -> Encoded:
    """Number names and files, and encode what is known of each claim."""
    uses = np.bincount(claims.name, minlength=names.count)
    payloads = [b""] * len(claims.body)
    if debug is None or scan is None:
        final, texts = names.finish(uses)
        return Encoded(payloads, 0, final, texts, [""])
    lines = Lines(image, debug)
    trees = Trees(debug, scan, np.unique(claims.function[claims.function >= 0]), names)
    uses = np.bincount(claims.name, minlength=names.count) + np.bincount(trees.name, minlength=names.count)
    final, texts = names.finish(uses)
    trees.name = final[trees.name]
    sequences = _sequences(debug, scan, lines, bodies, claims)
    files, maps = _files(lines)
    column_bytes = 0
    for offset, rows in _by_table(scan, lines, claims, sequences):
        found, count = _encode(
            scan, trees, lines.programs.get(offset), maps.get(offset), bodies, claims, sequences, rows
        )
        for row, payload in zip(rows, found, strict=True):
            payloads[row] = payload
        column_bytes += count
    return Encoded(payloads, column_bytes, final, texts, files)


def _sequences(
    debug: DebugInfo, scan: InlineScan, lines: Lines, bodies: Bodies, claims: Claims
) -> list[tuple[int, int]]:
    """For each claim the offset of its line table and the number of its sequence there, -1 for none."""
    everywhere = [
        (int(start), int(end), offset, i)
        for offset, program in lines.programs.items()
        for i, (start, end, dead) in enumerate(
            zip(program.sequences.start.tolist(), program.sequences.end.tolist(), program.sequences.dead.tolist(), strict=True)
        )
        if not dead
    ]
    everywhere.sort()
    starts = np.array([entry[0] for entry in everywhere], np.uint64)
    found = []
    declared = _Declared(debug, lines)
    for body, merged, function in zip(
        claims.body.tolist(), claims.is_merged.tolist(), claims.function.tolist(), strict=True
    ):
        start = int(bodies.start[body])
        choice = (-1, -1)
        if function >= 0:
            unit = int(scan.functions.unit[function])
            offset = int(lines.offset[unit])
            program = lines.programs.get(offset)
            choice = (offset, -1)
            if program is not None and merged:
                choice = (offset, declared.choose(program, unit, int(scan.functions.die[function]), start))
            elif program is not None:
                covering = program.sequences_at(start).tolist()
                if covering:
                    choice = (offset, min(covering, key=lambda i: int(program.sequences.end[i])))
        elif not merged:
            at = int(np.searchsorted(starts, np.uint64(start), side="right")) - 1
            if at >= 0 and everywhere[at][1] > start:
                choice = everywhere[at][2:]
        found.append(choice)
    return found


class _Declared:
    """Where the functions of a unit are declared, to choose sequences by."""

    def __init__(self, debug: DebugInfo, lines: Lines) -> None:
        self._debug, self._lines = debug, lines
        self._places: dict[int, dict[int, tuple[str, int]]] = {}

    def choose(self, program: LineProgram, unit: int, die: int, start: int) -> int:
        """The sequence of the function that `die` defines; -1 where it is not certain."""
        places = self._places.get(unit)
        if places is None:
            places = self._places[unit] = self._read(program, unit)
        file, line = places.get(die, ("", 0))
        if not line:
            return -1
        others = sorted({number for path, number in places.values() if path == file})
        found = choose_sequence(program, start, program.files.index(file), line, others)
        return -1 if found is None else found

    def _read(self, program: LineProgram, unit: int) -> dict[int, tuple[str, int]]:
        dies = defined_subprograms(self._debug, unit).offset.copy()
        identity = resolve(self._debug, dies)
        here = self._debug.unit_of(identity.declared) == unit
        columns = dies[here], identity.decl_file[here], identity.decl_line[here]
        return {
            die: (path, line)
            for die, file_idx, line in zip(*(column.tolist() for column in columns), strict=True)
            if (path := program.file(file_idx))
        }


def _files(lines: Lines) -> tuple[list[str], dict[int, U32]]:
    """All paths, the most used first, and for each line table what its file numbers become."""
    numbers: dict[str, int] = {"": 0}
    uses: list[int] = [0]
    maps: dict[int, U32] = {}
    for offset, program in lines.programs.items():
        counts = np.bincount(program.file_idx, minlength=len(program.files)).tolist()
        mapped = []
        for path, count in zip(program.files, counts, strict=False):
            number = numbers.setdefault(path, len(numbers))
            if number == len(uses):
                uses.append(0)
            uses[number] += count
            mapped.append(number)
        maps[offset] = np.array(mapped, np.uint32)
    order = [0, *sorted(range(1, len(uses)), key=lambda i: -uses[i])]
    final = np.empty(len(order), np.uint32)
    final[order] = np.arange(len(order), dtype=np.uint32)
    paths = list(numbers)
    return [paths[i] for i in order], {offset: final[mapped] for offset, mapped in maps.items()}


def _by_table(scan, lines, claims, sequences):
    groups: dict[int, list[int]] = {}
    for row, (offset, sequence) in enumerate(sequences):
        if claims.function[row] >= 0 or sequence >= 0:
            groups.setdefault(offset, []).append(row)
    return groups.items()


_NO_ROWS = (np.empty(0, np.uint64),) + (np.empty(0, np.uint32),) * 3


def _encode(scan, trees, program, file_map, bodies, claims, sequences, rows):
    pieces = np.zeros((len(rows), 8), np.uint64)
    for i, row in enumerate(rows):
        body, function = claims.body[row], claims.function[row]
        pieces[i, :2] = bodies.start[body], bodies.end[body]
        if function >= 0:
            pieces[i, 2:6] = (
                trees.first_range[function],
                trees.last_range[function],
                trees.first_node[function],
                trees.last_node[function],
            )
        sequence = sequences[row][1]
        if (
            program is not None
            and sequence >= 0
            and not program.sequences.marks[sequence] & np.uint64(SequenceMark.UNORDERED)
        ):
            pieces[i, 6:] = program.sequences.row_start[sequence], program.sequences.row_end[sequence]
    columns = _NO_ROWS
    if program is not None:
        columns = program.address, program.file_idx, program.line, program.column
    range_count = pieces[:, 3] - pieces[:, 2]
    node_count = pieces[:, 5] - pieces[:, 4]
    row_count = pieces[:, 7] - pieces[:, 6]
    scratch = np.empty((4, int(max(range_count.max(), node_count.max())) + 2), np.uint32)
    segments = np.empty((2, 2 * int(range_count.max()) + 4), np.uint64)
    room = 40 * int(2 * range_count.sum() + node_count.sum() + row_count.sum()) + 128 * len(rows)
    out = np.empty(room, np.uint8)
    ends = np.zeros((len(rows), 2), np.uint64)
    nodes = trees.nodes
    encode(
        pieces.data,
        trees.low.data,
        trees.high.data,
        trees.range_node.data,
        nodes.up.data,
        trees.name.data,
        nodes.call_file.data,
        nodes.call_line.data,
        nodes.call_column.data,
        *(column.data for column in columns),
        (file_map if file_map is not None else np.zeros(0, np.uint32)).data,
        segments.data,
        scratch.data,
        out.data,
        ends.data,
    )
    end = ends[:, 0].tolist()
    data = out[: end[-1]].tobytes() if end else b""
    return [data[a:b] for a, b in zip([0, *end], end, strict=False)], int((ends[:, 0] - ends[:, 1]).sum())
