from array import array

class RustMeasure:
    size: int
    depth: int
    bad: int
    def __init__(self, text: bytes, parts: array[int], levels: int) -> None: ...
