import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def unit_headers(info: memoryview, units: U64) -> int: ...
