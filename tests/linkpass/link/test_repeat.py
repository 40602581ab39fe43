"""What makes a link the same as the last one."""

from __future__ import annotations

from linkpass.link.repeat import digest_of_report

SHIPS = [b"selected section a.o:(.text.f)", b"  removing identical section b.o:(.text.g)"]
TREES = [
    b"selected section c.o:(.text.h)",
    b"  removing identical section d.o:(.text.i)",
    b"  removing identical section e.o:(.text.j)",
]


def test_the_threads_of_mold_report_in_another_order_each_time() -> None:
    assert digest_of_report([*SHIPS, *TREES]) == digest_of_report([TREES[0], TREES[2], TREES[1], *SHIPS])


def test_a_section_that_is_identical_to_another_one_is_another_statement() -> None:
    assert digest_of_report([*SHIPS, *TREES]) != digest_of_report([SHIPS[0], TREES[0], SHIPS[1], *TREES[1:]])
    assert digest_of_report([*SHIPS, *TREES]) != digest_of_report([*SHIPS, *TREES[:2]])
