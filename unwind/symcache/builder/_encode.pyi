import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8] | memoryview
U32 = NDArray[np.uint32] | memoryview
U64 = NDArray[np.uint64] | memoryview

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
