"""Reads the tables once more: one value after the other, after the descriptions of the formats.

`icf.tables.dcall`, `icf.tables.vcall` and `icf.tables.icftable` describe them; no code is shared with these modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from icf.errors import FormatError

_DWARF64 = 0xFFFFFFFF
_ULEB_BYTES = 10


class Call(NamedTuple):
    """A row of `.debug_dcall`; DIEs are offsets in `.debug_info`."""

    call_site: int
    callee_die: int
    caller_die: int


class VirtualCall(NamedTuple):
    """A row of `.debug_vcall`."""

    call_site: int
    slot: int


class Member(NamedTuple):
    """A function of a fold class."""

    name: str
    die: int
    flags: int
    aliases: tuple[str, ...]


class FoldClass(NamedTuple):
    """The functions of one body."""

    vaddr: int
    size_bytes: int
    flags: int
    members: tuple[Member, ...]


Function = tuple[int, int]  # fold class, member of it or -1: any


class Icf(NamedTuple):
    """The contents of `.debug_icf`."""

    code_digest: bytes
    classes: list[FoldClass]
    tail_calls: list[tuple[int, Function, Function]]
    pointer_jumps: list[tuple[int, int, int]]  # address, slot, object
    vtables: list[tuple[int, int, int, list[tuple[int, Function]]]]  # address, group, DIE, (slot, function)
    evidence: list[int]
    vcall_evidence: list[int]
    types: list[tuple[int, ...]]  # groups of vtables
    objects: list[list[tuple[Function | None, int]]]  # (function, type)
    vcall_objects: list[int]
    callbacks: list[tuple[int, Function | None, Function, int]]  # call site, caller, callee, evidence


class Bytes:
    """The bytes of a section, from the front."""

    def __init__(self, data: bytes, path: str, section: str) -> None:
        self.data, self.pos, self.end = data, 0, len(data)
        self._path, self._section = path, section

    def error(self, problem: str) -> FormatError:
        return FormatError(self._path, self._section, self.pos, f"second reader: {problem}")

    def take(self, size_bytes: int) -> bytes:
        if size_bytes > self.end - self.pos:
            raise self.error(f"needs {size_bytes} bytes, {self.end - self.pos} are left")
        self.pos += size_bytes
        return self.data[self.pos - size_bytes : self.pos]

    def number(self, size_bytes: int) -> int:
        return int.from_bytes(self.take(size_bytes), "little")

    def uleb(self) -> int:
        value = 0
        for idx in range(_ULEB_BYTES):
            byte = self.number(1)
            value |= (byte & 0x7F) << 7 * idx
            if not byte & 0x80:
                return value
        raise self.error("number of more than 10 bytes")

    def column(self, count: int) -> list[int]:
        return [self.uleb() for _ in range(count)]

    def sums(self, count: int) -> list[int]:
        """Return values that are stored as differences to the one above."""
        total, found = 0, []
        for _ in range(count):
            total += self.uleb()
            found.append(total)
        return found

    def signed_sums(self, count: int) -> list[int]:
        total, found = 0, []
        for _ in range(count):
            value = self.uleb()
            total += -(value >> 1) - 1 if value & 1 else value >> 1
            found.append(total)
        return found


def read_dcall(data: bytes, path: str) -> list[Call]:
    """Return the rows of `.debug_dcall`, both dialects."""
    rows = []
    bytes_ = Bytes(data, path, ".debug_dcall")
    for site_size, base in _units(bytes_, has_debug_info=True):
        caller = 0
        while bytes_.pos < bytes_.end:
            site, value = bytes_.number(site_size), bytes_.uleb()
            if site:
                rows.append(Call(site, base + value, caller))
            else:
                caller = base + value if value else 0
    return rows


def read_vcall(data: bytes, path: str) -> list[VirtualCall]:
    """Return the rows of `.debug_vcall`, both dialects."""
    bytes_ = Bytes(data, path, ".debug_vcall")
    rows = []
    for site_size, _ in _units(bytes_, has_debug_info=False):
        while bytes_.pos < bytes_.end:
            rows.append(VirtualCall(bytes_.number(site_size), bytes_.uleb()))
    return rows


def _units(bytes_: Bytes, *, has_debug_info: bool) -> Iterator[tuple[int, int]]:
    """Yield the width of call sites and the base of DIEs of each unit; the reader then has only its entries left."""
    size_bytes = bytes_.end
    while bytes_.pos < size_bytes:
        bytes_.end = size_bytes
        length, width = bytes_.number(4), 4
        if length == _DWARF64:
            length, width = bytes_.number(8), 8
        if length > size_bytes - bytes_.pos:
            raise bytes_.error(f"unit of {length} bytes, {size_bytes - bytes_.pos} are left")
        start, bytes_.end = bytes_.pos, bytes_.pos + length
        if bytes_.number(1) != 4:
            raise bytes_.error("unit is not of version 4")
        head = bytes_.data[start : bytes_.end]
        before = width if has_debug_info else 0
        is_new = head[1 + before : 2 + before] in (b"\4", b"\x08")
        is_old = head[1:2] == b"\0" and head[2 + before : 3 + before] in (b"\4", b"\x08")
        if is_new and is_old:  # GCC's units begin with a caller, whose label is 0
            is_new = any(head[3 + before : 3 + before + width])
            is_old = not is_new
        if not (is_new or is_old):
            raise bytes_.error("unit has no address size")
        bytes_.take(0 if is_new else 1)
        base = bytes_.number(before)
        address_size = bytes_.number(1)
        yield (address_size if is_new else width), base


def read_icf(data: bytes, debug_str: bytes, path: str) -> Icf:
    """Return the contents of `.debug_icf`; its names are in its pool, or in `debug_str`."""
    bytes_ = Bytes(data, path, ".debug_icf")
    if not data:
        return Icf(b"", [], [], [], [], [], [], [], [], [], [])
    length = bytes_.number(4)
    length = bytes_.number(8) if length == _DWARF64 else length
    if length != bytes_.end - bytes_.pos:
        raise bytes_.error(f"unit of {length} bytes, {bytes_.end - bytes_.pos} are left")
    version, address_size = bytes_.number(1), bytes_.number(1)
    if version not in (3, 4, 5, 6) or address_size not in (4, 8):
        raise bytes_.error(f"version {version}, addresses of {address_size} bytes")
    digest = bytes_.take(20)[4:] if version >= 4 else b""
    counts = [bytes_.uleb() for _ in range({6: 15, 5: 14}.get(version, 10))]
    if max(counts) > bytes_.end:
        raise bytes_.error(f"a count of {max(counts)}")
    class_count, member_count, alias_count, tail_count, jump_count, vtable_count, slot_count = counts[:7]
    type_count, group_count, object_count, row_count = counts[10:14] or (0, 0, 0, 0)
    callback_count = counts[14] if version >= 6 else 0

    class_vaddr, class_size = bytes_.sums(class_count), bytes_.column(class_count)
    class_flags, class_members = bytes_.take(class_count), bytes_.column(class_count)
    member_flags, member_die = bytes_.take(member_count), bytes_.signed_sums(member_count)
    member_name = bytes_.signed_sums(member_count)
    alias_member, alias_name = bytes_.sums(alias_count), bytes_.signed_sums(alias_count)
    tail_jump, tail_caller, tail_callee = bytes_.sums(tail_count), bytes_.column(tail_count), bytes_.column(tail_count)
    jumps, jump_slots = bytes_.sums(jump_count), bytes_.column(jump_count)
    jump_objects = bytes_.column(jump_count) if version >= 5 else [0] * jump_count
    vtable_vaddr, vtable_group = bytes_.sums(vtable_count), bytes_.column(vtable_count)
    vtable_die, vtable_slots = bytes_.signed_sums(vtable_count), bytes_.column(vtable_count)
    slot, slot_function = bytes_.column(slot_count), bytes_.signed_sums(slot_count)
    type_groups, type_group = bytes_.column(type_count), bytes_.column(group_count)
    object_rows, object_member = bytes_.column(object_count), bytes_.column(row_count)
    object_type = bytes_.signed_sums(row_count)
    callback_site, callback_caller = bytes_.sums(callback_count), bytes_.column(callback_count)
    callback_callee, callback_evidence = bytes_.column(callback_count), bytes_.take(callback_count)
    evidence, vcall_evidence = (_evidence(bytes_.take(count)) for count in counts[7:9])
    vcall_objects = bytes_.column(len(vcall_evidence)) if version >= 5 else [0] * len(vcall_evidence)
    pool = bytes_.take(counts[9])
    sums = (sum(class_members), sum(vtable_slots), sum(type_groups), sum(object_rows))
    if bytes_.pos != bytes_.end or sums != (member_count, slot_count, group_count, row_count):
        raise bytes_.error("counts do not fit each other")

    def name(offset: int) -> str:
        text, at = (pool, offset) if offset < len(pool) else (debug_str, offset - len(pool))
        if not 0 <= at <= len(text):
            raise bytes_.error(f"name at {offset:#x}, beyond the strings")
        end = text.find(0, at)
        return text[at : end if end >= 0 else len(text)].decode("utf-8", "surrogateescape")

    aliases: dict[int, list[str]] = {}
    for member, offset in zip(alias_member, alias_name, strict=True):
        aliases.setdefault(member, []).append(name(offset))
    class_of = [(class_idx, idx) for class_idx, count in enumerate(class_members) for idx in range(count)]

    def function(value: int) -> Function:
        if value < 0 or value >> 1 >= (class_count if value & 1 else member_count):
            raise bytes_.error(f"function {value}, beyond those there are")
        return (value >> 1, -1) if value & 1 else class_of[value >> 1]

    def around(vaddr: int) -> int:
        for class_idx, (start, size_bytes) in enumerate(zip(class_vaddr, class_size, strict=True)):
            if start <= vaddr < start + size_bytes:
                return class_idx
        raise bytes_.error(f"jump at {vaddr:#x} in no class")

    classes = []
    row = 0
    for vaddr, size_bytes, flags, count in zip(class_vaddr, class_size, class_flags, class_members, strict=True):
        members = tuple(
            Member(name(member_name[at]), member_die[at], member_flags[at], tuple(aliases.get(at, ())))
            for at in range(row, row + count)
        )
        classes.append(FoldClass(vaddr, size_bytes, flags, members))
        row += count
    tail_calls = [
        (jump, function(2 * (caller - 1)) if caller else (around(jump), -1), function(callee))
        for jump, caller, callee in zip(tail_jump, tail_caller, tail_callee, strict=True)
    ]
    vtables = []
    row = 0
    for vaddr, before, die, count in zip(vtable_vaddr, vtable_group, vtable_die, vtable_slots, strict=True):
        at, slots = 0, []
        for difference, value in zip(slot[row : row + count], slot_function[row : row + count], strict=True):
            at += difference
            slots.append((at, function(value)))
        vtables.append((vaddr, vaddr - before, die, slots))
        row += count
    pointer_jumps = [
        (jump, number - 1, object_) for jump, number, object_ in zip(jumps, jump_slots, jump_objects, strict=True)
    ]
    groups = sorted({group for _, group, _, _ in vtables})
    types = [tuple(_at(bytes_, groups, row) for row in part) for part in _parts(type_groups, type_group)]
    kinds = iter(object_type)
    objects = [
        [(function(2 * (at - 1)) if at else None, next(kinds)) for at in part]
        for part in _parts(object_rows, object_member)
    ]
    callbacks = [
        (site, function(2 * (caller - 1)) if caller else None, function(2 * callee), kind)
        for site, caller, callee, kind in zip(
            callback_site, callback_caller, callback_callee, callback_evidence, strict=True
        )
    ]
    return Icf(
        digest if any(digest) else b"", classes, tail_calls, pointer_jumps, vtables, evidence, vcall_evidence, types,
        objects, vcall_objects, callbacks,
    )  # fmt: skip


def _parts(sizes: list[int], differences: list[int]) -> Iterator[list[int]]:
    """Yield the values of each part, which are stored as differences to the one above in it."""
    row = 0
    for size in sizes:
        yield list(accumulate(differences[row : row + size]))
        row += size


def _at(bytes_: Bytes, values: list[int], row: int) -> int:
    if row >= len(values):
        raise bytes_.error(f"group {row} of {len(values)}")
    return values[row]


def _evidence(runs: bytes) -> list[int]:
    return [run & 7 for run in runs for _ in range((run >> 3) + 1)]
