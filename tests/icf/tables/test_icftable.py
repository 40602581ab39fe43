"""`.debug_icf` byte by byte: what is written, and each rule that a table can break."""

from __future__ import annotations

import random

import pytest

from icf.errors import FormatError
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
from icf.tables.icftable import IcfTable, parse_icf
from icf.tables.icfwriter import encode_icf

DEBUG_STR = b"\0_Z3onev\0_Z3twov\0"

# name, bytes: the columns in file order, joined by `table`
COLUMNS = {
    "header": "06 08",  # version, address_size
    "image_flags": "01 00 00 00",  # MERGED_BY_COMPILER
    "code_digest": "000102030405060708090a0b0c0d0e0f",
    # 2 classes, 3 members, an alias, tail call, 2 pointer jumps ...; a type, a group, 2 objects, 3 rows, 3 callbacks
    "counts": "02 03 01 01 02 02 03 02 01 09 01 01 02 03 03",
    "class_vaddr": "a0a28002 20",  # 0x401120, then 0x20 more
    "class_size": "0f 8001",  # 15, 128 bytes
    "class_flags": "03 00",  # MEMBERS_COMPLETE and CALLS_COMPLETE; none
    "class_members": "02 01",
    "member_flags": "01 06 08",  # KEPT; ADDRESS_TAKEN and VIRTUAL; LOCAL
    "member_die": "d404 11 00",  # 0x12a, then 9 less: 0x121, and the same again
    "member_name": "14 10 23",  # pool 9 + .debug_str 1, then 8 more, then 18 less: pool 0
    "alias_member": "00",
    "alias_name": "0a",  # pool 5
    "tail_jump": "a4a28002",  # 0x401124
    "tail_caller": "02",  # second member of the first class, plus 1
    "tail_callee": "04",  # twice the third member
    "pointer_jump": "a4a28002 1d",  # 0x401124, 0x401141
    "pointer_slot": "00 04",  # any pointer; slot 3
    "pointer_object": "00 01",  # none; the first one
    "vtable_vaddr": "90808102 18",  # 0x404010, 0x404028
    "vtable_group": "10 28",  # both of the group at 0x404000
    "vtable_die": "00 8006",  # none; 0x180
    "vtable_slots": "01 02",
    "slot": "05 00 02",  # 5; 0 and 2
    "slot_function": "04 01 02",  # 2, then 1 less, then 1 more: second member, any of the first class, second member
    "type_groups": "01",
    "type_group": "00",  # the group at 0x404000
    "object_rows": "02 01",
    "object_member": "01 01 00",  # first member, second member; every member
    "object_type": "00 00 00",
    "callback_site": "b1a28002 00 10",  # 0x401131 twice, 0x401141
    "callback_caller": "01 02 00",  # first member and second member; whichever
    "callback_callee": "02 01 00",  # third, second, first member
    "callback_evidence": "03 03 06",  # OBJECT, OBJECT, DECODED
    "evidence": "1a 04",  # RELOCATION 4 times, DWARF once
    "evidence_vcall": "fe",  # DECODED 32 times
    "vcall_object": "02" + 31 * "00",  # the second one; none
    "pool": "6d61696e00 43314500",  # "main", "C1E"
}
NAMES = {"_Z3onev": 1, "_Z3twov": 9}
TABLE = IcfTable(
    (
        FoldClass(
            Vaddr(0x401120),
            15,
            (
                Member("_Z3onev", DieOffset(0x12A), MemberFlag.KEPT, ("C1E",)),
                Member("_Z3twov", DieOffset(0x121), MemberFlag.ADDRESS_TAKEN | MemberFlag.VIRTUAL),
            ),
            ClassFlag.MEMBERS_COMPLETE | ClassFlag.CALLS_COMPLETE,
        ),
        FoldClass(Vaddr(0x401140), 128, (Member("main", DieOffset(0x121), MemberFlag.LOCAL),)),
    ),
    (TailCall(Vaddr(0x401124), MemberRef(0, 1), MemberRef(1, 0)),),
    bytes([Evidence.RELOCATION] * 4 + [Evidence.DWARF]),
    bytes([Evidence.DECODED] * 32),
    pointer_jumps=(PointerJump(Vaddr(0x401124), ANY_POINTER), PointerJump(Vaddr(0x401141), 3, 1)),
    types=(ObjectType((Vaddr(0x404000),)),),
    objects=((TypedMember(MemberRef(0, 0), 0), TypedMember(MemberRef(0, 1), 0)), (TypedMember(None, 0),)),
    vcall_objects=(2, *31 * (0,)),
    callbacks=(
        Callback(Vaddr(0x401131), MemberRef(0, 0), MemberRef(1, 0), Evidence(3)),
        Callback(Vaddr(0x401131), MemberRef(0, 1), MemberRef(0, 1), Evidence(3)),
        Callback(Vaddr(0x401141), None, MemberRef(0, 0), Evidence(6)),
    ),
    vtables=(
        Vtable(Vaddr(0x404010), Vaddr(0x404000), (VtableSlot(5, MemberRef(0, 1)),)),
        Vtable(
            Vaddr(0x404028),
            Vaddr(0x404000),
            (VtableSlot(0, MemberRef(0, ALL_MEMBERS)), VtableSlot(2, MemberRef(0, 1))),
            DieOffset(0x180),
        ),
    ),
    image_flags=ImageFlag.MERGED_BY_COMPILER,
    code_digest=bytes(range(16)),
)


