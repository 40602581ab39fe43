"""Types of the kernel of the same name."""

def read_registers(
    lists: memoryview,
    asked: memoryview,
    units: memoryview,
    loclists: memoryview,
    loc: memoryview,
    addr: memoryview,
    out: memoryview,
) -> int: ...
