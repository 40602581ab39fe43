import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def split(buffer: memoryview, skipped: memoryview, events: U64, layouts: U64, state: U64, rows: U64) -> int: ...
def find_nodes(
    buffer: memoryview,
    rows: U64,
    first: int,
    addresses: U64,
    tree: U64,
    nodes: U64,
    tree_state: U64,
    state: U64,
    numbers: U64,
) -> int: ...
def add_frame(addresses: U64, address: int, key: int, number: int) -> int: ...
def move_frames(smaller: U64, larger: U64) -> int: ...
