import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def scan_procedures(stream: memoryview, begin: int, end: int, procedures: U64, sites: U64, used: U64) -> int: ...
def scan_publics(stream: memoryview, publics: U64, used: U64) -> int: ...