_TYPE_COLUMNS = ("type_groups", "type_group", "object_rows", "object_member", "object_type")
_CALLBACK_COLUMNS = ("callback_site", "callback_caller", "callback_callee", "callback_evidence")
WITHOUT_CALLBACKS = dict.fromkeys(_CALLBACK_COLUMNS, "") | {  # before version 6
    "header": "05 08",
    "counts": "02 03 01 01 02 02 03 02 01 09 01 01 02 03",
}
# before version 5
WITHOUT_TYPES = dict.fromkeys(("pointer_object", *_TYPE_COLUMNS, *_CALLBACK_COLUMNS, "vcall_object"), "")
WITHOUT_TYPES["counts"] = "02 03 01 01 02 02 03 02 01 09"
NO_TYPES = dict.fromkeys(_TYPE_COLUMNS, "") | {"pointer_object": "00 00", "vcall_object": 32 * "00"}


def table(**changes: str) -> bytes:
    body = b"".join(bytes.fromhex(changes.get(name, column)) for name, column in COLUMNS.items())
    return len(body).to_bytes(4, "little") + body


def start_of(column: str) -> int:
    sizes = [len(bytes.fromhex(text)) for text in COLUMNS.values()]
    return 4 + sum(sizes[: list(COLUMNS).index(column)])


def test_written_bytes() -> None:
    assert encode_icf(TABLE, NAMES).hex(" ") == table().hex(" ")


def test_a_tail_call_of_every_member_to_any_member_takes_one_entry() -> None:
    call = TailCall(Vaddr(0x401124), MemberRef(0, ALL_MEMBERS), MemberRef(1, ALL_MEMBERS))
    changed = IcfTable(
        TABLE.classes,
        (call,),
        TABLE.evidence,
        TABLE.vcall_evidence,
        pointer_jumps=TABLE.pointer_jumps,
        vtables=TABLE.vtables,
        types=TABLE.types,
        objects=TABLE.objects,
        vcall_objects=TABLE.vcall_objects,
        callbacks=TABLE.callbacks,
        image_flags=TABLE.image_flags,
        code_digest=TABLE.code_digest,
    )
    assert encode_icf(changed, NAMES) == table(tail_caller="00", tail_callee="03")
    assert parse_icf(table(tail_caller="00", tail_callee="03"), "a.out", DEBUG_STR).tail_calls == (call,)


def test_every_member_is_that_of_a_class_at_the_jump() -> None:
    with pytest.raises(FormatError, match="tail call of every member is in no class"):
        parse_icf(table(tail_caller="00", tail_jump="ffa18002"), "a.out", DEBUG_STR)


