"""The scale model adds up what was measured."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
from tests.bench.scale import Cost, table


def test_a_fleet_costs_its_stacks_and_its_binaries() -> None:
    cost = Cost(1.0, 3.6, 1.0, 2.0, 8_000_000, 50_000_000, 200_000_000, 5_000_000, 100_000_000, 20.0, 0.1)
    *_, fleet = table(cost)
    # 1000 million stacks for 3.6 s each, 10,000 binaries for 3 s each; ten workers of 300 MB, 5 MB for a binary
    hours = (1000 * 3.6 + 10_000 * 3) / 3600
    assert fleet == f"| a fleet | 1,000,000,000 | 10,000 | {hours / 24:.2f} | {hours:.2f} | 53.0 GB at most | 80.0 GB |"
