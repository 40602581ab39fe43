"""Reads `.debug_icf`: which functions share a body, and the evidence of each record.

`.debug_dcall` names the callee of a call. To resolve a stack one must also know which functions share the body at an
address, which of them a pointer can reach, where one tail-calls another, and the evidence of each record. A reader of
the proposal's tables alone ignores this section and still works.

Version 6, little endian, one unit that fills the section. Its header:

    unit_length     4 bytes, or 0xffffffff and 8
    version         1 byte, 6; 5 in a table without callbacks
    address_size    1 byte, 4 or 8: no address in the table needs more
    image_flags     4 bytes, icf.model.ImageFlag
    code_digest     16 bytes: the digest of the code that the table is about (`Image.code_digest`); zeros: not known
    counts          15 ULEB128: classes, members, aliases, tail calls, pointer jumps, vtables, slots,
                    evidence bytes, evidence bytes of .debug_vcall, pool bytes,
                    object types, groups of them, objects, rows of them, callbacks

A table without callbacks is written as version 5, which lacks their count and their columns, so that an older reader
reads it. The reader also reads version 4, which had no object types, and 3, which had neither image_flags nor
code_digest.
(Version 2 had no vtables and no jumps through pointers.)

Then one column after the other. Columns rather than records, because a run of ULEB128 numbers is
decoded by one loop of a kernel, and because neighbours of one kind are close: most differences fit a byte.

    class_vaddr     ULEB128, difference to the class above; ascending, no two alike
    class_size      ULEB128, bytes of the body
    class_flags     1 byte, icf.model.ClassFlag
    class_members   ULEB128, how many members; 1 or more
    member_flags    1 byte, icf.model.MemberFlag
    member_die      signed difference: DIE in .debug_info, 0 for none
    member_name     signed difference: offset of the linkage name
    alias_member    ULEB128, difference: the member that has this further name
    alias_name      signed difference: offset of the name
    tail_jump       ULEB128, difference: address of the jump
    tail_caller     ULEB128, member whose call it is, plus 1; 0: every member of the class at the jump
    tail_callee     ULEB128, twice the member that is called; or twice the class plus 1: any of its members
    pointer_jump    ULEB128, difference: address of a jump through a pointer; in a class
    pointer_slot    ULEB128, the slot of a vtable that it takes, plus 1; 0: any pointer; 2^32: any but those in vtables.
                    One jump can take several slots: paths that have loaded them meet before it. They ascend
    pointer_object  ULEB128, the object whose vtable that is, plus 1; 0: any
    vtable_vaddr    ULEB128, difference: address point of a vtable; no two alike
    vtable_group    ULEB128, how far before it its group of vtables begins
    vtable_die      signed difference: its DW_TAG_GNU_vtable in .debug_info, 0 for none
    vtable_slots    ULEB128, how many slots are listed; 1 or more
    slot            ULEB128, index of the slot; difference to the one above in the same vtable
    slot_function   signed difference: the function in the slot, as a tail_callee
    type_groups     ULEB128, how many groups of vtables an object type has
    type_group      ULEB128, difference within the type: which of the different `vtable_group`, in their order
    object_rows     ULEB128, how many rows an object has; 1 or more
    object_member   ULEB128, difference within the object: the member that a row is about, plus 1; 0: every member
    object_type     signed difference: the type of the object in that member
    callback_site   ULEB128, difference: return address of a call of an import that calls back
    callback_caller ULEB128, member whose call it is, plus 1; 0: whichever. Ascending at one address, no two alike
    callback_callee ULEB128, the member that it is given to call back
    callback_evidence  1 byte, icf.model.Evidence
    evidence        1 byte for up to 32 records in a row, see below
    evidence_vcall  the same for .debug_vcall
    vcall_object    ULEB128 for each record of .debug_vcall, as pointer_object
    pool            strings, each with its NUL

A *signed difference* d is written as the ULEB128 of 2d, or of -2d-1 where d is negative; the values
themselves are below 2**63. Members are numbered through, in class order.

**Names** are offsets into one space: the pool, followed by `.debug_str`. The names of functions with
debug information are in `.debug_str` already, so a name costs a few bytes, not sixty. Bytes of a name
that are not UTF-8 survive as surrogates.

**DIEs** are offsets in `.debug_info` of the image, or of its separate debug file. A function that has none there gets a
declaration in a unit that the pass appends, and the flag SYNTHETIC: functions without debug information, and those that
only a .dwo file describes. If the debug file must not change (`icf pass --in-image`), that unit is
missing: DIEs after the end of `.debug_info` identify its functions and point nowhere.

**The digest** is there because tools that run after the pass may move code and leave the tables as they were (BOLT).
If it does not fit the code of the image, the tables are about other code and count as absent (`icf.tables.place`).

**Vtables** are those with a slot that leads to a merged function, or to one that jumps through a pointer;
other slots are left out. A member that is flagged VIRTUAL and is in no listed slot may be in any.

**Object types** are classes that all of the program knows: an object of such a type points to a vtable of one of its
groups. Members of one body may be given objects of different types, so each has a row.

**Callbacks** are functions that a caller passes to an import like `qsort` (`icf.code.callbacks`), which calls them
before it returns, if they are merged or reach a merged function.

**Evidence**: `(repeat - 1) << 3 | kind`, kind an icf.model.Evidence. Call-site records come in long
stretches of one evidence. Runs are capped so that a byte never stands for more than 32: a count of
2**60 cannot be claimed in a few bytes, and the worst case costs one byte a record.

Every value is checked before it is used, every count against the bytes that are left before anything is
allocated for it. A table that breaks a rule is refused as a whole: half a class is worse than none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U8, U64, Mask
from icf.contents import Contents
from icf.elf.codedigest import DIGEST_BYTES
from icf.model import ClassFlag, Evidence, ImageFlag, MemberFlag
from icf.reader import Reader
from icf.tables import _leb
from icf.tables.foldtable import IcfColumns, IcfTable

__all__ = ["IcfColumns", "IcfHeader", "IcfTable", "parse_icf", "parse_icf_header"]

VERSION = 6
WITHOUT_CALLBACKS, _WITHOUT_TYPES, _WITHOUT_DIGEST = 5, 4, 3  # the versions before
_U64_MAX = 0xFFFFFFFFFFFFFFFF
RUN_MAX = 32  # records that a byte stands for
_SLOT_LIMIT = 1 << 32  # so that no sum of them wraps
EVIDENCE_MAX = int(max(Evidence))
_ALL_CLASS_FLAGS = int(sum(ClassFlag))
_ALL_MEMBER_FLAGS = int(sum(MemberFlag))
_ALL_IMAGE_FLAGS = int(sum(ImageFlag))


class IcfHeader(NamedTuple):
    """The header of the table, without its counts."""

    version: int
    address_size: int
    image_flags: ImageFlag
    code_digest: bytes  # empty: not known


def parse_icf(
    buffer: bytes | memoryview, path: str, debug_str: bytes | memoryview | Contents, section: str = ".debug_icf"
) -> IcfTable:
    """Return the table of a section; an empty or absent section is a table without classes."""
    view = memoryview(buffer).cast("B")
    if not len(view):
        return IcfTable()
    return _Parser(Reader(view, path, section), view, debug_str).table()


def parse_icf_header(buffer: bytes | memoryview, path: str, section: str = ".debug_icf") -> IcfHeader | None:
    """Return the header of a section; None where that is empty or absent."""
    view = memoryview(buffer).cast("B")
    return _read_header(Reader(view, path, section)) if len(view) else None


class _Parser:
    """Reads the columns in file order, and checks each right after reading it."""

    def __init__(self, reader: Reader, view: memoryview, debug_str: bytes | memoryview | Contents) -> None:
        self._reader = reader
        self._view = view
        self._debug_str = debug_str
        self._column_start = 0  # of the ULEB128 column read last, for errors

    def table(self) -> IcfTable:
        reader = self._reader
        header = _read_header(reader)
        address_max = (1 << (8 * header.address_size)) - 1
        class_count, member_count, alias_count, tail_count = map(
            self._count, ("classes", "members", "aliases", "tail calls")
        )
        pointer_count, vtable_count, slot_count = map(self._count, ("pointer jumps", "vtables", "slots"))
        run_count, vcall_run_count, pool_size_bytes = map(
            self._count, ("evidence bytes", "evidence bytes of .debug_vcall", "pool bytes")
        )
        has_types = header.version > _WITHOUT_TYPES
        names = ("object types", "groups of them", "objects", "rows of them") if has_types else ()
        type_count, group_count, object_count, row_count = [*map(self._count, names), 0, 0, 0, 0][:4]
        callback_count = self._count("callbacks") if header.version > WITHOUT_CALLBACKS else 0

        class_vaddr = self._ascending("class_vaddr", class_count, address_max)
        self._check(class_vaddr[1:] > class_vaddr[:-1], "class has the address of the class above", first=1)
        class_size = self._ulebs("class_size", class_count)
        self._check(class_size <= np.uint64(address_max) - class_vaddr, "class ends beyond the address space")
        class_flags = self._flags("class_flags", class_count, _ALL_CLASS_FLAGS)
        member_start = self._starts("class_members", class_count, member_count, "class", "member")

        member_flags = self._flags("member_flags", member_count, _ALL_MEMBER_FLAGS)
        member_die = self._signed("member_die", member_count)
        member_name = self._names("member_name", member_count, pool_size_bytes)
        alias_member = self._members("alias_member", self._ascending("alias_member", alias_count), member_count)
        alias_name = self._names("alias_name", alias_count, pool_size_bytes)
        tail_jump = self._ascending("tail_jump", tail_count, address_max)
        tail_caller = self._ulebs("tail_caller", tail_count)
        self._check(tail_caller <= member_count, f"tail_caller names a member beyond the {member_count} there are")
        self._check(
            (tail_caller > 0) | _inside(tail_jump, class_vaddr, class_size), "tail call of every member is in no class"
        )
        tail_callee = self._ulebs("tail_callee", tail_count)
        self._check_functions("tail_callee", tail_callee, class_count, member_count)
        pointer_jump = self._ascending("pointer_jump", pointer_count, address_max)
        self._check(_inside(pointer_jump, class_vaddr, class_size), "pointer jump is in no class")
        pointer_slot = self._ulebs("pointer_slot", pointer_count)
        self._check(pointer_slot <= np.uint64(_SLOT_LIMIT), f"slot is {_SLOT_LIMIT} or more")
        is_other = (pointer_jump[1:] > pointer_jump[:-1]) | (pointer_slot[1:] > pointer_slot[:-1])
        self._check(is_other, "pointer jump has the address of the one above, and no higher slot", first=1)
        pointer_object = self._ulebs("pointer_object", pointer_count if has_types else 0)
        self._check(pointer_object <= object_count, f"pointer_object is above the {object_count} objects there are")
        vtable_vaddr = self._ascending("vtable_vaddr", vtable_count, address_max)
        self._check(vtable_vaddr[1:] > vtable_vaddr[:-1], "vtable has the address of the one above", first=1)
        before = self._ulebs("vtable_group", vtable_count)
        self._check(before <= vtable_vaddr, "group of vtables begins before address 0")
        vtable_die = self._signed("vtable_die", vtable_count)
        slot_start = self._starts("vtable_slots", vtable_count, slot_count, "vtable", "slot")
        slot = self._ulebs("slot", slot_count)
        self._check_ascends(slot, slot_start, _SLOT_LIMIT, f"slot is {_SLOT_LIMIT} or more")
        slot = _summed(slot, slot_start)
        slot_function = self._signed("slot_function", slot_count)
        self._check_functions("slot_function", slot_function, class_count, member_count)
        type_start = self._starts("type_groups", type_count, group_count, "object type", "group")
        type_group = self._ulebs("type_group", group_count)
        self._check_ascends(type_group, type_start, vtable_count, "type_group is not one of those there are")
        type_group = _summed(type_group, type_start)
        object_start = self._starts("object_rows", object_count, row_count, "object", "row")
        object_member = self._ulebs("object_member", row_count)
        self._check_ascends(object_member, object_start, member_count + 1, "object_member names no member")
        object_member = _summed(object_member, object_start)
        object_type = self._signed("object_type", row_count)
        self._check(object_type < type_count, f"object_type is not one of the {type_count} types")
        callback_site = self._ascending("callback_site", callback_count, address_max)
        callback_caller = self._ulebs("callback_caller", callback_count)
        self._check(
            callback_caller <= member_count, f"callback_caller names a member beyond the {member_count} there are"
        )
        is_other = (callback_site[1:] > callback_site[:-1]) | (callback_caller[1:] > callback_caller[:-1])
        self._check(is_other, "callback has the call site of the one above, and no higher caller", first=1)
        callback_callee = self._members("callback_callee", self._ulebs("callback_callee", callback_count), member_count)
        callback_evidence = self._kinds("callback_evidence", callback_count)
        evidence = self._evidence("evidence", run_count)
        vcall_evidence = self._evidence("evidence_vcall", vcall_run_count)
        vcall_object = self._ulebs("vcall_object", len(vcall_evidence) if has_types else 0)
        self._check(vcall_object <= object_count, f"vcall_object is above the {object_count} objects there are")
        pool = reader.take(pool_size_bytes)
        if pool_size_bytes and pool[-1] != 0:
            raise reader.error("last name of the pool has no NUL", reader.pos - 1)
        if reader.remaining:
            raise reader.error(f"{reader.remaining} bytes follow the table")
        columns = IcfColumns(
            class_vaddr, class_size, class_flags, member_start, member_die, member_name, member_flags,
            alias_member, alias_name, tail_jump, tail_caller, tail_callee, pointer_jump, pointer_slot,
            vtable_vaddr, vtable_vaddr - before, vtable_die, slot_start, slot, slot_function, pool, self._debug_str,
            pointer_object if has_types else np.zeros(pointer_count, np.uint64),
            type_start, type_group, object_start, object_member, object_type,
            vcall_object if has_types else np.zeros(len(vcall_evidence), np.uint64),
            callback_site, callback_caller, callback_callee, callback_evidence,
        )  # fmt: skip
        return IcfTable(
            evidence=evidence,
            vcall_evidence=vcall_evidence,
            image_flags=header.image_flags,
            code_digest=header.code_digest,
            columns=columns,
        )

    def _count(self, what: str) -> int:
        """Return a count of the header; each thing counted takes a byte or more."""
        offset = self._reader.pos
        count = self._reader.uleb()
        if count > self._reader.remaining:
            raise self._reader.error(f"header counts {count} {what}, {self._reader.remaining} bytes are left", offset)
        return count

    def _starts(self, column: str, count: int, total: int, owner: str, part: str) -> U64:
        """Return where the parts of each owner begin, from a column of how many each has."""
        counts = self._ulebs(column, count)
        self._check(counts > 0, f"{owner} has no {part}")
        self._check(counts <= total, f"{owner} has more than the {total} {part}s there are")
        starts = np.zeros(count + 1, np.uint64)
        np.cumsum(counts, out=starts[1:])
        found = int(starts[-1])  # at most the square: no wrap, both are bounded by the section
        if found != total:
            plural = "classes" if owner == "class" else f"{owner}s"
            raise self._reader.error(f"{plural} have {found} {part}s, the header says {total}", self._column_start)
        return starts

    def _check_ascends(self, differences: U64, start: U64, limit: int, problem: str) -> None:
        """Check values that are stored as differences to the one above in the same part: they ascend below `limit`."""
        is_first = np.zeros(len(differences), np.bool_)
        is_first[start[:-1].astype(np.int64)] = True
        self._check((differences > 0) | is_first, f"{problem.partition(' ')[0]} is that above")
        self._check(differences < np.uint64(limit), problem)  # so that no sum of them wraps
        self._check(_summed(differences, start) < np.uint64(limit), problem)

    def _check_functions(self, column: str, functions: U64, class_count: int, member_count: int) -> None:
        limit = np.where(functions & np.uint64(1) == 1, np.uint64(class_count), np.uint64(member_count))
        self._check(functions >> np.uint64(1) < limit, f"{column} names a member or class that does not exist")

    def _ulebs(self, column: str, count: int) -> U64:
        reader = self._reader
        self._bound(column, count)
        self._column_start = reader.pos
        values = np.empty(count, np.uint64)
        reached = _leb.uleb_run(self._view, reader.pos, reader.end, values.data)
        if reached < 0:
            reader.pos = -1 - reached
            reader.uleb()  # raises its error
        reader.pos = reached
        return values

    def _ascending(self, column: str, count: int, limit: int = _U64_MAX) -> U64:
        values = np.cumsum(self._ulebs(column, count), dtype=np.uint64)
        self._check(values[1:] >= values[:-1], f"{column} exceeds 64 bits", first=1)
        self._check(values <= np.uint64(limit), f"{column} is above {limit:#x}")
        return values

    def _signed(self, column: str, count: int) -> U64:
        raw = self._ulebs(column, count)
        half = (raw >> np.uint64(1)).astype(np.int64)
        values = np.cumsum(np.where(raw & np.uint64(1), ~half, half), dtype=np.int64)
        self._check(values >= 0, f"{column} is negative or exceeds 63 bits")
        return values.astype(np.uint64)

    def _names(self, column: str, count: int, pool_size_bytes: int) -> U64:
        offsets = self._signed(column, count)
        debug_str = self._debug_str
        self._check(offsets < pool_size_bytes + len(debug_str), f"{column} is beyond the pool and .debug_str")
        if len(debug_str) and bytes(debug_str[-1:]) != b"\0":
            self._check(offsets < pool_size_bytes, f"{column} lies in .debug_str, whose last string has no NUL")
        return offsets

    def _members(self, column: str, rows: U64, member_count: int) -> U64:
        self._check(rows < member_count, f"{column} is not one of the {member_count} members")
        return rows

    def _flags(self, column: str, count: int, known: int) -> U8:
        start = self._reader.pos
        self._bound(column, count)
        flags = np.frombuffer(self._reader.take(count), np.uint8)
        unknown = flags & np.uint8(~known & 0xFF)
        if unknown.any():
            row = int(np.argmax(unknown != 0))
            raise self._reader.error(f"{column} has unknown bits: {int(flags[row]):#x}", start + row)
        return flags

    def _evidence(self, column: str, run_count: int) -> bytes:
        start = self._reader.pos
        self._bound(column, run_count)
        runs = np.frombuffer(self._reader.take(run_count), np.uint8)
        kinds = runs & np.uint8(7)
        self._check_kinds(column, kinds, start)
        return np.repeat(kinds, (runs >> 3) + 1).tobytes()

    def _kinds(self, column: str, count: int) -> U8:
        start = self._reader.pos
        self._bound(column, count)
        kinds = np.frombuffer(self._reader.take(count), np.uint8)
        self._check_kinds(column, kinds, start)
        return kinds

    def _check_kinds(self, column: str, kinds: U8, start: int) -> None:
        wrong = (kinds == 0) | (kinds > EVIDENCE_MAX)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._reader.error(f"{column} names evidence {int(kinds[row])}, which is not known", start + row)

    def _bound(self, column: str, count: int) -> None:
        if count > self._reader.remaining:
            raise self._reader.error(f"{column} has {count} values, {self._reader.remaining} bytes are left")

    def _check(self, holds: Mask, problem: str, *, first: int = 0) -> None:
        """Refuse the first value of the column for which `holds`, that starts at row `first`, is false."""
        if holds.all():
            return
        reader = self._reader
        reader.pos = self._column_start
        for _ in range(first + int(np.argmin(holds))):
            reader.uleb()
        raise reader.error(problem)


def _read_header(reader: Reader) -> IcfHeader:
    """Read the header up to its counts."""
    unit_length = reader.u32()
    if unit_length == 0xFFFFFFFF:
        unit_length = reader.u64()
    if unit_length != reader.remaining:
        raise reader.error(f"unit length is {unit_length}, {reader.remaining} bytes are left", 0)
    version = reader.u8()
    if not _WITHOUT_DIGEST <= version <= VERSION:
        known = f"only {_WITHOUT_DIGEST} to {VERSION} are known"
        hint = "a newer icf has written it" if version > VERSION else "link the program again, then run 'icf pass'"
        raise reader.error(f"table has version {version}, {known}", reader.pos - 1, hint=hint)
    address_size = reader.u8()
    if address_size not in (4, 8):
        raise reader.error(f"address size is {address_size}, not 4 or 8", reader.pos - 1)
    if version == _WITHOUT_DIGEST:
        return IcfHeader(version, address_size, ImageFlag.NONE, b"")
    image_flags = reader.u32()
    if image_flags & ~_ALL_IMAGE_FLAGS:
        raise reader.error(f"image_flags has unknown bits: {image_flags:#x}", reader.pos - 4)
    code_digest = bytes(reader.take(DIGEST_BYTES))
    return IcfHeader(version, address_size, ImageFlag(image_flags), code_digest if any(code_digest) else b"")


def _inside(vaddrs: U64, class_vaddr: U64, class_size: U64) -> Mask:
    """Return which addresses lie in a class."""
    if not len(class_vaddr):
        return np.zeros(len(vaddrs), np.bool_)
    at = np.searchsorted(class_vaddr, vaddrs, side="right").astype(np.int64)
    row = np.maximum(at, 1) - 1
    return np.asarray((at > 0) & (vaddrs - class_vaddr[row] < class_size[row]))


def _summed(differences: U64, slot_start: U64) -> U64:
    """Return the slots again."""
    sums = np.cumsum(differences, dtype=np.uint64)
    first = slot_start[:-1].astype(np.int64)
    before = (sums - differences)[first]
    return sums - np.repeat(before, np.diff(slot_start).astype(np.int64))
