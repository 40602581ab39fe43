"""The columns of answers hold what the answers are, in both builds of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from icf.model import Verdict
from tests.support.builds import uncompiled
from unwind.program.frame import Frame
from unwind.symbolize.answer import Answer

pa = pytest.importorskip("pyarrow")
from unwind.arrow import _spread, frames  # noqa: E402
from unwind.arrow.answers import SCHEMA, as_plain, plain_schema  # noqa: E402

PLACE = (Frame("_Z1fi", "a.cc", 7, 0, False),)
FAR = (Frame("g", "b.cc", 1 << 40, 0, False),)
ANSWERS = [
    Answer(1, Verdict.UNMERGED, "_Z1fi", frames=PLACE),
    Answer(2, Verdict.UNIQUE, None, frames=FAR, source_name="g"),
    Answer(3, Verdict.AMBIGUOUS, linkage_names=("_Z1fi", "_Z1gv")),
    Answer(None, Verdict.UNKNOWN),
    Answer(1 << 63, Verdict.CONTRADICTED, linkage_names=("bad\udcff",)),
]
EXPECTED: list[dict[str, Any]] = [
    {"verdict": "unmerged", "name": "f(int)", "linkage_name": "_Z1fi", "candidates": [], "file": "a.cc", "line": 7},
    {"verdict": "unique", "name": "g", "linkage_name": None, "candidates": [], "file": "b.cc", "line": (1 << 31) - 1},
    {"verdict": "ambiguous", "name": None, "linkage_name": None, "candidates": ["_Z1fi", "_Z1gv"]},
    {"verdict": "unknown", "name": None, "linkage_name": None, "candidates": []},
    {"verdict": "contradicted", "name": None, "linkage_name": None, "candidates": ["bad\ufffd"]},
]


@pytest.mark.parametrize("kernel", [_spread, uncompiled(_spread)], ids=["installed", "uncompiled"])
@pytest.mark.parametrize("stacks", [[], [[]], [[0, 1, 2], [], [3], [4, 2, 2, 1, 0, 3, 4, 4, 0]]])
def test_each_frame_has_what_its_answer_has(
    kernel: Any, stacks: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "spread", kernel.spread)
    monkeypatch.setattr(frames, "spread_candidates", kernel.spread_candidates)
    table = frames.FrameTable()
    rows = [table.row(ANSWERS[which]) for stack in stacks for which in stack]
    starts = np.cumsum([0, *map(len, stacks)]).astype(np.uint64)
    addresses = pa.array([ANSWERS[which].address for stack in stacks for which in stack], pa.uint64())
    column = table.frames(np.array(rows, np.uint32), starts, addresses)
    column.validate(full=True)
    expected = [
        [{"address": ANSWERS[which].address, "file": None, "line": None, **EXPECTED[which]} for which in stack]
        for stack in stacks
    ]
    assert column.to_pylist() == expected
    assert table.is_any_known == any(which != 3 for stack in stacks for which in stack)
    weights, problems = pa.array([1] * len(stacks), pa.int64()), pa.nulls(len(stacks), SCHEMA.field("problem").type)
    plain = as_plain(pa.RecordBatch.from_arrays([column, weights, problems], schema=SCHEMA))
    plain.validate(full=True)
    assert plain.schema == plain_schema()
    for stack in expected:
        for frame in stack:
            if frame["address"] == 1 << 63:
                frame["address"] = -(1 << 63)
    assert plain.column("frames").to_pylist() == expected
