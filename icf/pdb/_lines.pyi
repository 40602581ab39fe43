import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def scan_lines(stream: memoryview, begin: int, end: int, runs: U64, rows: U64, inlinees: U64, used: U64) -> int: ...
def read_annotations(stream: memoryview, sites: U64, out: U64) -> int: ...
