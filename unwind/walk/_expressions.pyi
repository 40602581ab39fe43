import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def run(
    expression: memoryview, pos: int, registers: U64, known: int, stack: U64, depth: int, left: int
) -> tuple[int, int, int, int]: ...
