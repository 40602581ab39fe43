import numpy as np
from numpy.typing import NDArray

Bytes = memoryview
U64 = NDArray[np.uint64] | memoryview

def expand(
    rows: U64,
    units: U64,
    ranges: Bytes,
    rnglists: Bytes,
    addr: Bytes,
    out: U64,
) -> int: ...
