"""Types of the kernel of the same name."""

def read_registers(
    lists: memoryview,
    asked: memoryview,
    units: memoryview,
    section: memoryview,
    addr: memoryview,
    out: memoryview,
    result: memoryview,
) -> None: ...
