import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def patch_tombstones(section: memoryview, rela: U64, absolute64: int, symbol_value: U64, patched: U64) -> int: ...
