import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def next_stretch(rows: U64, start: int, state: U64) -> int: ...
