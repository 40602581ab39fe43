import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32] | memoryview
U64 = NDArray[np.uint64] | memoryview

def make_index(starts: U64, shift: int, index: U32) -> int: ...
def locate(
    starts: U64, sizes: U64, base: int, shift: int, index: U32, vaddrs: U64, out: NDArray[np.int64] | memoryview
) -> int: ...
def look_up(
    data: memoryview,
    starts: memoryview,
    sizes: memoryview,
    infos: memoryview,
    offsets: memoryview,
    order: memoryview,
    has_tables: bool,
    compared: int,
    wanted: int,
    table: memoryview,
    numbers: memoryview,
    nodes: memoryview,
    found: memoryview,
    answers: memoryview,
    frames: memoryview,
    chains: memoryview,
    state: memoryview,
) -> int: ...
