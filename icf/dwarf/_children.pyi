"""Types of the kernel of the same name."""

def read_children(
    info: memoryview,
    before: int,
    more_size: int,
    units: memoryview,
    unit: int,
    tables: memoryview,
    decls: memoryview,
    ops: memoryview,
    consts: memoryview,
    operations: memoryview,
    picks: memoryview,
    first: int,
    last: int,
    variables: bool,
    rows: memoryview,
    scratch: memoryview,
    result: memoryview,
) -> int: ...
