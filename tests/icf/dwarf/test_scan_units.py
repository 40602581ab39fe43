"""Units, trees of DIEs and range lists assembled by hand; a corrupt unit is an error of that unit only."""

from __future__ import annotations

import random

import numpy as np
import pytest

from icf.dwarf.columns import OFFSET
from icf.dwarf.dies import read_dies
from icf.dwarf.opening import open_debug
from icf.dwarf.units import MAX_DEPTH
from icf.errors import FormatError
from tests.support.dwarf_units import (
    ADDR_BASE,
    BLOCK,
    CALL_ORIGIN,
    CALL_PC,
    CALL_SITE,
    CU,
    DECL_LINE,
    DECLARATION,
    ENTRY_POINT,
    HIGH_PC,
    INLINED,
    LOW_PC,
    NAME,
    NAMESPACE,
    ORIGIN,
    PARTIAL,
    RANGES,
    RETURN_PC,
    RNGLISTS_BASE,
    SIBLING,
    SKELETON,
    STMT_LIST,
    STR_BASE,
    STRUCTURE,
    SUBPROGRAM,
    TAIL_CALL,
    TU,
    VARIABLE,
    image_of,
    one_die,
    read,
    table,
    u32,
    u64,
    uint,
    unit,
)
from tests.support.line_tables import sleb, uleb

ABBREV = table(
    (1, CU, True, [(NAME, 0x08)]),
    (2, SUBPROGRAM, False, [(NAME, 0x08), (LOW_PC, 0x01), (HIGH_PC, 0x0B)]),
    (3, SUBPROGRAM, True, [(NAME, 0x08), (LOW_PC, 0x01), (HIGH_PC, 0x0B)]),
    (4, BLOCK, True, []),
    (5, STRUCTURE, True, [(SIBLING, 0x13)]),
    (6, STRUCTURE, True, []),
    (7, CALL_SITE, False, [(RETURN_PC, 0x01), (CALL_ORIGIN, 0x13)]),
    (8, SUBPROGRAM, True, [(NAME, 0x08), (DECLARATION, 0x19)]),
    (9, NAMESPACE, True, [(NAME, 0x08)]),
    (10, VARIABLE, False, [(NAME, 0x08), (DECL_LINE, 0x0B)]),
    (11, INLINED, True, [(ORIGIN, 0x13)]),
    (12, SUBPROGRAM, False, [(NAME, 0x08), (ORIGIN, 0x13), (LOW_PC, 0x01)]),
    (13, STRUCTURE, False, [(NAME, 0x08)]),
)
HEAD = b"\x01u\0"


def function(name: bytes, low: int = 0x1000, code: int = 2) -> bytes:
    return bytes([code]) + name + b"\0" + u64(low) + b"\x10"


GOOD = unit(HEAD + function(b"good") + b"\0")


def names(found: list[bytes]) -> list[str]:
    return [name.decode() for name in found]


@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("address_size", [4, 8])
def test_headers(version: int, dwarf64: bool, address_size: int) -> None:
    abbrev = table((1, CU, True, []), (2, SUBPROGRAM, False, [(LOW_PC, 0x01), (HIGH_PC, 0x01)]))
    low, high = uint(0xFFFFFFF0, address_size), uint(0xFFFFFFFF, address_size)
    body = unit(b"\x01\x02" + low + high + b"\0", version, dwarf64=dwarf64, address_size=address_size)
    found = read({".debug_info": GOOD + body + GOOD, ".debug_abbrev": abbrev[:0] + ABBREV})
    assert len(found.units) == 3
    start, end, die, *rest = found.units[1][:8]
    assert (start, end) == (len(GOOD), len(GOOD) + len(body))
    assert die == len(GOOD) + {True: 23, False: 11}[dwarf64] + (version == 5)
    assert rest[:3] == [version, address_size, 8 if dwarf64 else 4]
    alone = read({".debug_info": body, ".debug_abbrev": abbrev})
    assert [row[2:4] for row in alone.functions] == [(0xFFFFFFF0, 0xFFFFFFFF)]


