import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def walk(
    keys: U64,
    values: U64,
    steps: U64,
    blocks: memoryview,
    memory: memoryview,
    ranges: U64,
    state: U64,
    room: U64,
    frames: U64,
) -> int: ...
def walk_copies(
    keys: U64,
    values: U64,
    steps: U64,
    blocks: memoryview,
    buffer: memoryview,
    copies: U64,
    first: int,
    order: U64,
    known: int,
    ranges: U64,
    state: U64,
    room: U64,
    frames: U64,
    out: U64,
) -> tuple[int, int]: ...
