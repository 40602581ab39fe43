"""Ten thousand mutations of a file of stacks: each is read, or refused with the number of its line."""

from __future__ import annotations

import random

from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.mutations import mutated_text
from unwind.readers.pcs import read_pcs

STACKS = b"""# head
0x401136 0x401180 ? 0x4011f0 x12 # comment
401136@vptr=0x404010 401180

ffffffffffffffff 0x0 x1
"""
MUTATION_COUNT = many(10_000)
PIECES = (b"x", b"@vptr=", b"#", b"?", b"0x", b" ", b"\n", b"\x00", b"\xff", b"9" * 40, b"_", b"-")


def test_mutated_stacks_are_read_or_refused() -> None:
    chance = random.Random(1)
    outcomes = [0, 0]
    for _ in range(MUTATION_COUNT):
        data = mutated_text(STACKS, PIECES, chance)
        lines = data.split(b"\n")
        try:
            for stack in read_pcs(lines, "fuzz"):
                assert stack.addresses and stack.weight > 0
                assert all(address is None or 0 <= address < 1 << 64 for address in stack.addresses)
                assert all(0 <= frame_idx < len(stack.addresses) for frame_idx, _ in stack.vptrs)
            outcomes[0] += 1
        except FormatError as error:
            assert 1 <= error.offset <= len(lines)
            outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 20  # neither all good nor all bad
