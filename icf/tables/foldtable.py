"""The fold table in memory: classes as columns first, as objects when asked for.

A table of 10,000 members is read on every start of a tool that then looks at three of them. So
`parse_icf` fills columns, and `FoldClass` objects, member names and tail calls are made on demand.
Columns of members are flat, in class order; members of class `i` are the rows
`[member_start[i], member_start[i + 1])`. A row of that numbering is also what a tail call names.

A name is an offset into a *name space*: the table's own pool, then `.debug_str` behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.model import ALL_MEMBERS, ClassFlag, DieOffset, FoldClass, Member, MemberFlag, MemberRef, TailCall, Vaddr

_U64 = NDArray[np.uint64]
_U8 = NDArray[np.uint8]


class IcfColumns(NamedTuple):
    """The columns of `.debug_icf`, decoded but not interpreted; validated by whoever made them."""

    class_vaddr: _U64  # ascending
    class_size: _U64
    class_flags: _U8
    member_start: _U64  # one more than there are classes
    member_die: _U64
    member_name: _U64
    member_flags: _U8
    slot_member: _U64  # member row, of a VIRTUAL one; does not descend
    slot: _U64
    alias_member: _U64  # member row; does not descend
    alias_name: _U64
    tail_jump: _U64  # does not descend
    tail_caller: _U64  # member row + 1; 0: every member of the class at the jump
    tail_callee: _U64  # 2 * member row; 2 * class + 1: any of its members
    pool: memoryview
    debug_str: memoryview

    def name(self, name_offset: int) -> str:
        """The name at an offset of the name space."""
        pool_size_bytes = len(self.pool)
        if name_offset < pool_size_bytes:
            return _string_at(self.pool, name_offset)
        return _string_at(self.debug_str, name_offset - pool_size_bytes)


class IcfTable:
    """Fold classes, tail calls, and one evidence byte for each call-site record."""

    def __init__(
        self,
        classes: Sequence[FoldClass] = (),
        tail_calls: Sequence[TailCall] = (),
        evidence: bytes = b"",
        vcall_evidence: bytes = b"",
        *,
        columns: IcfColumns | None = None,
    ) -> None:
        self.evidence = evidence  # for each record of .debug_dcall that is no caller record, in section order
        self.vcall_evidence = vcall_evidence
        if columns is None:
            self.classes = tuple(classes)  # shadows the cached property: there is nothing to build
            self.tail_calls = tuple(sorted(tail_calls, key=lambda call: (call.jump, call.caller, call.callee)))
            columns = _columns_of(self.classes, self.tail_calls)
        self.columns = columns
        self.class_vaddr, self.class_size = columns.class_vaddr, columns.class_size
        self.class_flags, self.member_start = columns.class_flags, columns.member_start
        self.member_die, self.member_flags = columns.member_die, columns.member_flags

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IcfTable):
            return NotImplemented
        return (self.classes, self.tail_calls, self.evidence, self.vcall_evidence) == (
            other.classes,
            other.tail_calls,
            other.evidence,
            other.vcall_evidence,
        )

    __hash__ = None  # type: ignore[assignment]  # columns are arrays

    def __repr__(self) -> str:
        return (
            f"<IcfTable: {len(self.class_vaddr)} classes, {len(self.member_die)} members, "
            f"{len(self.columns.tail_jump)} tail calls, {len(self.evidence)}+{len(self.vcall_evidence)} records>"
        )

    @cached_property
    def classes(self) -> tuple[FoldClass, ...]:
        """All classes, in address order."""
        return tuple(map(self.fold_class, range(len(self.class_vaddr))))

    @cached_property
    def tail_calls(self) -> tuple[TailCall, ...]:
        """All tail calls, by jump address."""
        columns = self.columns
        is_any = columns.tail_callee & np.uint64(1) == 1
        callees = self._refs(np.where(is_any, np.uint64(0), columns.tail_callee >> np.uint64(1)))
        for at in np.flatnonzero(is_any).tolist():
            callees[at] = MemberRef(int(columns.tail_callee[at]) >> 1, ALL_MEMBERS)
        callers = self._refs(np.maximum(columns.tail_caller, np.uint64(1)) - np.uint64(1))
        for at in np.flatnonzero(columns.tail_caller == 0).tolist():
            class_idx = int(np.searchsorted(self.class_vaddr, columns.tail_jump[at], side="right")) - 1
            callers[at] = MemberRef(class_idx, ALL_MEMBERS)
        jumps = map(Vaddr, columns.tail_jump.tolist())
        return tuple(map(TailCall, jumps, callers, callees))

    def fold_class(self, class_idx: int) -> FoldClass:
        """One class; building it costs its members only."""
        rows = range(int(self.member_start[class_idx]), int(self.member_start[class_idx + 1]))
        return FoldClass(
            Vaddr(int(self.class_vaddr[class_idx])),
            int(self.class_size[class_idx]),
            tuple(map(self.member, rows)),
            ClassFlag(int(self.class_flags[class_idx])),
        )

    def member(self, row: int) -> Member:
        """The member of a row."""
        flags = MemberFlag(int(self.member_flags[row]))
        slots = tuple(self._slots_of(row)) if flags & MemberFlag.VIRTUAL else ()
        return Member(
            self.member_name(row), DieOffset(int(self.member_die[row])), flags, tuple(self.member_aliases(row)), slots
        )

    def member_name(self, row: int) -> str:
        """The linkage name of a member, read when asked for."""
        return self.columns.name(int(self.columns.member_name[row]))

    def member_aliases(self, row: int) -> Iterator[str]:
        """Further symbols of the member."""
        alias_member = self._alias_member
        alias_idx = bisect_left(alias_member, row)
        while alias_idx < len(alias_member) and alias_member[alias_idx] == row:
            yield self.columns.name(int(self.columns.alias_name[alias_idx]))
            alias_idx += 1

    def member_ref(self, row: int) -> MemberRef:
        """The place of a member row."""
        class_idx = int(np.searchsorted(self.member_start, np.uint64(row), side="right")) - 1
        return MemberRef(class_idx, row - int(self.member_start[class_idx]))

    def member_row(self, ref: MemberRef) -> int:
        """The row of a member."""
        return int(self.member_start[ref.class_idx]) + ref.member_idx

    @cached_property
    def _alias_member(self) -> list[int]:
        rows: list[int] = self.columns.alias_member.tolist()
        return rows

    def _slots_of(self, row: int) -> list[int]:
        first, end = np.searchsorted(self.columns.slot_member, np.array([row, row + 1], np.uint64)).tolist()
        slots: list[int] = self.columns.slot[first:end].tolist()
        return slots

    def _refs(self, rows: _U64) -> list[MemberRef]:
        class_idx = np.searchsorted(self.member_start, rows, side="right") - 1
        member_idx = rows - self.member_start[class_idx]
        return list(map(MemberRef, class_idx.tolist(), member_idx.tolist()))


def _columns_of(classes: Sequence[FoldClass], tail_calls: Sequence[TailCall]) -> IcfColumns:
    """The columns of given classes, all names in a pool; ValueError where the classes break the format."""
    pool = _Pool()
    members = [member for fold_class in classes for member in fold_class.members]
    member_start = np.zeros(len(classes) + 1, np.uint64)
    np.cumsum([len(fold_class.members) for fold_class in classes], out=member_start[1:])
    for above, below in zip(classes, classes[1:], strict=False):
        if above.vaddr >= below.vaddr:
            raise ValueError(f"class at {below.vaddr:#x} stands after the one at {above.vaddr:#x}")
    for fold_class in classes:
        if not fold_class.members:
            raise ValueError(f"class at {fold_class.vaddr:#x} has no member")
    for member in members:
        if member.slots and not member.flags & MemberFlag.VIRTUAL:
            raise ValueError(f"member {member.name!r}: has slots and is not VIRTUAL")

    def row_of(ref: MemberRef) -> int:
        if not 0 <= ref.class_idx < len(classes) or not 0 <= ref.member_idx < len(classes[ref.class_idx].members):
            raise ValueError(f"tail call names {ref}, which does not exist")
        return int(member_start[ref.class_idx]) + ref.member_idx

    aliases = [(row, alias) for row, member in enumerate(members) for alias in member.aliases]
    return IcfColumns(
        class_vaddr=_u64([fold_class.vaddr for fold_class in classes]),
        class_size=_u64([fold_class.size_bytes for fold_class in classes]),
        class_flags=np.array([fold_class.flags for fold_class in classes], np.uint8),
        member_start=member_start,
        member_die=_u64([member.die for member in members]),
        member_name=_u64([pool.add(member.name) for member in members]),
        member_flags=np.array([member.flags for member in members], np.uint8),
        slot_member=_u64([row for row, member in enumerate(members) for _ in member.slots]),
        slot=_u64([slot for member in members for slot in member.slots]),
        alias_member=_u64([row for row, _ in aliases]),
        alias_name=_u64([pool.add(alias) for _, alias in aliases]),
        tail_jump=_u64([call.jump for call in tail_calls]),
        tail_caller=_u64(
            [0 if call.caller.member_idx == ALL_MEMBERS else row_of(call.caller) + 1 for call in tail_calls]
        ),
        tail_callee=_u64(
            [
                2 * call.callee.class_idx + 1 if call.callee.member_idx == ALL_MEMBERS else 2 * row_of(call.callee)
                for call in tail_calls
            ]
        ),
        pool=memoryview(bytes(pool.text)),
        debug_str=memoryview(b""),
    )


class _Pool:
    """NUL-terminated strings, each once, in the order of their first use."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._offset: dict[str, int] = {}

    def add(self, name: str) -> int:
        offset = self._offset.get(name)
        if offset is None:
            raw = name.encode("utf-8", "surrogateescape")
            if 0 in raw:
                raise ValueError(f"name {name!r} contains a NUL")
            offset = self._offset[name] = len(self.text)
            self.text += raw + b"\0"
        return offset


def _string_at(buffer: memoryview, offset: int) -> str:
    """The string at `offset`, up to its NUL."""
    end = offset
    step = 256
    while True:
        chunk = bytes(buffer[end : end + step])
        nul = chunk.find(0)
        if nul >= 0 or not chunk:
            return bytes(buffer[offset : end + max(nul, 0)]).decode("utf-8", "surrogateescape")
        end += step


def _u64(values: Sequence[int]) -> _U64:
    return np.array(values, dtype=np.uint64)
