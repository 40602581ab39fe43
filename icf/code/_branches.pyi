import numpy as np
from numpy.typing import NDArray

Bytes = memoryview
U64 = NDArray[np.uint64] | memoryview
U8 = NDArray[np.uint8] | memoryview

def find_x86_64(
    text: Bytes,
    text_vaddr: int,
    low: int,
    call_bits: U8,
    jump_bits: U8,
    start: int,
    out: U64,
    result: U64,
) -> int: ...
def find_aarch64(
    text: Bytes,
    text_vaddr: int,
    low: int,
    call_bits: U8,
    jump_bits: U8,
    start: int,
    out: U64,
    result: U64,
) -> int: ...
