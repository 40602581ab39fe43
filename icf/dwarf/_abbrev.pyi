import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def compile_tables(
    abbrev: memoryview,
    inlines: int,
    tables: U64,
    ops: NDArray[np.uint32] | memoryview,
    decls: U64,
    consts: U64,
    out: U64,
) -> int: ...
def form_op(form: int, offset_size: int, address_size: int, version: int) -> int: ...