def test_what_is_written_is_read() -> None:
    again = parse_icf(table(), "a.out", DEBUG_STR)
    assert again == TABLE
    assert again.class_vaddr.tolist() == [0x401120, 0x401140]
    assert again.class_size.tolist() == [15, 128]
    assert again.member_start.tolist() == [0, 2, 3]
    assert again.member_die.tolist() == [0x12A, 0x121, 0x121]
    assert again.member_flags.tolist() == [1, 6, 8]
    assert [again.member_name(row) for row in range(3)] == ["_Z3onev", "_Z3twov", "main"]
    assert encode_icf(again, NAMES) == table()


def test_64_bit_dwarf_differs_in_the_length_only() -> None:
    wide = encode_icf(TABLE, NAMES, dwarf64=True)
    assert wide == b"\xff\xff\xff\xff" + (len(table()) - 4).to_bytes(8, "little") + table()[4:]
    assert parse_icf(wide, "a.out", DEBUG_STR) == TABLE


def test_no_section_is_an_empty_table() -> None:
    assert parse_icf(b"", "a.out", b"") == IcfTable()
    assert parse_icf(encode_icf(IcfTable(), {}), "a.out", b"") == IcfTable()
    assert len(encode_icf(IcfTable(), {})) == 40


@pytest.mark.parametrize("size_bytes", range(1, len(table())))
def test_every_truncation_is_refused(size_bytes: int) -> None:
    problem = r"(needs \d+ bytes, \d are left|unit length is \d+, \d+ bytes are left)"
    with pytest.raises(FormatError, match=rf"a\.out: \.debug_icf\+0x0: {problem}$"):
        parse_icf(table()[:size_bytes], "a.out", DEBUG_STR)


@pytest.mark.parametrize("size_bytes", range(len(table()) - 4))
def test_every_truncation_that_its_length_owns_up_to_is_refused(size_bytes: int) -> None:
    data = size_bytes.to_bytes(4, "little") + table()[4 : 4 + size_bytes]
    with pytest.raises(FormatError, match=r"a\.out: \.debug_icf\+0x[0-9a-f]+: .*(needs \d+ bytes|bytes are left)"):
        parse_icf(data, "a.out", DEBUG_STR)


