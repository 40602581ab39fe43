from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64] | memoryview
U32 = NDArray[np.uint32] | memoryview

_Item = TypeVar("_Item")

def refill(smaller: U64, larger: U64) -> int: ...
def insert(table: U64, key: int, value: int) -> int: ...
def add_path(numbers: U64, first: int, tree: U64, nodes: U64, state: U64) -> int: ...
def add_along(
    wanted: U64,
    nodes: U64,
    rows: U32,
    starts: U64,
    numbers: U64,
    known: U64,
    path: U64,
    tree: U64,
    added: U64,
    state: U64,
) -> bool: ...
def follow(wanted: U64, nodes: U64, states: U32, turns: U64, path: U64, state: U64) -> bool: ...
def frames_along(wanted: U64, nodes: U64, frames: list[_Item]) -> list[list[_Item]]: ...
def answers_along(wanted: U64, nodes: U64, states: U32, answers: list[_Item]) -> list[list[_Item]]: ...
