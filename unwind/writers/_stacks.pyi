def deepest(wanted: memoryview, nodes: memoryview) -> int: ...
def write_stacks(
    wanted: memoryview,
    nodes: memoryview,
    states: memoryview,
    heads: memoryview,
    head_ends: memoryview,
    texts: memoryview,
    ends: memoryview,
    width: int,
    out: memoryview,
    state: memoryview,
) -> int: ...
