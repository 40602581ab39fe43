"""`sequences_in_order`: functions and sequences of a unit in one order, where addresses and sizes bear it out."""

from __future__ import annotations

import numpy as np

from icf.dwarf.line import LineSections
from icf.dwarf.line_order import sequences_in_order
from tests.support.line_lookup import read_line_program
from tests.support.line_tables import function
from tests.support.line_tables import unit as line_unit

# (start, bytes) of each sequence; 0x1800 is a merged body, 0 was discarded
SEQUENCES = [(0x1200, 32), (0x1800, 20), (0x1800, 20), (0, 12), (0x1400, 20), (0x1900, 8)]
IN_ORDER = [(0x1200, 32), (0, 20), (0x1800, 20), (0, 12), (0x1400, 20), (0, 8)]  # low pc and bytes of the functions


def chosen(
    functions: list[tuple[int, int]], places: list[int] | None = None, sequences: list[tuple[int, int]] = SEQUENCES
) -> list[int]:
    """The sequences of functions whose addresses are at these places of .debug_addr (+ 1)."""
    code = b"".join(function(start, [(0, 1, 10)], size_bytes) for start, size_bytes in sequences)
    program = read_line_program(LineSections(line_unit(code), b"", b"", "a.out"), 0)
    assert (program.sequences.end - program.sequences.start).tolist() == [size_bytes for _, size_bytes in sequences]
    low, size_bytes = np.array(functions, np.uint64).reshape(-1, 2).T
    address_idx = np.array(places or [3 * i + 1 for i in range(len(functions))], np.uint64)
    found: list[int] = sequences_in_order(program, address_idx, low, low + size_bytes).tolist()
    return found


def test_order() -> None:
    assert chosen(IN_ORDER) == [0, 1, 2, 3, 4, 5]
    assert chosen(IN_ORDER[::-1], [16, 13, 10, 7, 4, 1]) == [5, 4, 3, 2, 1, 0]  # whatever the order of the DIEs


def test_what_contradicts_the_order_is_not_taken() -> None:
    assert chosen(IN_ORDER[:-1]) == [0, -1, -1, -1, 4]  # a sequence is left over
    assert chosen([*IN_ORDER, (0, 8)]) == [0, -1, -1, -1, 4, -1, -1]
    assert chosen([*IN_ORDER[:-1], (0, 9)]) == [0, -1, -1, -1, 4, -1]  # another size
    assert chosen([IN_ORDER[0], (0x1800, 20), (0, 12), (0, 20), *IN_ORDER[4:]]) == [0, -1, -1, -1, 4, -1]
    swapped = [IN_ORDER[4], *IN_ORDER[1:4], IN_ORDER[0], IN_ORDER[5]]
    assert chosen(swapped) == [4, -1, -1, -1, 0, -1]  # those with addresses are not in order


def test_functions_without_a_place() -> None:
    assert chosen(IN_ORDER, [1, 0, 2, 3, 4, 5]) == [-1] * 6
    assert chosen([], sequences=[]) == []
    assert chosen([(0, 8)], sequences=[(0, 8)]) == [-1]  # nothing of the unit is in the image


def test_function_within_the_sequence_of_another() -> None:
    assert chosen([(0x1200, 20), (0x1214, 12), *IN_ORDER[1:]]) == [0, -1, 1, 2, 3, 4, 5]


def test_the_order_of_the_dies_is_of_no_matter() -> None:
    sequences = [*((0x1000 + 0x100 * i, 16) for i in range(8)), (0, 12)]
    numbers = [5, 2, 7, 0, 8, 3, 6, 1, 4]
    assert chosen([sequences[i] for i in numbers], [i + 1 for i in numbers], sequences) == numbers
