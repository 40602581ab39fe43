"""Chooses the sequence of one function among those at its body.

Name and line must agree, so the choice is never a guess.

After folding, the sequences of all members stand at the address of the body that was kept:

    a.h:10  int A::get() { return x; }      sequence 3: 0x1200  a.h:10
    a.h:14  int B::get() { return y; }      sequence 8: 0x1200  a.h:14

The first row depends on the compiler (measured on ninja and cppcheck, -O2):
  - gcc starts every function with a row for its own head: at decl_line, or a few lines on where the head is long;
  - clang does so only where there is a prologue, and a later row has prologue_end. Else the first row has prologue_end
    itself and is the first instruction's: often of the body, but in one of forty of something inlined, in
    another file or before decl_line. Small leaf functions, which fold most, are of this kind, and a function that
    only forwards may have no row of its own at all.

So "the nearest line after decl_line" is a guess. This rule holds: a function's own rows lie from its decl_line up to
the next function of that file (`function_lines`). A sequence with such a row is the member's, or inlines the
member. A sequence whose *first* row is such a row goes before the others: if the member's own did not
start so, neither would identical code that inlines it. Sequences with equal rows (instances of one template)
yield equal answers, any of them will do. Dead sequences compete, too: if the unit's copy of the member
was discarded, the member's sequence is one of them, and the live one at the body is another function's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from icf.dwarf.line import LineProgram
from icf.sets import distinct


def choose_sequence(
    program: LineProgram,
    vaddr_of_body: int,
    decl_file: int,
    decl_line: int,
    function_lines: Sequence[int],
    *,
    is_here: bool = False,
) -> int | None:
    """Return the sequence of the member that is declared at decl_file:decl_line and whose body is at `vaddr_of_body`.

    `program` is the line table of the unit that has the member's definition, and decl_file:decl_line is that
    definition's. `function_lines` are the decl_lines, ascending, of all functions which the unit's DIEs place in that
    file (declarations and inlined ones too; the more, the safer). `is_here`: the member's sequence is known to be at
    the body, so that dead ones do not compete.

    None if
      - no live sequence starts at the body, and not exactly one covers it;
      - the member's sequence may be dead: some sequence of the unit is dead, and the member has no
        declared line, or the body is in the middle of a sequence (no -ffunction-sections);
      - no live sequence there has a row of the member's own lines;
      - several have, or a dead one too, of the same rank, and their rows differ.
    """
    sequences, is_dead = program.sequences, program.is_dead
    starting = program.sequences_from(vaddr_of_body)
    if not program.has_dead and len(starting) <= 1:
        covering: list[int] = program.sequences_at(vaddr_of_body).tolist()
        if len(covering) == 1:
            return covering[0]
    path = program.file(decl_file)
    if not starting or decl_line <= 0 or not path:
        return None
    after = bisect_right(function_lines, decl_line)
    limit = function_lines[after] if after < len(function_lines) else 1 << 32
    own = program.rows_of_lines(path, decl_line, limit)
    with_own = distinct(program.sequence_idx[own])  # fewer than those that start here, which may be thousands
    is_rival = ~is_dead[with_own] & (sequences.start[with_own] == vaddr_of_body)
    is_rival &= sequences.end[with_own] > vaddr_of_body
    if not is_here:
        is_rival |= is_dead[with_own]
    rivals: list[int] = with_own[is_rival].tolist()
    own_rows = set(own.tolist())
    rivals = [i for i in rivals if int(sequences.row_start[i]) in own_rows] or rivals
    chosen = [i for i in rivals if not is_dead[i]]
    if not chosen or len({program.rows_digest(i) for i in rivals}) > 1:
        return None
    return chosen[0]
