"""Values at the entry of a function: what its caller says, at the call, of the arguments that it passes.

    Circle::draw   this: DW_OP_entry_value(DW_OP_reg5)              rdi has been overwritten since
    render         DW_TAG_call_site, return address 0x1189
                     DW_TAG_call_site_parameter   DW_AT_location DW_OP_reg5, DW_AT_call_value DW_OP_breg3 0

The caller's expression is evaluated in the caller's frame, whose callee-saved registers are known. It is about the
function that the call enters. That is this one only if the call, as the machine code or the debug information has it,
leads to its first instruction, and if the function cannot come to itself again by tail calls. A call through a pointer
is not followed: the function that it enters may have tail-called this one.
"""

from __future__ import annotations

from icf.code.calls import CallKind, call_ending_at
from icf.dwarf.scopes import Argument, Function, Site
from unwind.objects.activation import Activation
from unwind.objects.expressions import Evaluator, Lack, Unknown
from unwind.walk.frame import Memory

_REG0, _REGX, _BREG0, _DEREF, _DEREF_SIZE = 0x50, 0x90, 0x70, 0x06, 0x94
_FUNCTION_LIMIT = 64  # that tail calls lead through


def new_evaluator(memory: Memory) -> Evaluator:
    """Return an evaluator for one question."""
    evaluator = Evaluator(
        memory, lambda at, function, register, parameter: _value(evaluator, at, function, register, parameter)
    )
    return evaluator


def _value(evaluator: Evaluator, at: Activation, function: Function, register: bytes, parameter: int) -> int:
    """Return what a register (its expression), or a parameter (its DIE), was at the entry; raises `Unknown`."""
    location, is_pointed = _location(register)
    caller = at.caller
    if caller is None or not caller.frame.is_call or caller.described is None:
        raise Unknown(Lack.NO_ENTRY_VALUE)
    for calling in caller.functions:
        site = calling.sites.get(caller.frame.pc - caller.bias)
        if site is None or not _enters(site, caller, at, function):
            continue
        for argument in site.arguments:
            if parameter and argument.parameter:
                is_asked = _is_parameter(caller, argument, at, parameter)
            else:
                is_asked = bool(location) and argument.location == location
            expression = argument.data_value if is_pointed else argument.value
            if is_asked and expression is not None:
                return evaluator.number(expression, caller, calling)
    raise Unknown(Lack.NO_ENTRY_VALUE)


def _location(register: bytes) -> tuple[bytes, bool]:
    """Return the expression of a register alone, and whether what it points to is asked for; raises `Unknown`."""
    if not register:
        return b"", False
    first, rest = register[0], register[1:]
    if (_REG0 <= first < _BREG0 and not rest) or first == _REGX:
        return register, False
    if _BREG0 <= first < _REGX and (rest == bytes((0, _DEREF)) or rest[:2] == bytes((0, _DEREF_SIZE))):
        return bytes((first - _BREG0 + _REG0,)), True
    raise Unknown(Lack.REFUSED)


def _is_parameter(caller: Activation, argument: Argument, at: Activation, parameter: int) -> bool:
    """Return whether an argument is that of a parameter, which both refer to by a DIE."""
    if caller.described is not at.described or caller.described is None:
        return False
    asked, given = (caller.described.scopes.parameter_origins(die) for die in (parameter, argument.parameter))
    return not asked.isdisjoint(given)


def _enters(site: Site, caller: Activation, at: Activation, function: Function) -> bool:
    """Return whether a call enters the function at its first instruction, and only once."""
    return _calls(site, caller, at, function) and not _reaches_itself(at, function)


def _calls(site: Site, caller: Activation, at: Activation, function: Function) -> bool:
    assert caller.described is not None and at.described is not None
    image = caller.described.image
    call = call_ending_at(image, caller.frame.pc - caller.bias)
    if call.kind is not CallKind.DIRECT or call.target is None:
        return False
    if call.target + caller.bias == function.low + at.bias:
        return True
    stub = image.plt_stubs.get(call.target, "")
    return bool(stub) and stub.partition("@")[0] == function.linkage_name


def _reaches_itself(at: Activation, function: Function) -> bool:
    """Return whether tail calls may lead from a function to itself."""
    assert at.described is not None
    scopes = at.described.scopes
    seen: set[int] = set()
    todo = [function]
    while todo:
        for site in todo.pop().tail_calls:
            entries = scopes.entries_of(site.origin)
            if not entries or function.low in entries or len(seen) >= _FUNCTION_LIMIT:
                return True
            for entry in entries - seen:
                seen.add(entry)
                todo += scopes.at(entry)
    return False
