"""10,000 mutated inputs for each parser of `icf.tables` and `icf.folds`: FormatError or a result, never more."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from icf.errors import FormatError
from icf.folds.report import parse_icf_report
from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    Callback,
    ClassFlag,
    DieOffset,
    Evidence,
    FoldClass,
    Member,
    MemberFlag,
    MemberRef,
    ObjectType,
    PointerJump,
    TailCall,
    TypedMember,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.tables.annotated_unit import parse_annotations
from icf.tables.annotation import Function, Operand, encode_annotation
from icf.tables.dcall import Dialect, DirectCalls, encode_dcall, parse_dcall
from icf.tables.icftable import IcfTable, parse_icf
from icf.tables.icfwriter import encode_icf
from icf.tables.vcall import VirtualCalls, encode_vcall, parse_vcall
from linkpass.second_reader.tables import read_dcall, read_icf, read_vcall
from tests.fuzz.limits import many

MUTATION_COUNT = many(10_000)
REPORTS = Path(__file__).parents[2] / "testdata" / "icf-reports"
DEBUG_STR = b"\0_Z3onev\0_Z3twov\0"


def dcall_seeds() -> list[bytes]:
    rng = random.Random(1)
    starts = np.array([0, 0x100, 0x4000000], np.uint64)
    ends = np.array([0x100, 0x4000000, 0x8000000], np.uint64)
    rows = [(rng.randrange(1, 1 << 31), rng.randrange(0x8000000), rng.randrange(0, 0x8000000)) for _ in range(6)]
    return [
        encode_dcall(DirectCalls.of(rows), starts, ends, dialect=dialect, dwarf64=wide, address_size=size)[0]
        for dialect in Dialect
        for wide in (False, True)
        for size in (4, 8)
    ]


def vcall_seeds() -> list[bytes]:
    calls = VirtualCalls.of([(0x401136 + idx, idx * 60) for idx in range(6)])
    return [
        encode_vcall(calls, dialect=dialect, dwarf64=wide, address_size=size)[0]
        for dialect in Dialect
        for wide in (False, True)
        for size in (4, 8)
    ]


def icf_seeds() -> list[bytes]:
    one = Member("_Z3onev", DieOffset(0x12A), MemberFlag.KEPT, ("C1E",))
    two = Member("_Z3twov", DieOffset(0x121), MemberFlag.VIRTUAL)
    main = Member("main", DieOffset(0x121), MemberFlag.LOCAL)
    table = IcfTable(
        (
            FoldClass(Vaddr(0x401120), 15, (one, two), ClassFlag.MEMBERS_COMPLETE),
            FoldClass(Vaddr(0x401140), 128, (main,)),
        ),
        (TailCall(Vaddr(0x401124), MemberRef(0, 1), MemberRef(1, 0)),),
        b"\2\2\2\4",
        b"\6" * 40,
        pointer_jumps=(PointerJump(Vaddr(0x401124), ANY_POINTER), PointerJump(Vaddr(0x401141), 3, 1)),
        types=[ObjectType((Vaddr(0x404000),))],
        objects=[(TypedMember(MemberRef(0, 0), 0), TypedMember(MemberRef(0, 1), 0)), (TypedMember(None, 0),)],
        vcall_objects=(2, *39 * (0,)),
        callbacks=[
            Callback(Vaddr(0x401128), MemberRef(0, 1), MemberRef(1, 0), Evidence.OBJECT),
            Callback(Vaddr(0x401150), None, MemberRef(0, 0), Evidence.DECODED),
        ],
        vtables=[
            Vtable(Vaddr(0x404010 + 24 * idx), Vaddr(0x404000), (VtableSlot(idx, MemberRef(0, 1)), VtableSlot(5, last)))
            for idx, last in enumerate((MemberRef(0, ALL_MEMBERS), MemberRef(1, 0)))
        ],
    )
    names = {"_Z3onev": 1, "_Z3twov": 9}
    older = IcfTable(table.classes, table.tail_calls, table.evidence, vtables=table.vtables)  # without callbacks
    return [*(encode_icf(each, names) for each in (table, older)), encode_icf(table, names, dwarf64=True)]


def annotation_seeds() -> list[bytes]:
    operands = (Operand(1, 0, "_Z3onev"), Operand(9, 1), Operand(20, 0, "two", True))
    functions = [
        Function("_Z3twov", ("alias",), False, 40, 3, 0, 1, operands),
        Function("two", (), True, 9, 4, 8, 2, ()),
    ]
    unit = encode_annotation("a.cpp", functions)
    return [unit, unit + encode_annotation("b.cpp", functions[:1])]


def read_annotations(data: bytes) -> object:
    """Also of units whose inflated bytes are what was changed."""
    read = []
    for unit in parse_annotations(memoryview(data), "fuzz"):
        read += [unit.function(idx) for idx in range(len(unit.address))]
    return read


def inflated_seeds() -> list[bytes]:
    unit = annotation_seeds()[0]
    return [zlib.decompress(unit[unit.index(b"ZLIB") + 12 :])]


def read_inflated(data: bytes) -> object:
    body = b"\x01" + b"\x02\0\0\0" + bytes(16) + b"ZLIB" + len(data).to_bytes(8, "big") + zlib.compress(data)
    return read_annotations(len(body).to_bytes(4, "little") + body)


def report_seeds() -> list[bytes]:
    return [(REPORTS / f"{linker}.txt").read_bytes() for linker in ("gold", "lld", "mold")]


def read_whole_icf(data: bytes) -> object:
    table = parse_icf(data, "fuzz", DEBUG_STR)
    return table.classes, table.tail_calls, table.callbacks  # the lazy half


def mutated(rng: random.Random, seed: bytes) -> bytes:
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 4)):
        if not data:
            break
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice((0, 1, 4, 8, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del data[at : at + rng.randrange(1, 9)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                del data[at:]
            case _:
                data[at : at + 8] = b"\xff" * rng.randrange(1, 9)
    if rng.random() < 0.5 and seed[3:4] == b"\0":  # let the change get past the length
        data[:4] = max(len(data) - 4, 0).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("parse", "seeds"),
    [
        pytest.param(lambda data: parse_dcall(data, "fuzz"), dcall_seeds, id="dcall"),
        pytest.param(lambda data: parse_vcall(data, "fuzz"), vcall_seeds, id="vcall"),
        pytest.param(read_whole_icf, icf_seeds, id="icf"),
        pytest.param(lambda data: read_dcall(data, "fuzz"), dcall_seeds, id="dcall-again"),
        pytest.param(lambda data: read_vcall(data, "fuzz"), vcall_seeds, id="vcall-again"),
        pytest.param(lambda data: read_icf(data, DEBUG_STR, "fuzz"), icf_seeds, id="icf-again"),
        pytest.param(parse_icf_report, report_seeds, id="report"),
        pytest.param(read_annotations, annotation_seeds, id="annotation"),
        pytest.param(read_inflated, inflated_seeds, id="annotation-inflated"),
    ],
)
def test_mutations_are_refused_or_read(parse: Callable[[bytes], object], seeds: Callable[[], list[bytes]]) -> None:
    inputs, rng = seeds(), random.Random(11)
    for seed in inputs:
        parse(seed)
    outcomes = {"read": 0, "refused": 0}
    try:
        for number in range(MUTATION_COUNT):
            data = mutated(rng, inputs[number % len(inputs)])
            if number % 1000 == 0:  # measuring each one would take most of the time
                tracemalloc.start()
            try:
                parse(data)
                outcomes["read"] += 1
            except FormatError as error:
                outcomes["refused"] += 1
                assert 0 <= error.offset <= len(data)
            if number % 1000 == 99:
                current, peak = tracemalloc.get_traced_memory()
                assert peak < 1_000_000, "memory is claimed that the input does not pay for"
                assert current < 100_000, "memory grows with the number of inputs"
                tracemalloc.stop()
    finally:
        tracemalloc.stop()
    assert min(outcomes.values()) > MUTATION_COUNT // 100, f"the mutations test one side only: {outcomes}"


@pytest.mark.parametrize(
    "parse", [lambda data: parse_dcall(data, "f"), lambda data: parse_vcall(data, "f"), read_whole_icf]
)
def test_counts_of_a_giant_are_refused_at_once(parse: Callable[[bytes], object]) -> None:
    for head in ("ffffffff", "ffffffff ffffffffffffffff", "ffffffff ffffffffffffff7f", "efffffff", "feffffff"):
        with pytest.raises(FormatError):
            parse(bytes.fromhex(head) + b"\x04\x08" + b"\xff" * 60)
