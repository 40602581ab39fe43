import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def run(
    section: memoryview,
    program: U64,
    target: int,
    is_for_target: bool,
    row: U64,
    initial: U64,
    saved: U64,
    out: U64,
) -> tuple[int, int, int]: ...
