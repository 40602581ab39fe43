"""Every form of DWARF 2 to 5 and of the GNU extensions, read and skipped, by both builds of the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from icf.dwarf.columns import NAME as UNIT_NAME
from tests.support.dwarf_units import (
    ADDR_BASE,
    CALL_ORIGIN,
    CALL_SITE,
    CU,
    DECL_FILE,
    DECL_LINE,
    DECLARATION,
    EDGES,
    EXTERNAL,
    HIGH_PC,
    LINKAGE_NAME,
    LOW_PC,
    NAME,
    ORIGIN,
    RANGES,
    RETURN_PC,
    RNGLISTS_BASE,
    SPECIFICATION,
    STR_BASE,
    SUBPROGRAM,
    Reading,
    one_die,
    read,
    table,
    u32,
    u64,
    uint,
    unit,
)
from tests.support.line_tables import sleb, uleb

UNITS = [
    pytest.param(version, dwarf64, address_size, id=f"v{version}-{64 if dwarf64 else 32}-addr{address_size}")
    for version in (2, 3, 4, 5)
    for dwarf64 in (False, True)
    for address_size in (4, 8)
]


def values(version: int, dwarf64: bool, address_size: int) -> list[tuple[int, bytes]]:
    """A value in each form: (form, bytes)."""
    offset = bytes(range(8 if dwarf64 else 4))
    return [
        (0x01, bytes(address_size)),  # addr
        (0x03, b"\x03\0abc"),  # block2
        (0x04, b"\x02\0\0\0ab"),  # block4
        (0x05, b"ab"), (0x06, b"abcd"), (0x07, b"abcdefgh"),  # data2, data4, data8
        (0x08, b"text\0"),  # string
        (0x09, b"\x83\0abc"),  # block, its length in two bytes
        (0x0A, b"\x04abcd"),  # block1
        (0x0B, b"a"), (0x0C, b"\1"),  # data1, flag
        (0x0D, b"\xff\x80\x7f"), (0x0F, b"\x80" * 9 + b"\1"),  # sdata, udata
        (0x0E, offset),  # strp
        (0x10, bytes(address_size) if version == 2 else offset),  # ref_addr
        (0x11, b"a"), (0x12, b"ab"), (0x13, b"abcd"), (0x14, b"abcdefgh"), (0x15, b"\xff\x01"),  # ref1, 2, 4, 8, udata
        (0x17, offset),  # sec_offset
        (0x18, b"\x01\x9c"),  # exprloc
        (0x19, b""),  # flag_present
        (0x1A, b"\x81\1"), (0x1B, b"\x82\1"),  # strx, addrx
        (0x1C, b"abcd"), (0x1D, offset),  # ref_sup4, strp_sup
        (0x1E, bytes(16)),  # data16
        (0x1F, offset),  # line_strp
        (0x20, b"signatur"),  # ref_sig8
        (0x22, b"\x01"), (0x23, b"\x80\x02"),  # loclistx, rnglistx
        (0x24, b"abcdefgh"),  # ref_sup8
        (0x25, b"a"), (0x26, b"ab"), (0x27, b"abc"), (0x28, b"abcd"),  # strx1 to 4
        (0x29, b"a"), (0x2A, b"ab"), (0x2B, b"abc"), (0x2C, b"abcd"),  # addrx1 to 4
        (0x1F01, b"\x81\1"), (0x1F02, b"\x82\1"),  # GNU_addr_index, GNU_str_index
        (0x1F20, offset), (0x1F21, offset),  # GNU_ref_alt, GNU_strp_alt
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "dwarf64", "address_size"), UNITS)
def test_each_form_is_skipped(version: int, dwarf64: bool, address_size: int) -> None:
    """In between of two attributes that are read, by itself and through DW_FORM_indirect."""
    declarations: list[tuple[int, int, bool, list[tuple[int, ...]]]] = [(1, CU, True, [])]
    dies, names = b"\x01", []
    for form, data in values(version, dwarf64, address_size):
        for indirect in (False, True):
            if indirect and form >= 64:
                continue
            code = len(declarations) + 1
            odd = (0x2345, 0x16 if indirect else form)  # an attribute nobody asks for
            declarations.append((code, SUBPROGRAM, False, [(NAME, 0x08), odd, odd, (LOW_PC, 0x01)]))
            names.append(b"f%x-%d" % (form, indirect))
            dies += uleb(code) + names[-1] + b"\0" + 2 * ((uleb(form) if indirect else b"") + data)
            dies += uint(code, address_size)
    dies += b"\0"
    body = unit(dies, version, dwarf64=dwarf64, address_size=address_size)
    found = read({".debug_info": body, ".debug_abbrev": table(*declarations)})
    assert found.errors == []
    assert found.names() == names
    assert [low for _, _, low, *_ in found.functions] == list(range(2, len(declarations) + 1))


def one_function(attributes: Sequence[tuple[int, ...]], data: bytes, **sections: bytes) -> Reading:
    """A unit of one function with code at 0x1000 that has these attributes besides."""
    declarations = table((1, CU, True, []), (2, SUBPROGRAM, False, [(LOW_PC, 0x01), *attributes]))
    body = unit(b"\x01\x02" + u64(0x1000) + data + b"\0")
    return read({".debug_info": body, ".debug_abbrev": declarations, **{f".{k}": v for k, v in sections.items()}})


CONSTANTS = [
    *[(0x0B, uint(value, 1), value) for value in (0, 0x7F, 0x80, 0xFF)],
    *[(0x05, uint(value, 2), value) for value in (0, 0x8000, 0xFFFF)],
    *[(0x06, uint(value, 4), value) for value in (2**31, 2**32 - 1)],
    *[(0x07, u64(value), value) for value in EDGES],
    *[(0x0F, uleb(value), value) for value in EDGES],
    *[(0x0D, sleb(value), value % 2**64) for value in (0, 63, 64, -1, -64, -65, 2**56 + 3, 2**63 - 1, -(2**63))],
    (0x0F, b"\x85\x80\x80\0", 5),  # padded
    (0x0D, b"\xff\x80\x80\0", 127),
    (0x0D, b"\xff\xff\x7f", 2**64 - 1),
    (0x0C, b"\x07", 7),  # flag
    (0x19, b"", 1),  # flag_present
]


@pytest.mark.parametrize(("form", "data", "value"), CONSTANTS)
def test_constants(form: int, data: bytes, value: int) -> None:
    for attributes, prefix in ([(DECL_LINE, form)], b""), ([(DECL_LINE, 0x16)], uleb(form)):
        found = one_function([*attributes, (NAME, 0x08)], prefix + data + b"f\0")
        assert found.errors == [] and found.names() == [b"f"]
        assert one_die(found.debug, found.functions[0][0]).decl_line.tolist() == [value]
    high = one_function([(HIGH_PC, form)], data)
    assert high.functions[0][3] == (0x1000 + value) % 2**64


@pytest.mark.parametrize("value", [0, 1, 63, 64, -1, -64, -65, 2**31, -(2**31), 2**56 + 3, 2**63 - 1, -(2**63)])
def test_implicit_constants(value: int) -> None:
    found = one_function([(DECL_LINE, 0x21, value), (0x2345, 0x21, 99), (DECL_FILE, 0x21, 7), (NAME, 0x08)], b"f\0")
    die = one_die(found.debug, found.functions[0][0])
    assert (int(die.decl_line[0]), int(die.decl_file[0])) == (value % 2**64, 7) and found.names() == [b"f"]


def test_implicit_constants_belong_to_their_table() -> None:
    """Their indices are relative to it, so that no number of tables is too large for the words of a program."""
    tables = [table((1, SUBPROGRAM, False, [(LOW_PC, 0x01), (DECL_LINE, 0x21, line)])) for line in range(40)]
    at = [sum(map(len, tables[:number])) for number in range(40)]
    body = b"".join(unit(b"\x01" + u64(0x1000), abbrev=offset) for offset in reversed(at))
    found = read({".debug_info": body, ".debug_abbrev": b"".join(tables)})
    assert [die[9] for die in found.dies] == list(reversed(range(40)))


STRINGS = {
    "debug_str": b"zero\0one\0two\0",
    "debug_line_str": b"other\0line\0",
    "debug_str_offsets": b"\x10\0\0\0\x05\0\0\0" + u32(9) + u32(5),
}


@pytest.mark.parametrize(
    ("form", "data", "name"),
    [
        (0x08, b"here\0", b"here"),  # string
        (0x0E, u32(5), b"one"), (0x0E, u32(7), b"e"), (0x0E, u32(13), b""), (0x0E, u32(2**32 - 1), b""),  # strp
        (0x1F, u32(6), b"line"),  # line_strp
        (0x1A, b"\1", b"one"), (0x1A, b"\x82\0", b""), (0x1A, b"\xff" * 9 + b"\1", b""),  # strx
        (0x1F02, b"\0", b"two"),  # GNU_str_index
        (0x25, b"\1", b"one"), (0x26, b"\1\0", b"one"), (0x27, b"\1\0\0", b"one"), (0x28, b"\1\0\0\0", b"one"),
        (0x28, b"\xff\xff\xff\xff", b""),
        (0x1F21, u32(5), b""), (0x1D, u32(5), b""),  # in a supplementary file
    ],
)  # fmt: skip
def test_strings(form: int, data: bytes, name: bytes) -> None:
    for attribute in (NAME, LINKAGE_NAME):
        found = one_function([(attribute, form), (DECL_LINE, 0x0B)], data + b"\x07", **STRINGS)
        assert found.debug.string(found.identities[0][attribute != NAME]) == name
        assert found.dies[0][9] == 7


@pytest.mark.parametrize(
    ("form", "data"),
    [(0x01, u64(0x5000)), (0x1B, b"\1"), (0x29, b"\1"), (0x2A, b"\1\0"), (0x2B, b"\1\0\0"), (0x2C, b"\1\0\0\0"),
     (0x1F01, b"\x81\0")],
)  # fmt: skip
def test_addresses(form: int, data: bytes) -> None:
    declarations = table((1, CU, True, [(ADDR_BASE, 0x17)]), (2, SUBPROGRAM, False, [(LOW_PC, form), (HIGH_PC, form)]))
    body = unit(b"\x01" + u32(16) + b"\x02" + 2 * data + b"\0")
    addr = bytes(16) + u64(0x4000) + u64(0x5000)
    found = read({".debug_info": body, ".debug_abbrev": declarations, ".debug_addr": addr})
    assert found.errors == [] and found.functions[0][2:4] == (0x5000, 0x5000)


@pytest.mark.parametrize("dwarf64", [False, True])
def test_bases_that_are_not_said_are_after_the_header(dwarf64: bool) -> None:
    """Of the first contribution: as in a program of one unit."""
    size_bytes = 8 if dwarf64 else 4
    head = 16 if dwarf64 else 8
    lists = 20 if dwarf64 else 12
    declarations = table(
        (1, CU, True, [(NAME, 0x25)]), (2, SUBPROGRAM, False, [(LOW_PC, 0x29), (HIGH_PC, 0x0B), (NAME, 0x25)]),
        (3, SUBPROGRAM, False, [(RANGES, 0x23)]),
    )  # fmt: skip
    sections = {
        ".debug_info": unit(b"\x01\0" + b"\x02\0\x09\x01" + b"\x03\0" + b"\0", dwarf64=dwarf64),
        ".debug_abbrev": declarations,
        ".debug_str": b"unit\0name\0",
        ".debug_str_offsets": bytes(head) + uint(0, size_bytes) + uint(5, size_bytes),
        ".debug_addr": bytes(head) + u64(0x1000),
        ".debug_rnglists": bytes(lists) + uint(size_bytes, size_bytes) + b"\x06" + u64(1) + u64(2) + b"\0",
    }
    found = read(sections)
    assert found.debug.string(found.units[0][UNIT_NAME]) == b"unit"
    assert [row[1:4] for row in found.functions] == [(0, 0x1000, 0x1009), (0, 1, 2)]
    assert found.names()[0] == b"name"


@pytest.mark.parametrize(
    ("form", "data"),
    [(0x11, b"\x0d"), (0x12, b"\x0d\0"), (0x13, u32(0x0D)), (0x14, u64(0x0D)), (0x15, b"\x8d\0"), (0x10, u32(0x0D))],
)
@pytest.mark.parametrize("attribute", [ORIGIN, SPECIFICATION])
def test_references(form: int, data: bytes, attribute: int) -> None:
    declarations = table(
        (1, CU, True, []),
        (2, SUBPROGRAM, False, [(NAME, 0x08), (EXTERNAL, 0x19), (DECL_LINE, 0x0B), (DECL_FILE, 0x0B)]),
        (3, SUBPROGRAM, True, [(LOW_PC, 0x01), (attribute, form)]),
        (4, CALL_SITE, False, [(RETURN_PC, 0x01), (CALL_ORIGIN, form)]),
    )
    body = unit(b"\x01" + b"\x02f\0\x05\x06" + b"\x03" + u64(0x1000) + data + b"\x04" + u64(0x1005) + data + b"\0\0")
    found = read({".debug_info": body, ".debug_abbrev": declarations})
    assert found.errors == []
    assert found.functions == [(0x12, 0, 0x1000, 0x1000, 0x0D, 0)]
    assert found.sites == [(0x1005, 0x0D, 0x12, 0)]
    name, linkage, external, root, declared, line, file = found.identities[1][:7]
    assert found.debug.string(name) == b"f" and linkage == 0 and external
    assert (root, declared, line, file) == (0x0D, 0x0D, 5, 6)


@pytest.mark.parametrize(("form", "data"), [(0x20, u64(13)), (0x1C, u32(13)), (0x1F20, u32(13)), (0x24, u64(13))])
def test_references_into_other_files_are_none(form: int, data: bytes) -> None:
    found = one_function([(ORIGIN, form), (NAME, 0x08)], data + b"f\0")
    assert found.errors == [] and found.functions[0][4] == 0 and found.names() == [b"f"]


def test_reference_width_of_version_2_is_that_of_an_address() -> None:
    declarations = table((1, CU, True, []), (2, SUBPROGRAM, False, [(LOW_PC, 0x01), (ORIGIN, 0x10), (NAME, 0x08)]))
    by_version = {2: (4, 8), 3: (8, 4)}
    for version, (with_dwarf64, with_address8) in by_version.items():
        dwarf64 = unit(b"\x01\x02" + u32(1) + uint(1, with_dwarf64) + b"f\0\0", version, dwarf64=True, address_size=4)
        address8 = unit(b"\x01\x02" + u64(1) + uint(1, with_address8) + b"g\0\0", version, address_size=8)
        found = read({".debug_info": dwarf64 + address8, ".debug_abbrev": declarations})
        assert found.errors == [] and [row[4] for row in found.functions] == [1, 1]
        assert found.names() == [b"f", b"g"]


@pytest.mark.parametrize("value", EDGES)
def test_edges_of_bases_indices_and_references(value: int) -> None:
    """Nothing wraps: what does not lie in its table is an error of the unit, or no string."""
    wide = [(2, SUBPROGRAM, False, [(LOW_PC, 0x1B), (NAME, 0x1A), (RANGES, 0x23)])]
    for base, index in ((value, 0), (value, 1), (8, value), (-8 * value % 2**64, value)):
        declarations = table((1, CU, True, [(base, 0x07) for base in (ADDR_BASE, STR_BASE, RNGLISTS_BASE)]), *wide)
        good = unit(b"\x01" + 3 * u64(8) + b"\x02" + 3 * b"\0" + b"\0")
        odd = unit(b"\x01" + 3 * u64(base) + b"\x02" + 3 * uleb(index) + b"\0")
        sections = {
            ".debug_info": good + odd + good,
            ".debug_abbrev": declarations,
            ".debug_str": b"zero\0one\0",
            ".debug_str_offsets": bytes(8) + u32(5) + u32(0),
            ".debug_addr": bytes(8) + u64(0x1000) + u64(value),
            ".debug_rnglists": bytes(8) + u32(4) + b"\x02\0\1" + b"\x03\1" + uleb(value % 2**63) + b"\0",
        }
        found = read(sections)
        fits = base + 8 * index <= 16
        assert len(found.errors) == (0 if fits else 1)
        assert {row[5] for row in found.functions} >= ({0, 2} if value else set())
        for text in found.errors:
            assert text.endswith("address index is outside of .debug_addr")


@pytest.mark.parametrize("value", EDGES)
@pytest.mark.parametrize("form", [0x10, 0x14])
def test_edges_of_references(value: int, form: int) -> None:
    declarations = table((1, CU, True, []), (2, SUBPROGRAM, False, [(LOW_PC, 0x01), (ORIGIN, form)]))
    first = unit(b"\x01\0", dwarf64=True)
    body = unit(b"\x01\x02" + u64(8) + u64(value) + b"\0", dwarf64=True)
    found = read({".debug_info": first + body, ".debug_abbrev": declarations})
    start = 0 if form == 0x10 else len(first)
    inside = value < (len(first) + len(body) if form == 0x10 else len(body))
    assert found.functions == ([(len(first) + 25, 0, 8, 8, start + value, 1)] if inside else [])
    place = f"unit at {len(first):#x}: reference is outside of the unit"
    assert found.errors == ([] if inside else [f"a.out: .debug_info+{len(first) + len(body) - 1:#x}: {place}"])


def test_forms_that_do_not_exist() -> None:
    """In a table it cannot be stepped over; the other table and what uses it are read."""
    bad = table((1, CU, False, [(NAME, 0x02)]))
    good = table((1, SUBPROGRAM, False, [(LOW_PC, 0x16)]))
    units = [unit(b"\x01x"), unit(b"\x01\x01" + u64(5), abbrev=len(bad))]
    for form in (0x02, 0x16, 0x21, 0x2D, 0x3F, 0x40, 0x1F01, 2**21 - 1, 2**30):
        units.append(unit(b"\x01" + uleb(form) + u64(5), abbrev=len(bad)))
    found = read({".debug_info": b"".join(units), ".debug_abbrev": bad + good})
    assert found.functions == [(len(units[0]) + 12, 0, 5, 5, 0, 1)]
    texts = [text.rpartition(": ")[2] for text in found.errors]
    assert texts[0] == "abbreviation table cannot be read"
    assert texts[1:-1] == ["form is unknown"] * (len(units) - 3)


def test_flags_of_a_die() -> None:
    attributes = [(DECLARATION, 0x0C), (EXTERNAL, 0x0C), (0x20, 0x0B), (0x34, 0x0C)]
    for bits in range(16):
        data = bytes(bits >> number & 1 for number in range(4))
        found = one_function(attributes, data)
        assert found.dies[0][4] == 1 | bits << 3
