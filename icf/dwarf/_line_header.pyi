import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview
U64 = NDArray[np.uint64] | memoryview

def scan_headers(line: Bytes, offsets: U64, limits: U64, state: U64, formats: U64, units: U64, entries: U64) -> int: ...
