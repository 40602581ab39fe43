import numpy as np
from numpy.typing import NDArray

Bytes = bytes | memoryview
U64 = NDArray[np.uint64] | memoryview

def hash_references(info: Bytes, str_: Bytes, line_str: Bytes, references: U64, of_kin: bool, out: U64) -> int: ...
def text_bytes(table: Bytes, offsets: U64, limit: int) -> int: ...