BROKEN = [
    (u32(3) + b"\x05\0\1", 0, "runs past the end"),  # shorter than a header
    (u32(0x20) + uint(6, 2) + bytes(30), 0, "version is not 2, 3, 4 or 5"),
    (u32(0x20) + uint(1, 2) + bytes(30), 0, "version is not 2, 3, 4 or 5"),
    (unit(HEAD, unit_type=0), 0, "unit type is unknown"),
    (unit(HEAD, unit_type=7), 0, "unit type is unknown"),
    (unit(HEAD, unit_type=0x80), 0, "unit type is unknown"),
    (unit(HEAD, address_size=2), 0, "address size is not 4 or 8"),
    (unit(HEAD, 3, address_size=0), 0, "address size is not 4 or 8"),
    (unit(HEAD, abbrev=len(ABBREV)), 12, "abbreviation table cannot be read"),
    (unit(HEAD, abbrev=2**32 - 1), 12, "abbreviation table cannot be read"),
    (unit(HEAD, abbrev=2**64 - 1, dwarf64=True), 24, "abbreviation table cannot be read"),
    (unit(HEAD + b"\x7f"), 16, "abbreviation code is not in the table"),
    (unit(HEAD + uleb(2**64 - 1)), 25, "abbreviation code is not in the table"),
    (unit(HEAD + b"\xff" * 10 + b"\1"), 25, "runs past the end"),
    (unit(HEAD + b"\x02text"), 20, "runs past the end"),
    (unit(HEAD + function(b"f")[:-1]), 26, "runs past the end"),
    (unit(HEAD + function(b"f")), 27, "runs past the end"),  # the tree is not ended
    (unit(HEAD + b"\x04\x04\x04"), 18, "runs past the end"),
    (unit(HEAD + b"\x05" + u32(19) + b"\0\0"), 20, "DW_AT_sibling does not point forward within the unit"),
    (unit(HEAD + b"\x05" + u32(23) + b"\0\0"), 20, "DW_AT_sibling does not point forward within the unit"),
    (unit(HEAD + b"\x05" + u32(2**32 - 1) + b"\0\0"), 20, "DW_AT_sibling does not point forward within the unit"),
    (unit(HEAD + b"\x0cf\0" + u32(99) + u64(1) + b"\0"), 30, "reference is outside of the unit"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "where", "rule"), BROKEN)
def test_a_corrupt_unit_between_good_ones(body: bytes, where: int, rule: str) -> None:
    found = read({".debug_info": GOOD + body + GOOD, ".debug_abbrev": ABBREV})
    start = len(GOOD)
    assert found.errors == [f"a.out: .debug_info+{start + where:#x}: unit at {start:#x}: {rule}"]
    assert [row[0] for row in found.functions] == [15, 15 + len(GOOD) + len(body)]
    assert names(found.names()) == ["good", "good"]
    (error,) = found.debug.errors()
    assert isinstance(error, FormatError) and error.section == ".debug_info"


@pytest.mark.parametrize("length", [0xFFFFFFF0, 0xFFFFFFFE])
def test_reserved_lengths_end_the_walk(length: int) -> None:
    found = read({".debug_info": GOOD + u32(length) + GOOD, ".debug_abbrev": ABBREV})
    place = f"a.out: .debug_info+{len(GOOD):#x}: unit at {len(GOOD):#x}"
    assert found.errors == [f"{place}: unit length uses a reserved value"] and len(found.functions) == 1


@pytest.mark.parametrize("length", [len(GOOD) + 30, 0x7FFFFFFF, 0xFFFFFFEF])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_lengths_past_the_end(length: int, dwarf64: bool) -> None:
    head = b"\xff" * 4 + u64(length | 2**63) if dwarf64 else u32(length)
    found = read({".debug_info": GOOD + head + GOOD, ".debug_abbrev": ABBREV})
    place = f"a.out: .debug_info+{len(GOOD):#x}: unit at {len(GOOD):#x}"
    assert found.errors == [f"{place}: runs past the end"] and len(found.functions) == 1


def test_every_truncation_gives_the_units_before_it() -> None:
    body = GOOD + unit(HEAD + function(b"next", 0x2000) + b"\0", 4)
    for size_bytes in range(len(body)):
        found = read({".debug_info": body[:size_bytes], ".debug_abbrev": ABBREV})
        assert len(found.functions) == (size_bytes >= len(GOOD))
        assert len(found.errors) == (size_bytes not in (0, len(GOOD)))


