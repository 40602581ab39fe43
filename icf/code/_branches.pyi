import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview | NDArray[np.uint8]

def find_x86_64(
    text: Bytes,
    text_vaddr: int,
    low: int,
    call_bits: NDArray[np.uint8],
    jump_bits: NDArray[np.uint8],
    start: int,
    out: NDArray[np.uint64],
    result: NDArray[np.uint64],
) -> int: ...
def find_aarch64(
    text: Bytes,
    text_vaddr: int,
    low: int,
    call_bits: NDArray[np.uint8],
    jump_bits: NDArray[np.uint8],
    start: int,
    out: NDArray[np.uint64],
    result: NDArray[np.uint64],
) -> int: ...
