import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8] | memoryview
U32 = NDArray[np.uint32] | memoryview
U64 = NDArray[np.uint64] | memoryview

def cut_bodies(start: U64, end: U64, around: U64, found: U64) -> int: ...
def put_records(
    head: U64,
    second: U64,
    first: U64,
    last: U64,
    name: U32,
    flags: U32,
    first_alias: U64,
    alias: U32,
    payload_bytes: U64,
    out: U8,
    ends: U64,
    places: U64,
) -> int: ...
def put_payloads(payloads: U8, sizes: U64, places: U64, out: U8) -> int: ...
