"""The objects that the functions of a stack were called for, for `unwind.resolve.vptrs.read_vptrs`.

The debug information at a merged body is that of the function that was kept. Its code is that of all members, so the
object is where it says, whichever member runs: in `this`, or, if a free function was kept, in the first parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from icf.dwarf.scopes import Function
from icf.dwarf.typenames import Kind
from unwind.objects.activation import Activation
from unwind.objects.parameters import read_parameter
from unwind.walk.frame import Memory


def read_objects(stack: Sequence[Activation], memory: Memory, wanted: Collection[int] | None = None) -> dict[int, int]:
    """Return the address of the object of each frame, by index, where it is known and not null.

    `wanted`: the frames that are asked for; all by default.
    """
    found = {}
    for idx in range(len(stack)) if wanted is None else sorted(wanted):
        address = object_of(stack[idx], memory)
        if address:
            found[idx] = address
    return found


def object_of(at: Activation, memory: Memory) -> int | None:
    """Return the address of the object that a frame's function was called for, if that is a method.

    None if it is not known, or if the functions that were folded to the body do not agree on it.
    """
    known = {each for function in at.functions if (each := _object(at, function, memory)) is not None}
    return known.pop() if len(known) == 1 else None


def _object(at: Activation, function: Function, memory: Memory) -> int | None:
    assert at.described is not None
    own = function.scopes[0]
    parameter = next((each for each in own.parameters if each.is_object), None)
    if parameter is None and own.parameters:
        parameter = own.parameters[0]
        if at.described.types.at(parameter.type).kind is not Kind.POINTER:
            return None
    if parameter is None:
        return None
    value = read_parameter(parameter, own, at, memory, function).value
    return value if isinstance(value, int) else None
