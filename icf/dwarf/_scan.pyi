import numpy as np
from numpy.typing import NDArray

Bytes = memoryview
U64 = NDArray[np.uint64] | memoryview
U32 = NDArray[np.uint32] | memoryview

def scan(
    info: Bytes,
    info_start: int,
    more: Bytes,
    addr: Bytes,
    str_offsets: Bytes,
    units: U64,
    tables: U64,
    decls: U64,
    ops: U32,
    consts: U64,
    operations: U32,
    first: int,
    last: int,
    mode: int,
    picks: U64,
    stack: NDArray[np.int32] | memoryview,
    functions: U64,
    sites: U64,
    result: U64,
) -> int: ...
