import numpy as np
from numpy.typing import NDArray

def compile_tables(
    abbrev: bytes | memoryview,
    tables: NDArray[np.uint64],
    ops: NDArray[np.uint32],
    decls: NDArray[np.uint64],
    consts: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> int: ...
def form_op(form: int, offset_size: int, address_size: int, version: int) -> int: ...
