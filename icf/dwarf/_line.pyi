import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview
U64 = NDArray[np.uint64] | memoryview

def run_programs(
    line: Bytes,
    state: U64,
    special: U64,
    units: U64,
    sequences: U64,
    defined: U64,
    address: U64,
    file_idx: NDArray[np.uint32] | memoryview,
    line_number: NDArray[np.uint32] | memoryview,
    column: NDArray[np.uint32] | memoryview,
    flags: NDArray[np.uint8] | memoryview,
) -> int: ...
