from unwind.walk._expressions import U64

def operate(
    blocks: memoryview,
    begin: int,
    pos: int,
    end: int,
    registers: U64,
    first_register: int,
    known: int,
    room: U64,
    stack: int,
    depth: int,
    left: int,
) -> tuple[int, int, int, int]: ...
