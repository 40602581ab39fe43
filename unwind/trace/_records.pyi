import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview
U32 = NDArray[np.uint32] | memoryview

def read(records: U32, state: U64, rows: U64, codes: U64, places: U64) -> int: ...
