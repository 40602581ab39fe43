"""Types of columns: arrays with one value, or one fixed-size record, per row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]  # addresses, offsets, hashes
I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]  # rows; -1 for none
Mask = NDArray[np.bool_]  # which rows
