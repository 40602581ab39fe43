import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def unit_headers(info: memoryview, first: int, size: int, units: U64, state: U64) -> int: ...
