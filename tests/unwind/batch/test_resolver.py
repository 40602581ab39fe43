"""Batches have the answers of `icf resolve`, whatever rows they are divided into."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from linkpass import Options, run_pass
from tests.support.stack_columns import LINES, SHOP, STACKS, Stack, batch
from unwind.samples.recording import Losses
from unwind.symcache.store.store import open_or_build
from unwind.target.opening import open_resolver
from unwind.target.search import SearchPaths

pa = pytest.importorskip("pyarrow")
from unwind.batch.resolver import BatchResolver  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the program is, with its tables, and its symcache."""
    folder = tmp_path_factory.mktemp("batch")
    shutil.copy(SHOP / "shop.gold", folder / "shop")
    run_pass(str(folder / "shop"), Options())
    open_or_build(folder / "shop", cache_dir=folder / "cache")
    return folder


@pytest.fixture
def resolver(folder: Path) -> Iterator[BatchResolver]:
    search = SearchPaths(cache_dir=str(folder / "cache"))
    with BatchResolver(str(folder / "shop"), losses=Losses.NONE, search=search) as resolver:
        yield resolver


def many_stacks(count: int) -> list[Stack]:
    """Return parts of the stacks, each as it is and with frames that are missing or wrong."""
    chance = random.Random(4)
    found: list[Stack] = []
    for _ in range(count):
        stack = list(chance.choice(STACKS))[chance.randrange(3) :]
        if chance.random() < 0.3:
            stack[chance.randrange(len(stack))] = chance.choice([None, 0, 1 << 63, (stack[0] or 7) + 1])
        found.append(stack)
    return [*found, []]


def of_frame(answer: Any) -> dict[str, Any]:
    own = answer.frames[-1] if answer.is_named else None
    return {
        "address": answer.address,
        "verdict": answer.verdict.value,
        "name": answer.name,
        "linkage_name": answer.linkage_name,
        "candidates": list(answer.linkage_names),
        "file": (own.file or None) if own else None,
        "line": (own.line or None) if own else None,
    }


def test_answers_are_those_of_the_resolver(folder: Path, resolver: BatchResolver) -> None:
    stacks, alone = many_stacks(300), open_resolver(str(folder / "shop"), cache_dir=str(folder / "cache"))
    weights = list(range(len(stacks)))
    found = resolver.resolve(batch(stacks, weights))
    found.validate(full=True)
    rows = found.to_pylist()
    expected = [[of_frame(answer) for answer in alone.resolve(stack)] for stack in stacks]
    assert [row["frames"] for row in rows] == expected
    assert [row["weight"] for row in rows] == weights
    assert {row["problem"] for row in rows} == {None}
    verdicts = {frame["verdict"] for row in rows for frame in row["frames"]}
    assert verdicts >= {"unmerged", "unique", "ambiguous", "unknown"}
    truth = resolver.resolve(batch(STACKS)).to_pylist()
    assert [[frame["linkage_name"] for frame in row["frames"]] for row in truth] == [line["truth"] for line in LINES]


def test_it_does_not_matter_which_rows_come_together(resolver: BatchResolver) -> None:
    stacks = many_stacks(120)
    whole = resolver.resolve(batch(stacks)).to_pylist()
    with BatchResolver(resolver._image, losses=Losses.NONE, search=resolver._search) as other:
        order = random.Random(5).sample(range(len(stacks)), len(stacks))
        parts = [order[at : at + 7] for at in range(0, len(order), 7)]
        rows: dict[int, Any] = {}
        for part in parts:
            rows.update(zip(part, other.resolve(batch([stacks[at] for at in part])).to_pylist(), strict=True))
    assert [rows[at] for at in range(len(stacks))] == whole


def test_what_is_kept_is_forgotten_before_it_is_too_much(
    resolver: BatchResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = many_stacks(60)
    expected = resolver.resolve(batch(stacks)).to_pylist()
    monkeypatch.setattr("unwind.arrow.stacks._KEPT_FRAMES", 10)
    monkeypatch.setattr("unwind.batch.resolver._KEPT_ANSWERS", 3)
    for at, stack in enumerate(stacks):
        assert resolver.resolve(batch([stack])).to_pylist() == [expected[at]]


def test_without_the_image_the_symcache_of_the_build_is_used(folder: Path) -> None:
    search = SearchPaths(cache_dir=str(folder / "cache"))
    with Image.open(folder / "shop") as image:
        build = image.build_id.hex()
    gone = "00" * 20
    rows = batch([STACKS[0], STACKS[0]], module=pa.array([build, gone]))
    with BatchResolver(losses=Losses.NONE, search=search) as resolver:
        here, missing = resolver.resolve(rows).to_pylist()
    assert [frame["linkage_name"] for frame in here["frames"]] == LINES[0]["truth"]
    assert here["problem"] is None
    assert {frame["verdict"] for frame in missing["frames"]} == {"unknown"}
    assert [frame["address"] for frame in missing["frames"]] == list(STACKS[0])
    assert missing["problem"] == f"not found: {gone}"


def test_frame_pointers_are_what_unwinders_used_if_nothing_says_so(folder: Path) -> None:
    search = SearchPaths(cache_dir=str(folder / "cache"))
    with BatchResolver(str(folder / "shop"), search=search) as cautious:
        names = [frame["linkage_name"] for frame in cautious.resolve(batch([STACKS[0]])).to_pylist()[0]["frames"]]
    assert names != LINES[0]["truth"]
    assert all(name in (None, truth) for name, truth in zip(names, LINES[0]["truth"], strict=True))


def test_a_damaged_column_is_an_error(resolver: BatchResolver) -> None:
    with pytest.raises(IcfError, match="stacks: row 0: weight is -1, must be 0 or more"):
        resolver.resolve(batch([[1]], [-1]))
