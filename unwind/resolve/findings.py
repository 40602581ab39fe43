"""What is certain about the candidates that are left of a body: a verdict and names, the same for all frames in it.

all of a, b         ambiguous, a and b
a of a, b           unique, a
init, init          unique, init: of two files; which one it is stays open, but not what it is called
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from icf.aliases import function_name, same_function
from icf.model import Member, MemberFlag, Verdict
from unwind.program.program import Body
from unwind.program.ways import bits


class Finding(NamedTuple):
    """The verdict on some candidates, and their names.

    Attributes:
        verdict: what is certain.
        left: the candidates; all of the body if none was left.
        names: the different ones, or the one that all have.
        member_idx: the one that is left; -1: there are several, or it is not certain.
        shows_evidence: whether the answer says on what it rests.
        lacks_names: whether it stays open as no table names all functions of the body.
    """

    verdict: Verdict
    left: int
    names: tuple[str, ...] | str = ()
    member_idx: int = -1
    shows_evidence: bool = False
    lacks_names: bool = False


def finding_of(body: Body, left: int, *, is_certain: bool = True) -> Finding:
    """Return the verdict on the candidates `left`, and their names.

    None left: contradicted. One left, and not `is_certain`: narrowed.
    """
    listed = left & body.listed
    if is_certain and left == listed and left and not left & (left - 1):
        return Finding(Verdict.UNIQUE, left, member_idx=left.bit_length() - 1, shows_evidence=True)
    verdict = Verdict.AMBIGUOUS if listed == body.listed else Verdict.NARROWED
    if not left:
        verdict, left, listed = Verdict.CONTRADICTED, body.domain, body.listed
    narrowed = verdict is Verdict.NARROWED
    members = [body.members[idx] for idx in bits(listed)]
    if is_certain and left == listed and verdict is not Verdict.CONTRADICTED and (common := common_name(members)):
        return Finding(Verdict.UNIQUE, left, common, shows_evidence=narrowed)
    names = tuple(dict.fromkeys([member.name for member in members]))
    lacks_names = verdict is not Verdict.CONTRADICTED and (not listed or (left != listed and len(names) == 1))
    return Finding(verdict, left, names, shows_evidence=narrowed, lacks_names=lacks_names)


def common_name(members: Sequence[Member]) -> str:
    """Return the one name that all members have: functions of one name from different files, or a function and its
    clones.

    Which one it is stays open, but not what it is called; "" if that does, too.
    """
    source = function_name(members[0].name)
    if not all(
        same_function(source, function_name(member.name)) and not member.flags & MemberFlag.NAMELESS
        for member in members
    ):
        return ""
    names = {member.name for member in members}
    if len(names) == 1:
        return names.pop()
    return min((name for name in names if function_name(name) == name), default=source)
