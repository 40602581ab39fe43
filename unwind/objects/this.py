"""The objects that the functions of a stack were called for, for `unwind.resolve.vptrs.read_vptrs`.

The debug information at a merged body is that of the function that was kept. Its code is that of all members, so the
object is where it says, whichever member runs: in `this`, or, if a free function was kept, in the first parameter.
What was called is decided by the object at the entry, so another one that has taken its place counts as not known
(`unwind.objects.kept`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from icf.dwarf.constants import DW_AT_frame_base, DW_AT_location
from icf.dwarf.locations import expression_at, is_list
from icf.dwarf.scopes import Function, Parameter
from icf.dwarf.typenames import Kind
from icf.errors import FormatError
from unwind.objects.activation import Activation
from unwind.objects.expressions import REG0, REG31, Form, Place, Unknown
from unwind.objects.parameters import is_kept, read_contents
from unwind.walk.frame import Memory

_KEPT_ADDRESSES = 1 << 12
_FBREG = 0x91
_WORD_BYTES = 8


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
    known = {each for one in _distinct(at) if (each := _object(at, *one, memory)) is not None}
    return known.pop() if len(known) == 1 else None


def _distinct(at: Activation) -> list[tuple[Function, Parameter]]:
    """Return the functions that were folded to the body and may differ in where the object is, with its parameter."""
    if at.described is None:
        return []
    known = at.described.objects
    if at.vaddr not in known:
        if len(known) >= _KEPT_ADDRESSES:
            known.clear()
        found = [(each, parameter) for each in at.functions if (parameter := _parameter(at, each)) is not None]
        known[at.vaddr] = list({_described(at, *one): one for one in reversed(found)}.values())
    return known[at.vaddr]


def _parameter(at: Activation, function: Function) -> Parameter | None:
    """Return the parameter that is the object, or may be."""
    assert at.described is not None
    own = function.scopes[0]
    parameter = next((each for each in own.parameters if each.is_object), None)
    if parameter is None and own.parameters:
        parameter = own.parameters[0]
        if at.described.types.at(parameter.type).kind is not Kind.POINTER:
            return None
    return parameter


def _described(at: Activation, function: Function, parameter: Parameter) -> object:
    """Return all of what debug information says of where a parameter is; the function itself if that is not plain."""
    assert at.described is not None
    trees, own = at.described.scopes.trees, function.scopes[0]
    try:
        now, first = (expression_at(trees, parameter.die, DW_AT_location, each) for each in (at.vaddr, function.low))
        base = expression_at(trees, own.die, DW_AT_frame_base, at.vaddr)
        is_plain = now is not None and REG0 <= now[0] <= _FBREG
        is_listed = is_list(trees, parameter.die, DW_AT_location)
    except FormatError:
        return function
    if not is_plain:
        return function
    return (
        own.ranges,
        function.low,
        is_listed,
        parameter.is_object,
        *(bytes(each or b"") for each in (now, first, base)),
    )


def _object(at: Activation, function: Function, parameter: Parameter, memory: Memory) -> int | None:
    assert at.described is not None
    type_, own = at.described.types.at(parameter.type), function.scopes[0]
    try:
        data, place = read_contents(parameter, type_, own, at, memory, function)
        if place is None or _is_as_at_entry(place, parameter, at, function):
            return int.from_bytes(data, "little")
    except (Unknown, FormatError):
        pass
    return _held_elsewhere(parameter, at, function, memory)


def _held_elsewhere(parameter: Parameter, at: Activation, function: Function, memory: Memory) -> int | None:
    """Return the object from another place that holds it: at a call, clang names the register of the argument, which
    the call has changed since.
    """
    assert at.described is not None
    register = _entry_register(parameter, at, function)
    if register is None:
        return None
    for place, in_frame in at.described.kept(function).places_of(register, at.vaddr, is_call=at.frame.is_call):
        if not in_frame:
            value = at.register(place)
        elif at.frame.cfa and is_kept(at.frame.cfa + place, at):
            data = memory.read(at.frame.cfa + place, _WORD_BYTES)
            value = None if data is None else int.from_bytes(data, "little")
        else:
            value = None
        if value is not None:
            return value
    return None


def _entry_register(parameter: Parameter, at: Activation, function: Function) -> int | None:
    """Return the register that a parameter is in when the function is entered; None if that is not known."""
    assert at.described is not None
    first = expression_at(at.described.scopes.trees, parameter.die, DW_AT_location, function.low)
    return first[0] - REG0 if first is not None and len(first) == 1 and REG0 <= first[0] <= REG31 else None


def _is_as_at_entry(place: Place, parameter: Parameter, at: Activation, function: Function) -> bool:
    """Return whether a place is certain to hold what the function was entered with."""
    assert at.described is not None
    if place.size_bytes or place.form not in (Form.REGISTER, Form.MEMORY):
        return False
    in_frame = place.form is Form.MEMORY
    number = place.number - at.frame.cfa if in_frame else place.number
    found = at.described.kept(function).argument_at(at.vaddr, number, is_call=at.frame.is_call, in_frame=in_frame)
    return found is not None and _entry_register(parameter, at, function) in (None, found)
