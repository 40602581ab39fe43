import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview
U32 = NDArray[np.uint32] | memoryview

def refill_stacks(smaller: U64, larger: U64) -> int: ...
def keep_stacks(
    addresses: U64,
    kinds: U32,
    starts: U64,
    roots: U64,
    table: U64,
    kept_addresses: U64,
    kept_kinds: U32,
    kept_starts: U64,
    kept_roots: U64,
    progress: U64,
    found: U32,
) -> bool: ...
def refill_numbers(smaller: U64, larger: U64) -> int: ...
def add_stacks(
    addresses: U64,
    kinds: U32,
    starts: U64,
    roots: U64,
    numbers: U64,
    met: U64,
    tree: U64,
    nodes: U64,
    state: U64,
    progress: U64,
    found: U64,
) -> bool: ...
def rows_along(wanted: U64, starts: U64, nodes: U64, states: U32, rows: U32, found: U32) -> int: ...
def copy_rows(stacks: U32, starts: U64, kept_starts: U64, kept_rows: U32, found: U32) -> int: ...
