"""What a debugger shows of an answer: the functions that take the place of those that it would show itself.

A frame of machine code, with the functions inlined in it, is one frame of an answer:

    debugger    List<Order>::grow (inlined)     List<Order>::add        what the linker kept
    answer      List<Payment>::grow             List<Payment>::add      what was called, with lines of its own

Nothing is changed where the body has one function. A frame that can be several functions shows their names, and no
line. After the name stands why, in brackets.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

_SHOWN_NAMES = 4
_UNCHANGED = ("unmerged", "unknown")
_Item = TypeVar("_Item")


class Function(NamedTuple):
    """A function to show, and its place; `remark`: why it is this one."""

    name: str
    linkage_names: Tuple[str, ...]  # of the one function that it is; empty if it can be several
    file: Optional[str]
    line: Optional[int]
    remark: str
    address: Optional[int] = None


class Change(NamedTuple):
    """What to show for a frame of machine code and for the frames that tail calls left out between it and its caller.

    `functions` are innermost first, the one that has the machine code last; empty: what the debugger shows is right.
    """

    functions: Tuple[Function, ...]
    left_out: Tuple[Function, ...]


def change_of(answer: Dict[str, Any], with_remarks: bool = True) -> Optional[Change]:
    """Return what to show for a frame of an answer; None if it is not known, and the debugger's own names remain."""
    if answer.get("verdict") == "unknown":
        return None
    missing = [_own(each, "tail call", with_remarks) for each in _objects(answer, "missing")]
    if answer.get("verdict") in _UNCHANGED:
        return Change((), tuple(missing))
    inlined = [_inlined(each) for each in _objects(answer, "inlines")]
    return Change((*inlined, _own(answer, "", with_remarks)), tuple(missing))


def carried(functions: Sequence[Function], items: Sequence[_Item], is_exact: bool) -> List[Tuple[_Item, Function]]:
    """Return each function to show with the debugger's own frame that carries it, the machine frame last.

    At the first instruction of an inlined function, a debugger that stops there does not show it yet: of a program
    counter (`is_exact`) no more functions are shown than the debugger has frames. Elsewhere the innermost frame carries
    all that it has no frame for.
    """
    if is_exact:
        functions = functions[-len(items) :]
    carriers = [items[0]] * (len(functions) - len(items)) + list(items[-len(functions) :])
    return list(zip(carriers, functions))


def text_of(function: Function) -> str:
    """Return a name, and why it is this one."""
    return "{} [icf: {}]".format(function.name, function.remark) if function.remark else function.name


def is_open(answer: Dict[str, Any]) -> bool:
    """Return whether the vtable pointer of the frame's object might decide which function it is."""
    return answer.get("verdict") in ("ambiguous", "narrowed")


def _own(answer: Dict[str, Any], what: str, with_remarks: bool) -> Function:
    name, linkage_name = answer.get("name"), answer.get("linkage_name")
    if name:
        linkage_names = tuple([each for each in [linkage_name, *(answer.get("aliases") or ())] if each])
        remark = ", ".join([each for each in (what, answer.get("evidence") or "") if each])
    else:
        names: List[str] = answer.get("candidate_names") or ["?"]
        more = len(names) - _SHOWN_NAMES
        name = " | ".join(names[:_SHOWN_NAMES]) + (" | {} more".format(more) if more > 0 else "")
        linkage_names = ()
        why = answer.get("reason_text") or answer.get("verdict") or ""
        remark = ", ".join([each for each in (what, why) if each])
    address = answer.get("address")
    return Function(
        name,
        linkage_names,
        answer.get("file"),
        answer.get("line"),
        remark if with_remarks else "",
        int(address, 16) if isinstance(address, str) else None,
    )


def _inlined(inlined: Dict[str, Any]) -> Function:
    return Function(inlined.get("name") or "?", (), inlined.get("file"), inlined.get("line"), "")


def _objects(answer: Dict[str, Any], name: str) -> List[Dict[str, Any]]:
    return [each for each in answer.get(name) or () if isinstance(each, dict)]
