"""Instructions whose operands are relocated: which are direct calls and jumps, and where they lead."""

from __future__ import annotations

import pytest

from icf.elf.types import Machine
from linkpass.pe.branch_sites import Site, branch_at, call_target, target_of

ARM, X86 = Machine.AARCH64, Machine.X86_64
BRANCH26, BRANCH19, BRANCH14 = 3, 15, 16


@pytest.mark.parametrize(
    ("word", "kind", "site"),
    [
        (0x94000003, BRANCH26, Site(0, 4, True, 12)),  # bl +12
        (0x97FFFFFF, BRANCH26, Site(0, 4, True, -4)),  # bl -4
        (0x14000002, BRANCH26, Site(0, 4, False, 8)),  # b +8
        (0x54000041, BRANCH19, Site(0, 4, False, 8)),  # b.ne +8
        (0xB5FFFFE0, BRANCH19, Site(0, 4, False, -4)),  # cbnz x0, -4
        (0x37080040, BRANCH14, Site(0, 4, False, 8)),  # tbnz w0, 1, +8
        (0x3707FFE0, BRANCH14, Site(0, 4, False, -4)),  # tbnz w0, 0, -4
        (0x90000000, BRANCH26, None),  # adrp
        (0x90000000, 4, None),  # adrp, PAGEBASE_REL21
        (0x94000003, BRANCH19, None),
        (0x36080040, BRANCH19, None),
    ],
)
def test_branches_of_arm64(word: int, kind: int, site: Site | None) -> None:
    code = bytes(4) + word.to_bytes(4, "little")
    moved = site and site._replace(start=4, end=8)
    assert branch_at(ARM, code, 4, kind) == moved
    if moved:
        assert target_of(ARM, moved, 0x1000) == 0x1004 + moved.distance
    assert branch_at(ARM, code[:7], 4, kind) is None


@pytest.mark.parametrize(
    ("code", "at", "kind", "site"),
    [
        ("e803000000", 1, 4, Site(0, 5, True, 3)),  # call
        ("e9fbffffff", 1, 4, Site(0, 5, False, -5)),  # jmp
        ("0f8401000000", 2, 4, Site(0, 6, False, 1)),  # je
        ("e803000000", 1, 3, None),  # ADDR32NB
        ("8d0503000000", 2, 4, None),  # lea
        ("e8030000", 1, 4, None),
        ("03000000", 0, 4, None),
    ],
)
def test_branches_of_x86_64(code: str, at: int, kind: int, site: Site | None) -> None:
    assert branch_at(X86, bytes.fromhex(code), at, kind) == site
    if site:
        assert target_of(X86, site, 0x1000) == 0x1000 + site.end + site.distance


def test_only_direct_calls_have_a_target() -> None:
    bl, b, blr = (word.to_bytes(4, "little") for word in (0x94000002, 0x14000002, 0xD63F0000))
    assert [call_target(ARM, bl + b + blr, end, 0x1000) for end in (4, 8, 12)] == [0x1008, None, None]
    assert call_target(X86, bytes.fromhex("e803000000ffd0"), 5, 0x1000) == 0x1008
    assert call_target(X86, bytes.fromhex("e803000000ffd0"), 7, 0x1000) is None
    assert call_target(X86, b"\xff\xd0", 2, 0x1000) is None
