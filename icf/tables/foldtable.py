"""The fold table in memory: columns, and objects for the classes that are asked for.

Each start of a tool reads a table of 10,000 members, of which it then uses three. So
`parse_icf` fills columns, and `FoldClass` objects, member names and tail calls are made on demand.
Columns of members are flat, in class order; members of class `i` are the rows
`[member_start[i], member_start[i + 1])`. Tail calls name members by these rows, too.

A name is an offset into a *name space*: the table's own pool, followed by `.debug_str`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import U8, U64
from icf.contents import Contents, string_at
from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    Callback,
    ClassFlag,
    DieOffset,
    Evidence,
    FoldClass,
    ImageFlag,
    Member,
    MemberFlag,
    MemberRef,
    ObjectType,
    PointerJump,
    TailCall,
    TypedMember,
    TypedObject,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.sets import distinct
from icf.strings import string_parts, texts

_CLASS_FLAGS = tuple(map(ClassFlag, range(2 * max(ClassFlag))))  # by number: the enum's own look-up takes long
_MEMBER_FLAGS = tuple(map(MemberFlag, range(2 * max(MemberFlag))))
_NO_ROWS: U64 = np.empty(0, np.uint64)


class IcfColumns(NamedTuple):
    """The columns of `.debug_icf`, decoded but not interpreted; the code that made them has validated them."""

    class_vaddr: U64  # ascending
    class_size: U64
    class_flags: U8
    member_start: U64  # one more than there are classes
    member_die: U64
    member_name: U64
    member_flags: U8
    alias_member: U64  # member row; does not descend
    alias_name: U64
    tail_jump: U64  # does not descend
    tail_caller: U64  # member row + 1; 0: every member of the class at the jump
    tail_callee: U64  # 2 * member row; 2 * class + 1: any of its members
    pointer_jump: U64  # ascending
    pointer_slot: U64  # slot + 1; 0: any pointer
    vtable_vaddr: U64  # ascending
    vtable_group: U64
    vtable_die: U64
    slot_start: U64  # first row of each vtable's slots; one more than there are vtables
    slot: U64  # ascending within a vtable
    slot_function: U64  # as tail_callee
    pool: memoryview
    debug_str: bytes | memoryview | Contents
    pointer_object: U64  # object + 1; 0: any
    type_start: U64  # first row of each object type's groups; one more than there are types
    type_group: U64  # row of the distinct, ascending `vtable_group`; ascending within a type
    object_start: U64  # first row of each object; one more than there are objects
    object_member: U64  # member row + 1; 0: every member; ascending within an object
    object_type: U64  # row
    vcall_object: U64  # for each record of .debug_vcall, as pointer_object
    callback_site: U64 = _NO_ROWS  # does not descend
    callback_caller: U64 = _NO_ROWS  # member row + 1; 0: every function that makes the call; ascending within a site
    callback_callee: U64 = _NO_ROWS  # member row
    callback_evidence: U8 = np.empty(0, np.uint8)

    def name(self, name_offset: int) -> str:
        """Return the name at an offset of the name space."""
        pool_size_bytes = len(self.pool)
        is_own = name_offset < pool_size_bytes
        name = string_at(self.pool, name_offset) if is_own else string_at(self.debug_str, name_offset - pool_size_bytes)
        return (name or b"").decode("utf-8", "surrogateescape")

    def names(self, name_offsets: U64) -> list[str]:
        """Return the names at these offsets of the name space; those of `.debug_str` are read together."""
        offsets, back = np.unique(name_offsets, return_inverse=True)
        own = int(np.searchsorted(offsets, len(self.pool)))
        found = texts(bytes(self.pool), offsets[:own])
        debug_str = self.debug_str if isinstance(self.debug_str, Contents) else Contents(memoryview(self.debug_str))
        for _, buffer, starts in string_parts(debug_str, offsets[own:] - np.uint64(len(self.pool))):
            found += texts(buffer, starts)
        names = [text.decode("utf-8", "surrogateescape") for text in found]
        return [names[row] for row in back.tolist()]


class IcfTable:
    """Fold classes, tail calls, and one evidence byte for each call-site record."""

    def __init__(
        self,
        classes: Sequence[FoldClass] = (),
        tail_calls: Sequence[TailCall] = (),
        evidence: bytes = b"",
        vcall_evidence: bytes = b"",
        *,
        pointer_jumps: Sequence[PointerJump] = (),
        vtables: Sequence[Vtable] = (),
        types: Sequence[ObjectType] = (),
        objects: Sequence[TypedObject] = (),
        vcall_objects: Sequence[int] = (),
        callbacks: Sequence[Callback] = (),
        image_flags: ImageFlag = ImageFlag.NONE,
        code_digest: bytes = b"",
        columns: IcfColumns | None = None,
    ) -> None:
        self.evidence = evidence  # for each record of .debug_dcall but the caller records, in section order
        self.vcall_evidence = vcall_evidence
        self.image_flags = image_flags
        self.code_digest = code_digest  # of the code that the table is about; empty: not known
        if columns is None:
            self.classes = tuple(classes)  # shadows the cached property, which then builds nothing
            self.tail_calls = tuple(sorted(tail_calls, key=lambda call: (call.jump, call.caller, call.callee)))
            self.pointer_jumps = tuple(sorted(pointer_jumps))
            self.vtables = tuple(sorted(vtables))
            self.types, self.objects = tuple(types), tuple(objects)
            self.vcall_objects = tuple(vcall_objects) or (0,) * len(vcall_evidence)
            self.callbacks = tuple(sorted(callbacks, key=_order_of_callback))
            columns = _columns_of(
                self.classes, self.tail_calls, self.pointer_jumps, self.vtables, self.types, self.objects,
                self.vcall_objects, self.callbacks,
            )  # fmt: skip
        self.columns = columns
        self.class_vaddr, self.class_size = columns.class_vaddr, columns.class_size
        self.class_flags, self.member_start = columns.class_flags, columns.member_start
        self.member_die, self.member_flags = columns.member_die, columns.member_flags

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IcfTable):
            return NotImplemented
        return self._parts() == other._parts()

    def _parts(self) -> tuple[object, ...]:
        return (
            self.classes, self.tail_calls, self.pointer_jumps, self.vtables, self.evidence, self.vcall_evidence,
            self.types, self.objects, self.vcall_objects, self.callbacks, self.image_flags, self.code_digest,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # columns are arrays

    def __repr__(self) -> str:
        return (
            f"<IcfTable: {len(self.class_vaddr)} classes, {len(self.member_die)} members, "
            f"{len(self.columns.tail_jump)} tail calls, {len(self.columns.vtable_vaddr)} vtables, "
            f"{len(self.evidence)}+{len(self.vcall_evidence)} records>"
        )

    @cached_property
    def classes(self) -> tuple[FoldClass, ...]:
        """All classes, in address order."""
        members, starts = self._members(), self.member_start.tolist()
        return tuple(
            FoldClass(Vaddr(vaddr), size_bytes, tuple(members[first:end]), _CLASS_FLAGS[flags])
            for vaddr, size_bytes, flags, first, end in zip(
                self.class_vaddr.tolist(),
                self.class_size.tolist(),
                self.class_flags.tolist(),
                starts,
                starts[1:],
                strict=False,
            )
        )

    def _members(self) -> list[Member]:
        """Return the members of all rows: a tenth of the time of one after the other."""
        columns = self.columns
        aliases: dict[int, tuple[str, ...]] = {}
        for row, alias in zip(self._alias_member, columns.names(columns.alias_name), strict=True):
            aliases[row] = (*aliases.get(row, ()), alias)
        rows = zip(
            columns.names(columns.member_name), self.member_die.tolist(), self.member_flags.tolist(), strict=True
        )
        return [
            Member(name, DieOffset(die), _MEMBER_FLAGS[flags], aliases.get(row, ()))
            for row, (name, die, flags) in enumerate(rows)
        ]

    @cached_property
    def tail_calls(self) -> tuple[TailCall, ...]:
        """All tail calls, by jump address."""
        columns = self.columns
        callees = self._functions(columns.tail_callee)
        callers = self._refs(np.maximum(columns.tail_caller, np.uint64(1)) - np.uint64(1))
        for at in np.flatnonzero(columns.tail_caller == 0).tolist():
            class_idx = int(np.searchsorted(self.class_vaddr, columns.tail_jump[at], side="right")) - 1
            callers[at] = MemberRef(class_idx, ALL_MEMBERS)
        jumps = map(Vaddr, columns.tail_jump.tolist())
        return tuple(map(TailCall, jumps, callers, callees))

    @cached_property
    def pointer_jumps(self) -> tuple[PointerJump, ...]:
        """All jumps through pointers, by address."""
        slots = (self.columns.pointer_slot - np.uint64(1)).view(np.int64).tolist()
        assert ANY_POINTER == -1
        jumps, objects = self.columns.pointer_jump.tolist(), self.columns.pointer_object.tolist()
        return tuple(map(PointerJump, map(Vaddr, jumps), slots, objects))

    @cached_property
    def types(self) -> tuple[ObjectType, ...]:
        """All types of objects."""
        columns = self.columns
        groups = distinct(columns.vtable_group)[columns.type_group.astype(np.int64)].tolist()
        starts = columns.type_start.tolist()
        return tuple(
            ObjectType(tuple(map(Vaddr, groups[first:end]))) for first, end in zip(starts, starts[1:], strict=False)
        )

    @cached_property
    def objects(self) -> tuple[TypedObject, ...]:
        """All objects whose type is known."""
        columns = self.columns
        refs: list[MemberRef | None] = list(self._refs(np.maximum(columns.object_member, 1) - np.uint64(1)))
        for at in np.flatnonzero(columns.object_member == 0).tolist():
            refs[at] = None
        rows = list(map(TypedMember, refs, columns.object_type.tolist()))
        starts = columns.object_start.tolist()
        return tuple(tuple(rows[first:end]) for first, end in zip(starts, starts[1:], strict=False))

    @cached_property
    def vcall_objects(self) -> tuple[int, ...]:
        """1 + the index of the object of each record of .debug_vcall; 0: not known."""
        return tuple(self.columns.vcall_object.tolist())

    @cached_property
    def callbacks(self) -> tuple[Callback, ...]:
        """All functions that callers pass to imports that call them back, by return address."""
        columns = self.columns
        callers: list[MemberRef | None] = list(self._refs(np.maximum(columns.callback_caller, 1) - np.uint64(1)))
        for at in np.flatnonzero(columns.callback_caller == 0).tolist():
            callers[at] = None
        sites, evidence = map(Vaddr, columns.callback_site.tolist()), map(Evidence, columns.callback_evidence.tolist())
        return tuple(map(Callback, sites, callers, self._refs(columns.callback_callee), evidence))

    @cached_property
    def vtables(self) -> tuple[Vtable, ...]:
        """All vtables, by address."""
        columns = self.columns
        slots = list(map(VtableSlot, columns.slot.tolist(), self._functions(columns.slot_function)))
        starts = columns.slot_start.tolist()
        rows = zip(
            columns.vtable_vaddr.tolist(),
            columns.vtable_group.tolist(),
            starts,
            starts[1:],
            columns.vtable_die.tolist(),
            strict=False,
        )
        return tuple(
            Vtable(Vaddr(vaddr), Vaddr(group), tuple(slots[first:end]), DieOffset(die))
            for vaddr, group, first, end, die in rows
        )

    def fold_class(self, class_idx: int) -> FoldClass:
        """Return one class; building it costs its members only."""
        rows = range(int(self.member_start[class_idx]), int(self.member_start[class_idx + 1]))
        return FoldClass(
            Vaddr(int(self.class_vaddr[class_idx])),
            int(self.class_size[class_idx]),
            tuple(map(self.member, rows)),
            ClassFlag(int(self.class_flags[class_idx])),
        )

    def dies_of_class(self, class_idx: int) -> U64:
        """Return the DIEs of the members of a class."""
        return self.member_die[int(self.member_start[class_idx]) : int(self.member_start[class_idx + 1])]

    def member(self, row: int) -> Member:
        """Return the member of a row."""
        return Member(
            self.member_name(row),
            DieOffset(int(self.member_die[row])),
            MemberFlag(int(self.member_flags[row])),
            tuple(self.member_aliases(row)),
        )

    def member_name(self, row: int) -> str:
        """Return the linkage name of a member, decoded now."""
        return self.columns.name(int(self.columns.member_name[row]))

    def member_aliases(self, row: int) -> Iterator[str]:
        """Yield further symbols of the member."""
        alias_member = self._alias_member
        alias_idx = bisect_left(alias_member, row)
        while alias_idx < len(alias_member) and alias_member[alias_idx] == row:
            yield self.columns.name(int(self.columns.alias_name[alias_idx]))
            alias_idx += 1

    @cached_property
    def _alias_member(self) -> list[int]:
        rows: list[int] = self.columns.alias_member.tolist()
        return rows

    def _functions(self, values: U64) -> list[MemberRef]:
        """Return the callees that values stand for: a member, or any of a class."""
        is_any = values & np.uint64(1) == 1
        refs = self._refs(np.where(is_any, np.uint64(0), values >> np.uint64(1)))
        for at in np.flatnonzero(is_any).tolist():
            refs[at] = MemberRef(int(values[at]) >> 1, ALL_MEMBERS)
        return refs

    def _refs(self, rows: U64) -> list[MemberRef]:
        class_idx = np.searchsorted(self.member_start, rows, side="right") - 1
        member_idx = rows - self.member_start[class_idx]
        return list(map(MemberRef, class_idx.tolist(), member_idx.tolist()))


def _columns_of(
    classes: Sequence[FoldClass],
    tail_calls: Sequence[TailCall],
    pointer_jumps: Sequence[PointerJump],
    vtables: Sequence[Vtable],
    types: Sequence[ObjectType],
    objects: Sequence[TypedObject],
    vcall_objects: Sequence[int],
    callbacks: Sequence[Callback],
) -> IcfColumns:
    """Return the columns of given classes, all names in a pool. Raise ValueError if the classes break the format."""
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
    for vtable in vtables:
        if not vtable.slots or any(a.slot >= b.slot for a, b in zip(vtable.slots, vtable.slots[1:], strict=False)):
            raise ValueError(f"slots of the vtable at {vtable.vaddr:#x} are none, or do not ascend")

    def row_of(ref: MemberRef) -> int:
        if not 0 <= ref.class_idx < len(classes) or not 0 <= ref.member_idx < len(classes[ref.class_idx].members):
            raise ValueError(f"{ref} does not exist")
        return int(member_start[ref.class_idx]) + ref.member_idx

    def function(ref: MemberRef) -> int:
        return 2 * ref.class_idx + 1 if ref.member_idx == ALL_MEMBERS else 2 * row_of(ref)

    groups = {group: row for row, group in enumerate(sorted({vtable.group for vtable in vtables}))}

    aliases = [(row, alias) for row, member in enumerate(members) for alias in member.aliases]
    return IcfColumns(
        class_vaddr=_u64([fold_class.vaddr for fold_class in classes]),
        class_size=_u64([fold_class.size_bytes for fold_class in classes]),
        class_flags=np.array([fold_class.flags for fold_class in classes], np.uint8),
        member_start=member_start,
        member_die=_u64([member.die for member in members]),
        member_name=_u64([pool.add(member.name) for member in members]),
        member_flags=np.array([member.flags for member in members], np.uint8),
        alias_member=_u64([row for row, _ in aliases]),
        alias_name=_u64([pool.add(alias) for _, alias in aliases]),
        tail_jump=_u64([call.jump for call in tail_calls]),
        tail_caller=_u64(
            [0 if call.caller.member_idx == ALL_MEMBERS else row_of(call.caller) + 1 for call in tail_calls]
        ),
        tail_callee=_u64([function(call.callee) for call in tail_calls]),
        pointer_jump=_u64([call.jump for call in pointer_jumps]),
        pointer_slot=_u64([call.slot + 1 for call in pointer_jumps]),
        vtable_vaddr=_u64([vtable.vaddr for vtable in vtables]),
        vtable_group=_u64([vtable.group for vtable in vtables]),
        vtable_die=_u64([vtable.die for vtable in vtables]),
        slot_start=_starts(vtable.slots for vtable in vtables),
        slot=_u64([each.slot for vtable in vtables for each in vtable.slots]),
        slot_function=_u64([function(each.function) for vtable in vtables for each in vtable.slots]),
        pool=memoryview(bytes(pool.text)),
        debug_str=memoryview(b""),
        pointer_object=_u64([call.object for call in pointer_jumps]),
        type_start=_starts(each.groups for each in types),
        type_group=_u64([groups[group] for each in types for group in each.groups]),
        object_start=_starts(objects),
        object_member=_u64([0 if row.member is None else row_of(row.member) + 1 for each in objects for row in each]),
        object_type=_u64([row.type for each in objects for row in each]),
        vcall_object=_u64(vcall_objects),
        callback_site=_u64([call.call_site for call in callbacks]),
        callback_caller=_u64([0 if call.caller is None else row_of(call.caller) + 1 for call in callbacks]),
        callback_callee=_u64([row_of(call.callee) for call in callbacks]),
        callback_evidence=np.array([call.evidence for call in callbacks], np.uint8),
    )


def _order_of_callback(call: Callback) -> tuple[int, MemberRef]:
    return call.call_site, call.caller or MemberRef(-1, 0)


def _starts(parts: Iterable[Sequence[object]]) -> U64:
    """Return the first row of each part, and the end of the last one."""
    return np.cumsum([0, *map(len, parts)], dtype=np.uint64)


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


def _u64(values: Sequence[int]) -> U64:
    return np.array(values, dtype=np.uint64)
