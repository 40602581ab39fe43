import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64] | memoryview
U64 = NDArray[np.uint64] | memoryview

def follow(
    ops: I64,
    first_row: I64,
    functions: I64,
    first: int,
    last: int,
    machine: I64,
    entries: I64,
    edges: I64,
    endless: I64,
    keepers: I64,
    starts: I64,
    label: I64,
    nodes: U64,
    origin: U64,
    offset: U64,
    memory: U64,
    out: U64,
    status: NDArray[np.uint8] | memoryview,
    result: I64,
) -> int: ...
