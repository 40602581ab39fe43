"""The parameters of a frame: names, types and values, of its function and of what is inlined there.

    for scope in read_parameters(activation, memory):              # innermost first, the function itself last
        print(scope.name, [(each.name, each.type, each.value) for each in scope.parameters])

Locations are read at the call: the address less one of a frame that waits for a return. `this` cannot be assigned:
where its register was not recovered, it is what that of the entry was.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass

from icf.dwarf import columns as col
from icf.dwarf.constants import DW_AT_const_value, DW_AT_location
from icf.dwarf.locations import expression_at, is_list
from icf.dwarf.scopes import Function, Parameter, Scope
from icf.dwarf.typenames import Kind, Type
from icf.elf.types import Machine
from icf.errors import FormatError
from unwind.objects.activation import Activation
from unwind.objects.entry import new_evaluator
from unwind.objects.expressions import ENTRY_VALUE, Form, Lack, Place, Unknown
from unwind.walk.frame import Memory

_FIRST_ARGUMENT = {Machine.X86_64: 5, Machine.AARCH64: 0}
_STACK_POINTER = {Machine.X86_64: 7, Machine.AARCH64: 31}
_RED_ZONE_BYTES = {Machine.X86_64: 128, Machine.AARCH64: 0}
_STACK_BYTES = 1 << 23  # what lies below by this much or less is of this stack
_FLOATS = {4: "<f", 8: "<d"}


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """A parameter as it was when the stack was taken.

    Attributes:
        name: "" if it has none.
        type: as declared, without namespaces: `const Shape *`.
        value: a number, an address for pointers and references; None if it is not known.
        lack: why it is not known.
        is_object: whether it is the object that a method was called for.
    """

    name: str
    type: str
    value: int | float | None
    lack: Lack | None
    is_object: bool


@dataclass(frozen=True, slots=True)
class ScopeValues:
    """A function of a frame, or one that is inlined there, with its parameters.

    Attributes:
        name: without namespaces, class and parameters; "" if it is not known.
        die: the offset of its DIE in .debug_info.
        parameters: in the order of the declaration.
    """

    name: str
    die: int
    parameters: tuple[ParameterValue, ...]

    @property
    def this(self) -> int | None:
        """The address of the object that it was called for; None if it is not known, or not a method."""
        for each in self.parameters:
            if each.is_object and isinstance(each.value, int):
                return each.value
        return None


def read_parameters(at: Activation, memory: Memory, function: Function | None = None) -> tuple[ScopeValues, ...]:
    """Return the scopes at a frame, innermost first, each with its parameters; none if nothing describes the frame.

    `function`: one of `at.functions`, by default the first; several were folded to one body, and each describes it.
    """
    if function is None:
        if not at.functions:
            return ()
        function = at.functions[0]
    return tuple(
        ScopeValues(
            scope.name,
            scope.die.offset,
            tuple(read_parameter(each, scope, at, memory, function) for each in scope.parameters),
        )
        for scope in function.at(at.vaddr)
    )


def read_parameter(
    parameter: Parameter, scope: Scope, at: Activation, memory: Memory, function: Function
) -> ParameterValue:
    assert at.described is not None
    type_ = at.described.types.at(parameter.type)
    value, lack = None, None
    try:
        data, _ = read_contents(parameter, type_, scope, at, memory, function)
        value = _number(data, type_)
    except Unknown as unknown:
        lack = unknown.lack
    except FormatError:
        lack = Lack.REFUSED
    return ParameterValue(parameter.name, type_.name, value, lack, parameter.is_object)


def read_contents(
    parameter: Parameter, type_: Type, scope: Scope, at: Activation, memory: Memory, function: Function
) -> tuple[bytes, Place | None]:
    """Return the bytes of a parameter, and where they are; None: they are what it was at the entry of the function.

    Raises `Unknown`.
    """
    assert at.described is not None
    if type_.kind is Kind.OTHER:
        raise Unknown(Lack.NO_NUMBER)
    if DW_AT_const_value in parameter.die.attributes:
        return _constant(parameter, type_, at), Place(Form.VALUE)
    evaluator = new_evaluator(memory)
    trees = at.described.scopes.trees
    try:
        expression = expression_at(trees, parameter.die, DW_AT_location, at.vaddr)
        if expression is None:
            raise Unknown(Lack.OPTIMIZED_OUT)
        places = evaluator.places(expression, at, function)
        if places[0].form is Form.MEMORY:
            if not is_kept(places[0].number, at):
                raise Unknown(Lack.NO_MEMORY)
            if not is_list(trees, parameter.die, DW_AT_location):
                _check_stored(at, function)
        place = None if expression[0] in ENTRY_VALUE else places[0]
        return evaluator.contents(places, at, type_.size_bytes), place
    except Unknown as unknown:
        register = None
        if unknown.lack is Lack.IN_PROLOGUE and at.vaddr == function.low and parameter is scope.parameters[0]:
            register = _first_argument(scope, at)
        if register is not None:
            return evaluator.contents([Place(Form.REGISTER, register)], at, type_.size_bytes), None
        if parameter.is_object and scope.around < 0 and unknown.lack is not Lack.REFUSED:
            with suppress(Unknown):
                return _at_entry(parameter, at, memory, function), None
        raise


def _at_entry(parameter: Parameter, at: Activation, memory: Memory, function: Function) -> bytes:
    """Return what a parameter was when the function was entered, if it was in a register; raises `Unknown`."""
    assert at.described is not None
    expression = expression_at(at.described.scopes.trees, parameter.die, DW_AT_location, function.low)
    return new_evaluator(memory).entry_value(at, function, bytes(expression or b"")).to_bytes(8, "little")


def _check_stored(at: Activation, function: Function) -> None:
    """Raise `Unknown` if the function may not have stored its parameters yet."""
    assert at.described is not None
    if at.described.prologues.has(function.scopes[0].die.unit, function.low, at.vaddr):
        raise Unknown(Lack.IN_PROLOGUE)


def is_kept(address: int, at: Activation) -> bool:
    """Return whether an address is not in a part of the stack that the frame has given up: a handler may use that."""
    assert at.described is not None
    sp = at.register(_STACK_POINTER[at.described.image.machine])
    if at.frame.is_call or sp is None:
        return True
    kept = sp - _RED_ZONE_BYTES[at.described.image.machine]
    return not kept - _STACK_BYTES <= address < kept


def _first_argument(scope: Scope, at: Activation) -> int | None:
    """Return the register of the first argument; None if that may be where the function stores its result."""
    assert at.described is not None
    returned = at.described.types.at(scope.type)
    if scope.type and returned.kind is Kind.OTHER:
        return None
    return _FIRST_ARGUMENT.get(at.described.image.machine)


def _constant(parameter: Parameter, type_: Type, at: Activation) -> bytes:
    assert at.described is not None
    value = parameter.die.attributes[DW_AT_const_value]
    if value.kind == col.CLS_CONSTANT and 0 < type_.size_bytes <= 8:
        return (value.number & (1 << 8 * type_.size_bytes) - 1).to_bytes(type_.size_bytes, "little")
    block = at.described.scopes.trees.block(parameter.die, DW_AT_const_value)
    if block is None or len(block) < type_.size_bytes:
        raise Unknown(Lack.REFUSED)
    return bytes(block[: type_.size_bytes])


def _number(data: bytes, type_: Type) -> int | float:
    if type_.kind is Kind.FLOAT:
        if len(data) not in _FLOATS:
            raise Unknown(Lack.NO_NUMBER)
        (value,) = struct.unpack(_FLOATS[len(data)], data)
        return float(value)
    return int.from_bytes(data, "little", signed=type_.kind is Kind.SIGNED)
