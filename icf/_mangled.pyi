from array import array

class Measure:
    size: int
    depth: int
    bad: int
    has_internal: int
    def __init__(self, text: bytes, subs: array[int], args: array[int], levels: int) -> None: ...