@pytest.mark.parametrize(
    ("column", "text", "row_offset", "problem"),
    [
        ("header", "02 08", 0, "table has version 2, only 3 to 6 are known"),
        ("header", "06 07", 1, "address size is 7, not 4 or 8"),
        ("image_flags", "02 00 00 00", 0, "image_flags has unknown bits: 0x2"),
        (
            "counts",
            "02 03 01 01 02 02 03 02 01 ffffffffffffffffff01 01 01 02 03 03",
            9,
            "header counts 18446744073709551615 pool bytes, 131 bytes are left",
        ),
        (
            "counts",
            "02 03 01 01 02 02 03 02 ff01 09 01 01 02 03 03",
            8,
            "header counts 255 evidence bytes of .debug_vcall, 132 bytes are left",
        ),
        ("class_vaddr", "a0a28002 00", 4, "class has the address of the class above"),
        ("class_vaddr", "ffffffffffffffffff01 02", 10, "class_vaddr exceeds 64 bits"),
        ("class_vaddr", "ffffffffffffffffff02 02", 0, "ULEB128 does not fit 64 bits"),
        ("class_vaddr", "f0ffffffffffffffff01 01", None, "class ends beyond the address space"),
        ("class_flags", "23 00", 0, "class_flags has unknown bits: 0x23"),
        ("class_members", "03 00", 1, "class has no member"),
        ("class_members", "04 01", 0, "class has more than the 3 members there are"),
        ("class_members", "02 02", 0, "classes have 4 members, the header says 3"),
        ("member_flags", "01 06 48", 2, "member_flags has unknown bits: 0x48"),
        ("member_die", "00 01 00", 1, "member_die is negative or exceeds 63 bits"),
        ("member_die", "feffffffffffffffff01 02 00", 10, "member_die is negative or exceeds 63 bits"),
        ("member_name", "14 20 00", 1, "member_name is beyond the pool and .debug_str"),
        ("alias_member", "03", 0, "alias_member is not one of the 3 members"),
        ("alias_name", "34", 0, "alias_name is beyond the pool and .debug_str"),
        ("tail_caller", "04", 0, "tail_caller names a member beyond the 3 there are"),
        ("tail_callee", "fe01", 0, "tail_callee names a member or class that does not exist"),
        ("tail_callee", "05", 0, "tail_callee names a member or class that does not exist"),
        ("pointer_jump", "9fa28002 22", 0, "pointer jump is in no class"),
        ("pointer_slot", "00 8180808010", 1, "slot is 4294967296 or more"),
        ("pointer_object", "00 03", 1, "pointer_object is above the 2 objects there are"),
        ("vtable_vaddr", "90808102 00", 4, "vtable has the address of the one above"),
        ("vtable_group", "91808102 28", 0, "group of vtables begins before address 0"),
        ("vtable_die", "00 01", 1, "vtable_die is negative or exceeds 63 bits"),
        ("vtable_slots", "03 00", 1, "vtable has no slot"),
        ("vtable_slots", "04 01", 0, "vtable has more than the 3 slots there are"),
        ("vtable_slots", "01 01", 0, "vtables have 2 slots, the header says 3"),
        ("slot", "05 00 00", 2, "slot is that above"),
        ("slot", "05 8080808010 02", 1, "slot is 4294967296 or more"),
        ("slot_function", "04 01 0a", 2, "slot_function names a member or class that does not exist"),
        ("type_groups", "00", 0, "object type has no group"),
        ("type_group", "02", 0, "type_group is not one of those there are"),
        ("object_rows", "03 01", 0, "objects have 4 rows, the header says 3"),
        ("object_rows", "03 00", 1, "object has no row"),
        ("object_member", "01 00 00", 1, "object_member is that above"),
        ("object_member", "01 03 00", 1, "object_member names no member"),
        ("object_type", "00 02 00", 1, "object_type is not one of the 1 types"),
        ("callback_caller", "01 04 00", 1, "callback_caller names a member beyond the 3 there are"),
        ("callback_caller", "02 02 00", 1, "callback has the call site of the one above, and no higher caller"),
        ("callback_callee", "02 03 00", 1, "callback_callee is not one of the 3 members"),
        ("callback_evidence", "03 00 06", 1, "callback_evidence names evidence 0, which is not known"),
        ("evidence", "1a 00", 1, "evidence names evidence 0, which is not known"),
        ("evidence_vcall", "ff", 0, "evidence_vcall names evidence 7, which is not known"),
        ("vcall_object", "03" + 31 * "00", 0, "vcall_object is above the 2 objects there are"),
        ("pool", "6d61696e00 43314531", 8, "last name of the pool has no NUL"),
        ("pool", "6d61696e00 43314500 00", 9, "1 bytes follow the table"),
    ],
)
def test_broken_rules_are_named(column: str, text: str, row_offset: int | None, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_icf(table(**{column: text}), "a.out", DEBUG_STR)
    assert caught.value.problem == problem
    if row_offset is not None:
        assert caught.value.offset == start_of(column) + row_offset


def test_one_jump_can_take_several_slots_that_ascend() -> None:
    again = parse_icf(table(pointer_jump="a4a28002 00"), "a.out", DEBUG_STR)
    assert [(jump.jump, jump.slot) for jump in again.pointer_jumps] == [(0x401124, ANY_POINTER), (0x401124, 3)]
    with pytest.raises(FormatError, match="pointer jump has the address of the one above, and no higher slot$"):
        parse_icf(table(pointer_jump="a4a28002 00", pointer_slot="04 04"), "a.out", DEBUG_STR)


def test_addresses_of_four_bytes_are_checked_as_such() -> None:
    assert parse_icf(table(header="06 04"), "a.out", DEBUG_STR) == TABLE
    with pytest.raises(FormatError, match=r"class_vaddr is above 0xffffffff$"):
        parse_icf(table(header="06 04", class_vaddr="a0a28002 ffffffff0f"), "a.out", DEBUG_STR)


def test_version_3_has_neither_flags_nor_digest() -> None:
    again = parse_icf(table(header="03 08", image_flags="", code_digest="", **WITHOUT_TYPES), "a.out", DEBUG_STR)
    assert (again.image_flags, again.code_digest) == (ImageFlag.NONE, b"")
    assert (again.classes, again.vtables) == (TABLE.classes, TABLE.vtables)
    assert (again.types, again.objects, again.vcall_objects) == ((), (), 32 * (0,))
    written = WITHOUT_CALLBACKS | NO_TYPES | {"counts": WITHOUT_TYPES["counts"] + "00 00 00 00"}
    assert encode_icf(again, NAMES) == table(image_flags="00 00 00 00", code_digest="00" * 16, **written)


def test_version_4_has_no_types() -> None:
    again = parse_icf(table(header="04 08", **WITHOUT_TYPES), "a.out", DEBUG_STR)
    assert (again.types, again.objects, again.vcall_objects) == ((), (), 32 * (0,))
    assert [jump.object for jump in again.pointer_jumps] == [0, 0]
    assert (again.classes, again.code_digest) == (TABLE.classes, TABLE.code_digest)


def test_a_table_without_callbacks_is_one_of_version_5() -> None:
    again = parse_icf(table(**WITHOUT_CALLBACKS), "a.out", DEBUG_STR)
    assert (again.callbacks, again.objects, again.code_digest) == ((), TABLE.objects, TABLE.code_digest)
    assert encode_icf(again, NAMES) == table(**WITHOUT_CALLBACKS)


def test_a_digest_of_zeros_is_none() -> None:
    assert parse_icf(table(code_digest="00" * 16), "a.out", DEBUG_STR).code_digest == b""


def test_names_need_a_debug_str_that_ends() -> None:
    with pytest.raises(FormatError, match=r"member_name lies in \.debug_str, whose last string has no NUL$"):
        parse_icf(table(), "a.out", DEBUG_STR[:-1])
    with pytest.raises(FormatError, match=r"member_name is beyond the pool and \.debug_str$"):
        parse_icf(table(), "a.out", b"")


def test_names_of_any_bytes_and_length_survive() -> None:
    names = [b"\xff\xfe".decode("utf-8", "surrogateescape"), "grün", "", "_Z" + "x" * 700]
    classes = [FoldClass(Vaddr(16 + idx), 1, (Member(name),)) for idx, name in enumerate(names)]
    again = parse_icf(encode_icf(IcfTable(classes), {}), "a.out", b"")
    assert [fold_class.members[0].name for fold_class in again.classes] == names


def test_highest_values() -> None:
    member = Member("f", DieOffset(2**63 - 1), MemberFlag.VIRTUAL)
    last = FoldClass(Vaddr(2**64 - 1), 0, (member, Member("g", DieOffset(0))))
    given = IcfTable([last], [TailCall(Vaddr(2**64 - 1), MemberRef(0, 0), MemberRef(0, 1))])
    assert parse_icf(encode_icf(given, {}), "a.out", b"") == given
    with pytest.raises(ValueError, match="0x8000000000000000 does not fit 63 bits"):
        encode_icf(IcfTable([FoldClass(Vaddr(1), 1, (Member("f", DieOffset(2**63)),))]), {})


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65, 1000])
def test_runs_of_evidence_are_split_at_32(length: int) -> None:
    evidence = bytes([Evidence.TABLE] * length + [Evidence.ALIGNED])
    section = encode_icf(IcfTable(evidence=evidence), {})
    assert len(section) - 40 == (length + 31) // 32 + 1
    assert parse_icf(section, "a.out", b"").evidence == evidence


