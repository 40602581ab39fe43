from array import array

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8] | memoryview
U32 = NDArray[np.uint32] | memoryview
U64 = NDArray[np.uint64] | memoryview | array[int]

def encode(
    pieces: U64,
    range_low: U64,
    range_high: U64,
    range_node: U32,
    node_up: U32,
    node_name: U32,
    node_file: U32,
    node_line: U32,
    node_column: U32,
    address: U64,
    file_idx: U32,
    line: U32,
    column: U32,
    file_map: U32,
    segments: U64,
    scratch: U32,
    out: U8,
    ends: U64,
) -> int: ...
def decode(data: memoryview, offsets: U64, nodes: memoryview, found: memoryview, state: U64) -> int: ...
def make_index(starts: U64, shift: int, index: U32) -> int: ...
def locate(
    starts: U64, sizes: U64, base: int, shift: int, index: U32, vaddrs: U64, out: NDArray[np.int64] | memoryview
) -> int: ...
