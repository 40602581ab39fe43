from typing import Any

from numpy.typing import NDArray

Buffer = memoryview | bytes | NDArray[Any]

def read_members(data: memoryview, infos: memoryview, entry: int, table: memoryview, state: memoryview) -> int: ...
def decode(
    data: memoryview,
    at: int,
    size: int,
    base: int,
    offsets: memoryview,
    numbers: memoryview,
    nodes: memoryview,
    found: memoryview,
) -> int: ...
def check_records(
    data: Buffer,
    infos: Buffer,
    entry: int,
    name_count: int,
    table: Buffer,
    state: Buffer,
    numbers: Buffer,
    nodes: Buffer,
) -> int: ...