def test_every_truncation_of_the_abbreviations() -> None:
    """An attribute's pair, a code or the end that is missing is an error of all units that use the table."""
    for size_bytes in range(len(ABBREV)):
        found = read({".debug_info": GOOD + GOOD, ".debug_abbrev": ABBREV[:size_bytes]})
        assert found.functions == [] and len(found.errors) == 2
        assert all(text.endswith("abbreviation table cannot be read") for text in found.errors)


def test_unterminated_numbers_in_abbreviations() -> None:
    for at in (b"", b"\x01", b"\x01\x2e\0", b"\x01\x2e\0\x03", b"\x01\x2e\0\x3b\x21"):
        for tail in (b"\xff" * 9 + b"\x02", b"\xff" * 20, b"\x80" * 11 + b"\1"):
            found = read({".debug_info": GOOD, ".debug_abbrev": at + tail + ABBREV})
            assert len(found.errors) == 1
    children = b"\x01\x2e\x02\0\0\0"
    assert len(read({".debug_info": GOOD, ".debug_abbrev": children}).errors) == 1


def test_endless_attributes_are_refused() -> None:
    """They may take no bytes of a DIE, and then a small unit would take forever."""
    attributes = [(0x3F, 0x19)] * 4000
    fine, endless = (table((1, SUBPROGRAM, False, [(LOW_PC, 0x01), *attributes * n])) for n in (1, 2))
    body = unit(b"\x01" + u64(5)) + unit(b"\x01" + u64(5), abbrev=len(fine))
    found = read({".debug_info": body, ".debug_abbrev": fine + endless})
    assert [row[5] for row in found.functions] == [0] and len(found.errors) == 1


def test_overlapping_abbreviation_tables_cost_no_more_than_their_size() -> None:
    one = table((1, SUBPROGRAM, False, [(0x3F, 0x19)] * 4000))
    image = image_of({".debug_info": b"".join(unit(b"", abbrev=3 + 2 * n) for n in range(4000)), ".debug_abbrev": one})
    debug = open_debug(image)
    assert len(debug.errors()) > 3900  # refused or not, it took no time


@pytest.mark.parametrize("codes", [[1, 2, 3], [3, 1, 2], [5, 900, 70000], [2**63 - 1, 2**63, 2**64 - 1], [2, 3, 4]])
def test_abbreviation_codes(codes: list[int]) -> None:
    """Sparse, not in order, as large as they get."""
    top, named, plain = codes
    abbrev = table(
        (plain, SUBPROGRAM, False, [(LOW_PC, 0x01)]),
        (top, CU, True, []),
        (named, SUBPROGRAM, False, [(LOW_PC, 0x01), (NAME, 0x08)]),
    )
    body = unit(uleb(top) + uleb(named) + u64(5) + b"f\0" + uleb(plain) + u64(6) + b"\0")
    found = read({".debug_info": body, ".debug_abbrev": abbrev})
    assert [row[2] for row in found.functions] == [5, 6] and names(found.names()) == ["f", ""]
    other = read({".debug_info": unit(uleb(top) + uleb(min(codes) ^ 7 or 9) + b"\0"), ".debug_abbrev": abbrev})
    assert [text.rpartition(": ")[2] for text in other.errors] == ["abbreviation code is not in the table"]


