"""Types of the kernel of the same name."""

def split_methods(
    text: bytes | memoryview,
    edges: memoryview,
    first: int,
    rows: memoryview,
    flags: memoryview,
    forks: memoryview,
) -> tuple[int, int]: ...
