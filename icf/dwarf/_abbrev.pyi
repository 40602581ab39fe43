import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def compile_tables(
    abbrev: memoryview,
    operations: NDArray[np.uint32] | memoryview,
    slots: NDArray[np.uint8] | memoryview,
    inlines: int,
    tables: U64,
    ops: NDArray[np.uint32] | memoryview,
    decls: U64,
    consts: U64,
    used: U64,
) -> int: ...
