import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64] | memoryview

def decode(
    text: memoryview,
    text_vaddr: int,
    functions: I64,
    first: int,
    opcodes: NDArray[np.uint16] | memoryview,
    ops: I64,
    first_row: I64,
    result: I64,
) -> int: ...
