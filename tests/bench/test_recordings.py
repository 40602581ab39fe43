"""The bench of recordings, on a small one."""

from __future__ import annotations

import json

import pytest

from tests.bench.recordings import PEER, main
from tests.support.paths import ROOT
from tests.support.toolchain import tool


def test_each_format_is_compared_with_perf(capsys: pytest.CaptureFixture[str]) -> None:
    tool("perf")
    main([str(ROOT / "testdata" / "perf" / "hot.data"), "--turns", "1", "--out", "text,collapsed"])
    figures = json.loads(capsys.readouterr().out)
    assert figures[PEER]["cpu_of_perf_script"] == 1
    for out in ("text", "collapsed"):
        cost = figures[out]
        assert cost["cpu_of_perf_script"] * figures[PEER]["cpu_s"] == pytest.approx(cost["cpu_s"])
        assert cost["peak_mb"] > 1