@pytest.mark.parametrize(
    ("classes", "tail_calls", "message"),
    [
        ([FoldClass(Vaddr(1), 1, ())], [], "class at 0x1 has no member"),
        ([FoldClass(Vaddr(a), 1, (Member("f"),)) for a in (2, 2)], [], "class at 0x2 stands after the one at 0x2"),
        ([FoldClass(Vaddr(1), 1, (Member("f\0"),))], [], r"name 'f\\x00' contains a NUL"),
        (
            [FoldClass(Vaddr(1), 1, (Member("f"),))],
            [TailCall(Vaddr(1), MemberRef(0, 0), MemberRef(0, 1))],
            r"MemberRef\(class_idx=0, member_idx=1\) does not exist",
        ),
    ],
)
def test_what_the_format_cannot_say_is_not_written(
    classes: list[FoldClass], tail_calls: list[TailCall], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encode_icf(IcfTable(classes, tail_calls), {})


def random_table(seed: int, class_count: int, record_count: int = 0) -> tuple[IcfTable, bytes, dict[str, int]]:
    """A table, the .debug_str of most of its names, and where they are in it."""
    rng = random.Random(seed)
    debug_str, names, classes = bytearray(b"\0"), dict[str, int](), []
    vaddr = 0x400000
    for _ in range(class_count):
        vaddr += rng.randrange(16, 4000, 16)
        members = []
        for _ in range(rng.randrange(1, 8)):
            name = f"_ZN3foo{rng.randrange(1 << 40)}Ev"
            if rng.random() < 0.9:
                names[name] = len(debug_str)
                debug_str += name.encode() + b"\0"
            flags = MemberFlag(rng.randrange(32))
            aliases = ("_ZC1", "_ZC2") if rng.random() < 0.05 else ()
            die = DieOffset(rng.randrange(80_000_000))
            members.append(Member(name, die, flags, aliases))
        classes.append(FoldClass(Vaddr(vaddr), rng.randrange(500), tuple(members), ClassFlag(rng.randrange(16))))

    def ref() -> MemberRef:
        class_idx = rng.randrange(class_count)
        return MemberRef(class_idx, rng.randrange(len(classes[class_idx].members)))

    tails = [TailCall(Vaddr(rng.randrange(1 << 33)), ref(), ref()) for _ in range(class_count // 2)]
    pointer_jumps = [
        PointerJump(Vaddr(fold.vaddr + rng.randrange(fold.size_bytes)), rng.randrange(-1, 9))
        for fold in classes
        if fold.size_bytes and rng.random() < 0.3
    ]
    vtables = []
    for idx in range(class_count):
        slots = sorted(rng.sample(range(300), rng.randrange(1, 5)))
        functions = [ref() if rng.random() < 0.9 else MemberRef(rng.randrange(class_count), ALL_MEMBERS) for _ in slots]
        group = Vaddr(0x900000 + idx * 64)
        vtables.append(Vtable(Vaddr(group + 16), group, tuple(map(VtableSlot, slots, functions)), DieOffset(idx)))
    evidence = bytes(rng.choices(range(1, 7), k=record_count))
    groups = [vtable.group for vtable in vtables]
    types = [ObjectType(tuple(sorted(rng.sample(groups, rng.randrange(1, 4))))) for _ in range(class_count)]
    objects: list[TypedObject] = []
    for class_idx, fold in enumerate(classes):
        chosen = sorted(rng.sample(range(len(fold.members)), rng.randrange(1, len(fold.members) + 1)))
        objects.append(tuple(TypedMember(MemberRef(class_idx, idx), rng.randrange(class_count)) for idx in chosen))
    objects.append((TypedMember(None, 0),))
    pointer_jumps = [each._replace(object=rng.randrange(class_count + 2)) for each in pointer_jumps]
    callbacks = [
        Callback(Vaddr(rng.randrange(1 << 33)), rng.choice([None, ref()]), ref(), Evidence(rng.randrange(1, 7)))
        for _ in range(class_count // 3)
    ]
    table = IcfTable(
        classes, tails, evidence, evidence[:5], pointer_jumps=pointer_jumps, vtables=vtables, types=types,
        objects=objects, vcall_objects=[rng.randrange(class_count + 2) for _ in range(5)], callbacks=callbacks,
    )  # fmt: skip
    return table, bytes(debug_str), names


@pytest.mark.parametrize("seed", range(5))
def test_random_tables_survive(seed: int) -> None:
    given, debug_str, names = random_table(seed, 200, 1000)
    section = encode_icf(given, names)
    again = parse_icf(section, "a.out", debug_str)
    assert again == given
    assert [again.fold_class(idx) for idx in range(200)] == list(given.classes)
    assert encode_icf(again, names) == section