def test_padding_and_empty_units() -> None:
    """Zero bytes between and after units are skipped; a unit may have no DIE or a null one only."""
    empty, null = unit(b""), unit(b"\0")
    for pad in (b"", bytes(3), bytes(4), bytes(5), bytes(16), bytes(4096)):
        inner = pad[: len(pad) // 4 * 4]
        found = read({".debug_info": GOOD + inner + empty + inner + null + GOOD + pad, ".debug_abbrev": ABBREV})
        assert found.errors == [] and len(found.units) == 4 and len(found.functions) == 2
    after = read({".debug_info": unit(HEAD + function(b"good") + b"\0" + b"\xaa" * 9) + GOOD, ".debug_abbrev": ABBREV})
    assert after.errors == [] and len(after.functions) == 2


@pytest.mark.parametrize("count", [1023, 1024, 1025, 3000])
def test_many_units(count: int) -> None:
    """More than the first guess of the number; rows that are shorter than any unit, too."""
    found = open_debug(image_of({".debug_info": GOOD * count, ".debug_abbrev": ABBREV}))
    assert found.unit_count == count
    assert found.units[:, OFFSET].tolist() == list(range(0, count * len(GOOD), len(GOOD)))
    short = open_debug(image_of({".debug_info": (u32(1) + b"\0") * count + GOOD, ".debug_abbrev": ABBREV}))
    assert short.unit_count == count + 1 and len(short.errors()) == count


def nested(code: int, depth: int) -> bytes:
    return unit(HEAD + bytes([code]) * (depth - 1) + function(b"f") + bytes(depth))


def test_deep_nesting() -> None:
    """The tree may be as deep as the scan's stack; deeper is an error of that unit."""
    found = read({".debug_info": nested(4, 3000) + nested(6, 3000), ".debug_abbrev": ABBREV})
    assert found.errors == [] and len(found.functions) == 2
    for depth, errors in ((MAX_DEPTH, 0), (MAX_DEPTH + 1, 1)):
        body = nested(4, depth) + GOOD
        image = {".debug_info": body, ".debug_abbrev": ABBREV}
        found = read(image)
        assert len(found.functions) == 2 - errors and len(found.errors) == errors
        assert all(text.endswith("DIEs are nested too deep") for text in found.errors)


def test_siblings_are_followed_outside_of_functions() -> None:
    """A type at the top is stepped over, whatever is in it; in a function it may hold methods with code."""
    hidden, method = b"\x7f\xff\xff", function(b"method", 0x3000)
    at = 15
    skipped = b"\x05" + u32(at + 5 + len(hidden)) + hidden
    inner_at = at + len(skipped) + len(function(b"outer", code=3))
    inner = b"\x05" + u32(inner_at + 5 + len(method) + 1) + method + b"\0"
    body = unit(HEAD + skipped + function(b"outer", code=3) + inner + b"\0" + function(b"last") + b"\0")
    found = read({".debug_info": body, ".debug_abbrev": ABBREV})
    assert found.errors == [] and names(found.names()) == ["outer", "method", "last"]
    in_namespace = unit(HEAD + b"\x09n\0" + b"\x05" + u32(18 + 5 + 3) + hidden + function(b"f") + b"\0\0")
    found = read({".debug_info": in_namespace, ".debug_abbrev": ABBREV})
    assert found.errors == [] and names(found.names()) == ["f"]
    no_sibling = unit(HEAD + b"\x06" + function(b"f") + b"\0\0")
    assert names(read({".debug_info": no_sibling, ".debug_abbrev": ABBREV}).names()) == ["f"]


def site(pc: int, origin: int) -> bytes:
    return b"\x07" + u64(pc) + u32(origin)


def test_the_caller_is_the_function_around() -> None:
    """Through blocks and inlined functions; not that of an abstract instance, and not through a class."""
    start = 12
    callee = b"\x08callee\0\0"
    at = start + len(HEAD)
    body = HEAD + callee
    outer = start + len(body)
    body += function(b"outer", code=3) + site(1, at) + b"\x04" + site(2, at) + b"\x0b" + u32(at) + site(3, at) + b"\0\0"
    inner = start + len(body) + 1
    body += b"\x06" + function(b"inner", code=3) + site(4, at) + b"\0" + site(5, at) + b"\0" + site(6, at) + b"\0"
    body += b"\x08abstract\0" + site(7, at) + b"\x04" + site(8, at) + b"\0\0" + site(9, at) + b"\0"
    found = read({".debug_info": unit(body), ".debug_abbrev": ABBREV})
    assert found.errors == []
    callers = {pc: (caller, flags) for pc, _, caller, flags in found.sites}
    assert callers == {
        1: (outer, 0), 2: (outer, 0), 3: (outer, 0), 4: (inner, 0), 5: (0, 4), 6: (outer, 0),
        7: (0, 4), 8: (0, 4), 9: (0, 4),
    }  # fmt: skip


def test_kinds_of_call_sites() -> None:
    abbrev = table(
        (1, CU, True, []),
        (2, SUBPROGRAM, True, [(LOW_PC, 0x01)]),
        (3, CALL_SITE, False, [(RETURN_PC, 0x01), (CALL_ORIGIN, 0x13), (TAIL_CALL, 0x19)]),
        (4, CALL_SITE, False, [(CALL_PC, 0x01), (CALL_ORIGIN, 0x13), (TAIL_CALL, 0x0C)]),
        (5, CALL_SITE, False, [(RETURN_PC, 0x01), (CALL_PC, 0x01), (CALL_ORIGIN, 0x13)]),
        (6, CALL_SITE, False, [(RETURN_PC, 0x01)]),  # through a pointer
        (7, CALL_SITE, False, [(CALL_ORIGIN, 0x13)]),  # nowhere
        (8, 0x4109, False, [(LOW_PC, 0x01), (ORIGIN, 0x13), (0x2115, 0x19)]),  # GNU_call_site, GNU_tail_call
    )
    body = b"\x01\x02" + u64(7) + b"\x03" + u64(1) + u32(13) + b"\x04" + u64(2) + u32(13) + b"\1"
    body += b"\x05" + u64(3) + u64(99) + u32(13) + b"\x06" + u64(4) + b"\x07" + u32(13) + b"\x08" + u64(5) + u32(13)
    found = read({".debug_info": unit(body + b"\0\0"), ".debug_abbrev": abbrev})
    assert found.errors == []
    assert found.sites == [(1, 13, 13, 1), (2, 13, 13, 3), (3, 13, 13, 0), (5, 13, 13, 1)]


def test_dies_of_every_kind_keep_their_rows() -> None:
    """DIEs that are no subprograms have a name at most, and do not disturb the rows of the others."""
    body = unit(HEAD + b"\x0ds\0" + b"\x0av\0\x63" + b"\x09n\0" + function(b"f") + b"\0\0")
    offsets = [12, 15, 18, 22, 25]
    found = read({".debug_info": body, ".debug_abbrev": ABBREV}, more=[*offsets, 0, 13, 2**64 - 1, len(body)])
    assert [row[0] for row in found.dies] == [0, *sorted([*offsets, 13]), 0, 0]
    by_offset = {row[0]: row for row in found.dies[1:-2]}
    string = found.debug.string
    assert [string(by_offset[at][7]) for at in offsets] == [b"u", b"s", b"", b"", b"f"]
    assert [by_offset[at][12] for at in offsets] == [CU, STRUCTURE, VARIABLE, NAMESPACE, SUBPROGRAM]
    assert [row[4] & 128 for row in found.dies] == [128, 0, 128, 0, 0, 0, 0, 128, 128]
    shuffled = np.array(random.Random(3).choices(offsets, k=200), np.uint64)
    assert read_dies(found.debug, shuffled).offset.tolist() == shuffled.tolist()


def test_entry_points_and_functions_without_end() -> None:
    abbrev = table((1, CU, True, []), (2, ENTRY_POINT, False, [(LOW_PC, 0x01)]), (3, PARTIAL, False, []))
    found = read({".debug_info": unit(b"\x01\x02" + u64(7) + b"\0") + unit(b"\x03"), ".debug_abbrev": abbrev})
    assert found.errors == [] and [row[2:4] for row in found.functions] == [(7, 7)]


def test_type_units_hold_no_code_but_names() -> None:
    """They have bases of their own, for the names of what other units refer to."""
    abbrev = table(
        (1, TU, True, [(STR_BASE, 0x17)]), (2, SUBPROGRAM, False, [(NAME, 0x25), (LOW_PC, 0x01)]),
        (3, CU, True, []), (4, SUBPROGRAM, False, [(LOW_PC, 0x01), (ORIGIN, 0x10)]),
    )  # fmt: skip
    types = unit(b"\x01" + u32(12) + b"\x02\0" + u64(9) + b"\0", unit_type=2, extra=u64(0x1234) + u32(24))
    user = unit(b"\x03\x04" + u64(5) + u32(29) + b"\0")
    strings = {".debug_str": b"zero\0one\0", ".debug_str_offsets": bytes(12) + u32(5)}
    found = read({".debug_info": types + user, ".debug_abbrev": abbrev, **strings})
    assert found.errors == [] and [row[2] for row in found.functions] == [5]
    assert names(found.names()) == ["one"]
    assert found.debug.string(int(one_die(found.debug, 29).name[0])) == b"one"


def test_skeletons() -> None:
    abbrev = table((1, SKELETON, False, [(0x76, 0x08), (STMT_LIST, 0x17)]), (2, CU, False, [(0x2130, 0x08)]))
    new = unit(b"\x01a.dwo\0" + u32(3), unit_type=4, extra=u64(1))
    old = unit(b"\x02b.dwo\0", 4)
    found = read({".debug_info": new + old, ".debug_abbrev": abbrev})
    assert found.debug.missing == ["a.dwo: not found", "b.dwo: not found"]
    assert [found.debug.string(row[18]) for row in found.units] == [b"a.dwo", b"b.dwo"]


def test_chains_of_origins_end() -> None:
    """In a circle, at themselves, or at what cannot be read."""
    at = 15
    size_bytes = len(b"\x0cf\0" + u32(0) + u64(1))
    body = HEAD
    for name, origin in ((b"a", 1), (b"b", 0), (b"c", 2)):  # two in a circle, one at itself
        body += b"\x0c" + name + b"\0" + u32(at + origin * size_bytes) + u64(1)
    body += b"\x0cd\0" + u32(3) + u64(1)  # into the header
    found = read({".debug_info": unit(body + b"\0"), ".debug_abbrev": ABBREV})
    assert found.errors == [] and names(found.names()) == ["a", "b", "c", "d"]


LISTS_5 = [
    (b"", []),  # cut short
    (b"\0", []),
    (b"\x01\x01" + b"\x04\x01\x05" + b"\0", [(0x2001, 0x2005)]),  # base_addressx, offset_pair
    (b"\x02\x00\x01" + b"\0", [(0x1000, 0x2000)]),  # startx_endx
    (b"\x03\x01\x80\x01" + b"\0", [(0x2000, 0x2080)]),  # startx_length
    (b"\x04\x00\x04" + b"\0", [(0x500, 0x504)]),  # offset_pair from the unit's address
    (b"\x05" + u64(0x7000) + b"\x04\x01\x02" + b"\0", [(0x7001, 0x7002)]),  # base_address
    (b"\x06" + u64(0x10) + u64(0x20) + b"\0", [(0x10, 0x20)]),  # start_end
    (b"\x07" + u64(0x10) + b"\x08" + b"\0", [(0x10, 0x18)]),  # start_length
    (b"\x07" + u64(0x10) + b"\x08" + b"\x09", [(0x10, 0x18)]),  # and a kind that does not exist
    (b"\x06" + u64(0x20) + u64(0x20) + b"\x06" + u64(0x21) + u64(0x20) + b"\x07" + u64(1) + b"\0\0", []),  # empty
    (b"\x07" + u64(2**64 - 8) + b"\x10" + b"\0", []),  # over the end of the addresses
    (b"\x05" + u64(2**64 - 8) + b"\x04\x01\x05" + b"\0", [(2**64 - 7, 2**64 - 3)]),
    (b"\x03\x02\x08" + b"\0", []), (b"\x02\x00\x02\0", []), (b"\x01\x02\x04\x00\x01\0", []),  # not in .debug_addr
    (b"\x03" + uleb(2**63 - 1) + b"\x08\0", []), (b"\x03" + uleb(2**64 - 1) + b"\x08\0", []),
    (b"\x07" + u64(1), []), (b"\x07" + u64(1)[:-1], []), (b"\x06" + u64(1) + u64(2)[:-1], []), (b"\x04\xff", []),
]  # fmt: skip


@pytest.mark.parametrize(("lists", "expected"), LISTS_5)
def test_range_lists_of_version_5(lists: bytes, expected: list[tuple[int, int]]) -> None:
    abbrev = table(
        (1, CU, True, [(LOW_PC, 0x01), (ADDR_BASE, 0x17), (RNGLISTS_BASE, 0x17)]),
        (2, SUBPROGRAM, False, [(RANGES, 0x17)]), (3, SUBPROGRAM, False, [(RANGES, 0x23)]),
        (4, SUBPROGRAM, False, [(LOW_PC, 0x01), (RANGES, 0x23)]),
    )  # fmt: skip
    body = unit(b"\x01" + u64(0x500) + u32(8) + u32(12) + b"\x02" + u32(16) + b"\x03\0" + b"\x04" + u64(9) + b"\0\0")
    sections = {
        ".debug_info": body,
        ".debug_abbrev": abbrev,
        ".debug_addr": bytes(8) + u64(0x1000) + u64(0x2000),
        ".debug_rnglists": bytes(12) + u32(4) + lists,
    }
    found = read(sections)
    assert found.errors == [] and [row[2:4] for row in found.functions] == 3 * expected


ONES = 2**64 - 1
LISTS_4 = [
    ([], []), ([(0, 0)], []), ([(1, 2), (0, 0), (3, 4)], [(0x501, 0x502)]),
    ([(ONES, 0x7000), (0, 5), (ONES, 0), (1, 2), (0, 0)], [(0x7000, 0x7005), (1, 2)]),
    ([(1, 1), (2, 1), (5, 6), (0, 0)], [(0x505, 0x506)]),
    ([(ONES, ONES - 7), (1, 3), (0, 0)], [(ONES - 6, ONES - 4)]),
    ([(ONES, ONES), (1, 3), (0, 0)], [(0, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "expected"), LISTS_4)
@pytest.mark.parametrize("cut", [0, 1])
def test_range_lists_of_version_4(pairs: list[tuple[int, int]], expected: list[tuple[int, int]], cut: int) -> None:
    abbrev = table((1, CU, True, [(LOW_PC, 0x01)]), (2, SUBPROGRAM, False, [(RANGES, 0x17)]))
    body = unit(b"\x01" + u64(0x500) + b"\x02" + u32(8) + b"\x02" + u32(2**32 - 1) + b"\0", 4)
    ranges = bytes(8) + b"".join(u64(low) + u64(high) for low, high in pairs)
    found = read({".debug_info": body, ".debug_abbrev": abbrev, ".debug_ranges": ranges[: len(ranges) - cut]})
    assert found.errors == []
    assert [row[2:4] for row in found.functions] == expected
    assert [row[1] for row in found.functions] == list(range(len(expected)))


def test_shared_range_lists_cost_no_more_than_their_size() -> None:
    abbrev = table((1, CU, True, []), (2, SUBPROGRAM, False, [(RANGES, 0x17)]))
    count = 20_000
    body = unit(b"\x01" + (b"\x02" + u32(0)) * count + b"\0", 4)
    ranges = (u64(5) + u64(5)) * count + u64(1) + u64(2) + bytes(16)
    image = image_of({".debug_info": body, ".debug_abbrev": abbrev, ".debug_ranges": ranges})
    from icf.dwarf.scan import scan_functions

    assert len(scan_functions(open_debug(image), 1).functions.die) <= count


def test_functions_and_sites_that_do_not_fit_the_first_buffers() -> None:
    """One unit with more rows than there is room for, and one after it."""
    from icf.dwarf.scan import scan_functions

    many = unit(HEAD + (function(b"f", code=3) + site(5, 15) * 3 + b"\0") * 40_000 + b"\0")
    image = image_of({".debug_info": GOOD + many + GOOD, ".debug_abbrev": ABBREV})
    for threads in (1, 2):
        scan = scan_functions(open_debug(image), threads)
        assert len(scan.functions.die) == 40_002 and len(scan.sites.pc) == 120_000
        assert np.array_equal(scan.sites.caller, np.repeat(scan.functions.die[1:-1], 3))


def test_signed_numbers_in_skipped_attributes() -> None:
    abbrev = table((1, SUBPROGRAM, False, [(0x2345, 0x0D), (LOW_PC, 0x01), (DECL_LINE, 0x0D)]))
    for value in (0, -1, 63, -64, 2**63 - 1, -(2**63)):
        body = unit(b"\x01" + sleb(value) + u64(5) + sleb(value))
        found = read({".debug_info": body, ".debug_abbrev": abbrev})
        assert found.errors == [] and found.dies[0][9] == value % 2**64
