"""Small programs as plain data, for tests of the resolver.

Body `i` starts at 0x1000 * (i + 1) and is 0x1000 long; member `j` of it is called like `b0m1` and has the
DIE 0x100 * (i + 1) + j + 1. `ret(i, k)` is the k-th return address in body `i`.
"""

from __future__ import annotations

from collections.abc import Sequence

from icf.model import ClassFlag, DieOffset, FoldClass, Member, MemberFlag, MemberRef, TailCall, Vaddr, Verdict
from unwind.program.exports import Export, ListedExports
from unwind.program.parts import CallRecord
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import ReasonCode

COMPLETE, FRAGMENT = ClassFlag.MEMBERS_COMPLETE, ClassFlag.FRAGMENT
MARKED = COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN
BODY_BYTES = 0x1000


def start(body: int) -> int:
    return BODY_BYTES * (body + 1)


def ret(body: int, call: int = 0) -> int:
    return start(body) + 0x10 * (call + 1)


def pc(body: int) -> int:
    return start(body) + 0x8


def die(body: int, member: int) -> DieOffset:
    return DieOffset(0x100 * (body + 1) + member + 1)


def fold(
    body: int,
    member_count: int,
    flags: ClassFlag = COMPLETE,
    dies: Sequence[int] | None = None,
    marks: Sequence[MemberFlag] = (),
) -> FoldClass:
    members = tuple(
        Member(
            f"b{body}m{idx}",
            DieOffset(dies[idx]) if dies else die(body, idx),
            marks[idx] if marks else MemberFlag.NONE,
        )
        for idx in range(member_count)
    )
    return FoldClass(Vaddr(start(body)), BODY_BYTES, members, flags)


def call(caller: tuple[int, int], callee: tuple[int, int], site: int = 0) -> CallRecord:
    return CallRecord(ret(caller[0], site), die(*caller), die(*callee))


def tail(caller: tuple[int, int], callee: tuple[int, int], jump_offset: int = 0x800) -> TailCall:
    return TailCall(Vaddr(start(caller[0]) + jump_offset), MemberRef(*caller), MemberRef(*callee))


def exports(*folds: FoldClass) -> ListedExports:
    """Each member by its name."""
    return ListedExports(Export(member.name, each.vaddr) for each in folds for member in each.members)


def assert_same(answers: Sequence[Answer], others: Sequence[Answer]) -> None:
    """Both say the same of each frame; evidence, reasons and missing frames are the first resolver's alone."""
    for one, other in zip(answers, others, strict=True):
        if one.reason is not None and one.reason.code is ReasonCode.MISSING_FRAME:
            assert other.verdict is Verdict.CONTRADICTED
            continue
        for field in (
            "address",
            "verdict",
            "linkage_name",
            "name",
            "linkage_names",
            "vaddr",
            "start",
            "module",
            "member_idx",
        ):
            assert getattr(one, field) == getattr(other, field), f"{field}:\n{one}\n{other}"
