"""The call sites of single functions: their order, and the scopes they hang in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.dwarf.sites import read_sites
from icf.dwarf.units import DebugInfo
from tests.support.dwarf_units import (
    CALL_ORIGIN,
    CALL_PC,
    CALL_SITE,
    CU,
    INLINED,
    LOW_PC,
    RETURN_PC,
    STRUCTURE,
    SUBPROGRAM,
    TAIL_CALL,
    image_of,
    table,
    u32,
    u64,
    uncompiled_kernels,
    unit,
)

DECLARATIONS = table(
    (1, CU, True, []),
    (2, SUBPROGRAM, True, [(LOW_PC, 0x01)]),
    (3, INLINED, True, []),
    (4, CALL_SITE, False, [(RETURN_PC, 0x01), (CALL_ORIGIN, 0x13)]),
    (5, CALL_SITE, True, [(CALL_PC, 0x01), (CALL_ORIGIN, 0x13), (TAIL_CALL, 0x19)]),
    (6, STRUCTURE, True, []),
    (7, CALL_SITE, False, [(RETURN_PC, 0x01)]),  # of an indirect call
)
END = b"\0"


class Site(NamedTuple):
    pc: int
    origin: int
    scope: int
    is_tail_call: bool
    at_instruction: bool


def function(low_pc: int, *children: bytes) -> bytes:
    return b"\x02" + u64(low_pc) + b"".join(children) + END


def inlined(*children: bytes) -> bytes:
    return b"\x03" + b"".join(children) + END


def site(return_pc: int, origin: int) -> bytes:
    return b"\x04" + u64(return_pc) + u32(origin)


def tail_site(call_pc: int, origin: int) -> bytes:
    return b"\x05" + u64(call_pc) + u32(origin) + END


def read(*functions: bytes, dies: list[int] | None = None) -> dict[int, list[Site]]:
    """By both builds of the kernel; of all functions with code if `dies` are not given."""
    image = image_of({".debug_info": unit(b"\x01" + b"".join(functions) + END), ".debug_abbrev": DECLARATIONS})
    debug = open_debug(image)
    wanted = scan_functions(debug, 1).functions.die if dies is None else np.array(dies, np.uint64)
    found = by_function(debug, wanted)
    with uncompiled_kernels():
        assert by_function(open_debug(image), wanted) == found
    assert debug.errors() == []
    return found


def by_function(debug: DebugInfo, dies: U64) -> dict[int, list[Site]]:
    die, start, *columns = read_sites(debug, dies)
    sites = [Site(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return {each: sites[start[at] : start[at + 1]] for at, each in enumerate(die.tolist())}


def test_sites_come_in_the_order_of_their_dies_and_know_their_scope() -> None:
    (sites,) = read(
        function(
            0x1000, inlined(site(0x1020, 0xC), site(0x1040, 0xD)), site(0x1010, 0xE), inlined(tail_site(0x1060, 0xF))
        )
    ).values()
    assert [(each.pc, each.origin) for each in sites] == [(0x1020, 0xC), (0x1040, 0xD), (0x1010, 0xE), (0x1060, 0xF)]
    first, second, own, last = (each.scope for each in sites)
    assert first == second and len({first, own, last}) == 3
    assert [(each.is_tail_call, each.at_instruction) for each in sites] == 3 * [(False, False)] + [(True, True)]


def test_addresses_that_the_linker_overwrote_are_no_reason_to_leave_a_site_out() -> None:
    (sites,) = read(function(0, site(0, 0xC), tail_site(0, 0xD))).values()
    assert [each.origin for each in sites] == [0xC, 0xD]


def test_a_site_without_a_callee_is_left_out() -> None:
    (sites,) = read(function(0x1000, b"\x07" + u64(0x1005), site(0x100A, 0xC))).values()
    assert [each.pc for each in sites] == [0x100A]


def test_methods_inside_of_a_function_have_their_own_sites_once() -> None:
    method = function(0x2000, site(0x2005, 0xD))
    found = read(function(0x1000, b"\x06" + method + END, site(0x1005, 0xC)))
    assert [[each.pc for each in sites] for sites in found.values()] == [[0x1005], [0x2005]]
    outer = min(found)
    assert [each.pc for each in read(function(0x1000, b"\x06" + method + END), dies=[outer])[outer]] == []


def test_only_the_asked_functions_are_read() -> None:
    first, second = function(0x1000, site(0x1005, 0xC)), function(0x2000, site(0x2005, 0xD))
    die = 0x0D + len(first)
    assert read(first, second, dies=[die]) == {die: [Site(0x2005, 0xD, 0, False, False)]}
    assert read(first, second, dies=[]) == {}
    assert read(first, second, dies=[0xFFFF_FFFF_FFFF]) == {}  # in no unit


def test_more_sites_than_the_first_arrays_hold() -> None:
    many = [function(0x1000 + idx, *(site(pc, 0xC) for pc in range(3000))) for idx in range(3)]
    found = read(*many, *(function(idx) for idx in range(2000)))
    assert [len(sites) for sites in found.values()] == [3000, 3000, 3000] + 2000 * [0]
    assert all([each.pc for each in found[die]] == list(range(3000)) for die in sorted(found)[:3])


def test_a_function_that_ends_early_has_no_sites_and_its_unit_stays_as_it_is() -> None:
    cut = b"\x02" + u64(0x1000) + site(0x1005, 0xC)  # neither the function nor the unit's DIE is closed
    image = image_of({".debug_info": unit(b"\x01" + cut), ".debug_abbrev": DECLARATIONS})
    debug = open_debug(image)
    assert by_function(debug, np.array([0x0D], np.uint64)) == {0x0D: []}
    assert not np.any(debug.units[:, 8])
