import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview

def expand(
    rows: NDArray[np.uint64],
    units: NDArray[np.uint64],
    ranges: Bytes,
    rnglists: Bytes,
    addr: Bytes,
    out: NDArray[np.uint64],
) -> int: ...
