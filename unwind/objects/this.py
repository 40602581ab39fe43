"""The objects that the functions of a stack were called for, for `unwind.resolve.vptrs.read_vptrs`.

The debug information at a merged body is that of the function that was kept. Its code is that of all members, so the
object is where it says, whichever member runs: in `this`, or, if a free function was kept, in the first parameter.
What was called is decided by the object at the entry, so another one that has taken its place counts as not known
(`unwind.objects.kept`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from icf.dwarf.constants import DW_AT_location
from icf.dwarf.locations import expression_at
from icf.dwarf.scopes import Function, Parameter
from icf.dwarf.typenames import Kind
from icf.errors import FormatError
from unwind.objects.activation import Activation
from unwind.objects.expressions import REG0, REG31, Form, Place, Unknown
from unwind.objects.parameters import read_contents
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
    try:
        data, place = read_contents(parameter, at.described.types.at(parameter.type), own, at, memory, function)
    except (Unknown, FormatError):
        return None
    return int.from_bytes(data, "little") if place is None or _is_as_at_entry(place, parameter, at, function) else None


def _is_as_at_entry(place: Place, parameter: Parameter, at: Activation, function: Function) -> bool:
    """Return whether a place is certain to hold what the function was entered with."""
    assert at.described is not None
    if place.size_bytes or place.form not in (Form.REGISTER, Form.MEMORY):
        return False
    in_frame = place.form is Form.MEMORY
    number = place.number - at.frame.cfa if in_frame else place.number
    found = at.described.kept(function).argument_at(at.vaddr, number, is_call=at.frame.is_call, in_frame=in_frame)
    first = expression_at(at.described.scopes.trees, parameter.die, DW_AT_location, function.low)
    if found is None or first is None or len(first) != 1 or not REG0 <= first[0] <= REG31:
        return found is not None
    return found == first[0] - REG0
