"""File and line of a resolved frame, from the line table of the function that it is.

After folding, one address has a line in the table of each folded function, and most symbolizers show one
function's name with another's line. Here the member comes first: its DIE names the unit, its declaration
chooses the unit's sequence at the body (`icf.dwarf.line_choice`), and where that leaves a doubt there is no line. A
function that is not merged has the line on which all units that define it agree.

The debug information is opened for the first frame that asks, and is scanned once for the functions that are
not merged; a unit's line table is read when a frame is in it. What cannot be read gives no line.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.line import LineProgram, LineRow, LineSections, choose_sequence, read_line_program
from icf.dwarf.scan import Functions, scan_functions
from icf.dwarf.units import COMP_DIR, FLAGS, HAS_STMT_LIST, STMT_LIST, DebugInfo
from icf.elf.image import Image
from icf.errors import FormatError, IcfError
from icf.model import MemberFlag, Verdict
from icf.strings import hash_names
from unwind.answer import FrameAnswer
from unwind.program import Body

Place = tuple[str, int]


class Lines:
    """Places of the frames of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._programs: dict[int, LineProgram | None] = {}
        self._choices: dict[tuple[int, int], tuple[LineProgram, int] | None] = {}
        self._declared: dict[int, dict[int, Place]] = {}

    def place(self, answer: FrameAnswer) -> Place | None:
        """File and line; None where they are not certain."""
        body = answer.body
        if body is None or answer.member_idx < 0:
            return None
        try:
            if answer.verdict is Verdict.UNIQUE:
                row = self._member_row(body, answer.member_idx, answer.vaddr)
            else:
                row = self._unmerged_row(body, answer.vaddr)
        except FormatError:
            return None
        return (row.file, row.line) if row and row.file and row.line else None

    def _member_row(self, body: Body, member_idx: int, vaddr: int) -> LineRow | None:
        member = body.members[member_idx]
        die = self._split_die(member.name) if member.flags & MemberFlag.SYNTHETIC else member.die
        key = (body.start, die)
        if key not in self._choices:
            self._choices[key] = self._choose(body.start, die)
        choice = self._choices[key]
        return choice[0].lookup(vaddr, choice[1]) if choice else None

    def _choose(self, start: int, die: int) -> tuple[LineProgram, int] | None:
        """The sequence at the body `start` of the function that `die` defines."""
        debug = self._debug
        if not die or debug is None:
            return None
        unit_idx = int(debug.unit_of(np.array([die], np.uint64))[0])
        program = self._program(unit_idx) if unit_idx >= 0 else None
        if program is None:
            return None
        defined = self._declared_lines(unit_idx, program)
        decl_file, decl_line = defined.get(die, ("", 0))
        if not decl_line:
            return None
        function_lines = sorted({line for file, line in defined.values() if file == decl_file})
        file_idx = program.files.index(decl_file)
        sequence_idx = choose_sequence(program, start, file_idx, decl_line, function_lines)
        return None if sequence_idx is None else (program, sequence_idx)

    def _declared_lines(self, unit_idx: int, program: LineProgram) -> dict[int, Place]:
        """Where the functions that a unit defines are declared, inlined ones too, by DIE."""
        places = self._declared.get(unit_idx)
        if places is None:
            places = self._declared[unit_idx] = {}
            debug = self._debug
            assert debug is not None
            dies = defined_subprograms(debug, unit_idx).offset.copy()
            identity = resolve(debug, dies)
            # a file number is one of the table of the unit that holds the declaration
            here = debug.unit_of(identity.declared) == unit_idx
            columns = dies[here], identity.decl_file[here], identity.decl_line[here]
            for die, file_idx, line in zip(*(column.tolist() for column in columns), strict=True):
                if file := program.file(file_idx):
                    places[die] = (file, line)
        return places

    def _split_die(self, linkage_name: str) -> int:
        """The DIE of a function that the tables name by a declaration, as its own is in a .dwo; 0 if none is.

        A name tells only functions with external linkage from all others.
        """
        if self._debug is None or not len(self._debug.more):
            return 0
        hashes, dies, references = self._split_functions
        wanted = hash_names([linkage_name])
        first, last = (int(np.searchsorted(hashes, wanted, side=side)[0]) for side in ("left", "right"))
        encoded = linkage_name.encode("utf-8", "surrogateescape")
        found = [row for row in range(first, last) if self._debug.string(int(references[row])) == encoded]
        return min((int(dies[row]) for row in found), default=0)

    @cached_property
    def _split_functions(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Hash of the name, DIE and name of the external functions with code in split units, by hash."""
        assert self._debug is not None
        dies = np.unique(self._functions.die)
        dies = dies[dies >= len(self._debug.info)]
        identity = resolve(self._debug, dies)
        references = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)
        dies, references = dies[identity.external], references[identity.external]
        hashes = self._debug.string_hashes(references)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], dies[order], references[order]

    def _unmerged_row(self, body: Body, vaddr: int) -> LineRow | None:
        if self._debug is None:
            return None
        starts, units = self._units_by_start
        key = np.uint64(body.start)
        first, last = (int(np.searchsorted(starts, key, side=side)) for side in ("left", "right"))
        found: LineRow | None = None
        for unit_idx in sorted(set(units[first:last].tolist())):
            program = self._program(unit_idx)
            if program is None or not len(program.sequences_at(vaddr)):
                continue  # a copy that the linker discarded
            row = program.lookup(vaddr)
            if row is None or (found and (found.file, found.line) != (row.file, row.line)):
                return None
            found = row
        return found

    @cached_property
    def _debug(self) -> DebugInfo | None:
        if any(self._image.debug.section(name) is None for name in (".debug_info", ".debug_line")):
            return None
        try:
            return DebugInfo.open(self._image)
        except IcfError:  # also a file of debug information that is not there
            return None

    @cached_property
    def _functions(self) -> Functions:
        assert self._debug is not None
        return scan_functions(self._debug).functions

    @cached_property
    def _units_by_start(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        functions = self._functions
        order = np.argsort(functions.low, kind="stable")
        return functions.low[order], functions.unit[order]

    @cached_property
    def _sections(self) -> LineSections:
        file = self._image.debug
        line, line_str, str_ = map(file.contents, (".debug_line", ".debug_line_str", ".debug_str"))
        return LineSections(line, line_str, str_, file.path)

    def _program(self, unit_idx: int) -> LineProgram | None:
        if unit_idx not in self._programs:
            self._programs[unit_idx] = self._read_program(unit_idx)
        return self._programs[unit_idx]

    def _read_program(self, unit_idx: int) -> LineProgram | None:
        assert self._debug is not None
        unit = self._debug.units[unit_idx]
        if not int(unit[FLAGS]) & HAS_STMT_LIST:
            return None
        comp_dir = self._debug.string(int(unit[COMP_DIR])).decode("utf-8", "surrogateescape")
        try:
            return read_line_program(self._sections, int(unit[STMT_LIST]), comp_dir)
        except FormatError:
            return None
