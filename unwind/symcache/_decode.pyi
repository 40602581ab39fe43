def read_members(data: memoryview, infos: memoryview, entry: int, table: memoryview, state: memoryview) -> int: ...
def decode(
    data: memoryview,
    at: int,
    size: int,
    base: int,
    offsets: memoryview,
    first: int,
    last: int,
    numbers: memoryview,
    nodes: memoryview,
    found: memoryview,
) -> int: ...
