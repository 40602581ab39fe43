import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview

def follow(
    rows: U64,
    ranges: U64,
    state: U64,
    frames: U64,
    sites: U64,
    site_places: U64,
    nodes: U64,
    node_places: U64,
    counts: U64,
) -> int: ...
def refill_sites(sites: U64, count: int, places: U64) -> int: ...
