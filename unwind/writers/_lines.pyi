def write_lines(
    nodes: memoryview,
    names: memoryview,
    name_ends: memoryview,
    counts: memoryview,
    ends: memoryview,
    path: memoryview,
    out: memoryview,
    state: memoryview,
) -> int: ...
