"""Ten thousand mutations of text of `perf script`: each is read, or refused with the number of its line."""

from __future__ import annotations

import random

from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.mutations import mutated_text
from tests.support.paths import ROOT
from tests.support.recordings import read

PIECES = (
    b"/",
    b" ",
    b"\n",
    b"\n\n",
    b"\t",
    b"(",
    b")",
    b":",
    b"[0x",
    b"@",
    b"\0",
    b"\xff",
    b"9" * 40,
    b"PERF_RECORD_MMAP2 ",
)
MUTATION_COUNT = many(10_000)


def test_mutated_text_is_read_or_refused() -> None:
    text = b"".join(
        (ROOT / "testdata" / "perf" / f"{name}.script").read_bytes()[:700] for name in ("hot", "hot.events")
    )
    text = b"a 7 1.0: PERF_RECORD_MMAP2 7/7: [0x55d200001000(0x1000) @ 0x2000 fe:00 2 0]: r-xp /tmp/hot/hot\n" + text
    chance = random.Random(4)
    outcomes = [0, 0]
    for _ in range(MUTATION_COUNT):
        data = mutated_text(text, PIECES, chance)
        try:
            for sample in read("perf-script", data):
                assert all(frame.address is not None and frame.address < 1 << 64 for frame in sample.frames)
            outcomes[0] += 1
        except FormatError as error:
            assert 1 <= error.offset <= data.count(b"\n") + 1
            outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 50
