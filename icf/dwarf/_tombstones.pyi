import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def find_tombstones(section: memoryview, first: int, rela: U64, symbol_value: U64, found: U64) -> int: ...
def put_words(room: memoryview, first: int, offset: U64, value: U64) -> int: ...
