import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview

def hash_references(
    info: Bytes, str_: Bytes, line_str: Bytes, references: NDArray[np.uint64], out: NDArray[np.uint64]
) -> int: ...
