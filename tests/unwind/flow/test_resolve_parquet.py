"""`icf resolve` with Parquet: stacks in, answers out, and the stacks of any recording as Parquet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icf.cli import main
from linkpass import Options, run_pass
from tests.support.paths import ROOT
from tests.support.stack_columns import LINES, SHOP, STACKS, batch, parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BIAS = 0x7F0000000000
MAPS = f"{BIAS:x}-{BIAS + 0x1000:x} r-xp 00000000 08:01 5    /gone/shop\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    shutil.copy(SHOP / "shop.gold", folder / "shop")
    run_pass(str(folder / "shop"), Options())
    return folder


@pytest.fixture(autouse=True)
def shop(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    monkeypatch.setenv("ICF_CACHE_DIR", str(built / "cache"))


def rows(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_columns_in_columns_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").write_bytes(parquet(batch(STACKS, [7] * len(STACKS)), metadata={"icf.losses": "none"}))
    assert main(["resolve", "-e", "shop", "in", "-o", "out"]) == 0
    found = rows("out")
    assert [[frame["linkage_name"] for frame in row["frames"]] for row in found] == [line["truth"] for line in LINES]
    assert {row["weight"] for row in found} == {7}
    assert main(["resolve", "-e", "shop", "in", "--out", "json"]) == 0
    for row, line in zip(found, capsys.readouterr().out.splitlines(), strict=True):
        for frame, other in zip(row["frames"], json.loads(line)["frames"], strict=True):
            address = None if other["address"] is None else int(other["address"], 16)
            assert frame == {**{name: other[name] for name in frame}, "address": address}


def test_stacks_of_a_recording_say_the_same_elsewhere() -> None:
    """Run-time addresses of a heap profile become those of the link, with the build that they are of."""
    words = " ".join("0x10" if each is None else hex(BIAS + each) for each in STACKS[0])
    Path("heap").write_text(
        f"heap profile: 1: 8 [1: 8] @ heapprofile\n 3: 24 [3: 24] @ {words}\n\nMAPPED_LIBRARIES:\n{MAPS}"
    )
    assert main(["resolve", "heap", "--module-root", ".", "--out", "stacks", "-o", "s"]) == 0
    (row,) = rows("s")
    assert row["addresses"] == STACKS[0]
    assert row["exact"] == [False] * len(STACKS[0])  # the first returns from the allocator
    assert {len(each) for each in row["module"] if each is not None} == {40}
    assert row["weight"] == 3
    for out in ("heap", "s"):
        assert main(["resolve", out, "--module-root", ".", "-e", "shop", "--out", "parquet", "-o", f"{out}.out"]) == 0
    (recorded,), (moved,) = rows("heap.out"), rows("s.out")
    for row in (recorded, moved):
        for frame in row["frames"]:
            del frame["address"]
    assert recorded["frames"] == moved["frames"]


def test_stacks_in_text_become_columns() -> None:
    Path("s.txt").write_text("".join(f"{line['stack']} x5\n" for line in LINES))
    Path("marked.txt").write_text(f"{hex(STACKS[0][0] or 0)} {hex(STACKS[0][1] or 0)}@vptr=0x4010 0x10!\n")
    for name, out in (("s.txt", "stacks"), ("s.txt", "parquet"), ("marked.txt", "stacks")):
        assert main(["resolve", "-e", "shop", name, "--out", out, "-o", f"{name}.{out}"]) == 0
    assert [row["addresses"] for row in rows("s.txt.stacks")] == STACKS
    (marked,) = rows("marked.txt.stacks")
    assert (marked["vptrs"], marked["exact"]) == ([None, 0x4010, None], [True, False, True])
    assert main(["resolve", "-e", "shop", "s.txt.stacks", "-o", "again"]) == 0
    assert rows("again") == rows("s.txt.parquet")
    assert rows("again")[0]["weight"] == 5


@pytest.mark.parametrize("out", ["stacks", "parquet"])
def test_few_stacks_of_many_frames_make_a_row_group(out: str) -> None:
    """Thousands of them would take gigabytes."""
    (address, *_) = [each for each in STACKS[0] if each is not None]
    frames = f" {BIAS + address:#x}" * 300_000
    lines = "".join(f" 3: 24 [3: 24] @ {idx:#x}{frames}\n" for idx in range(5))
    Path("deep").write_text(f"heap profile: 1: 8 [1: 8] @ heapprofile\n{lines}\nMAPPED_LIBRARIES:\n{MAPS}")
    assert main(["resolve", "deep", "--module-root", ".", "--out", out, "-o", "deep.out"]) == 0
    groups = pq.ParquetFile("deep.out").metadata
    assert [groups.row_group(idx).num_rows for idx in range(groups.num_row_groups)] == [4, 1]


def zeros(stack_count: int, frame_count: int) -> Any:
    """Return a record batch of so many stacks of so many frames."""
    frames = pa.array(np.zeros(stack_count * frame_count, np.uint64))
    ends = pa.array(np.arange(stack_count + 1, dtype=np.int32) * frame_count)
    return pa.RecordBatch.from_pydict({"addresses": pa.ListArray.from_arrays(ends, frames)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: b"PAR1 and nothing", "Parquet magic bytes not found in footer"),
        (lambda: parquet(batch([[1]], [-3])), "f: row 0: weight is -3, must be 0 or more"),
        (lambda: parquet(zeros(1, 2_000_000)), "f: row 0: column addresses has 2000000 frames, may have 1048576"),
        (
            lambda: parquet(batch([[1]]), metadata={"icf.losses": "some"}),
            "icf.losses is b'some', must be one of none, fp, any",
        ),
        (lambda: parquet(pa.RecordBatch.from_pydict({"a": pa.array([1])})), "f: has no column addresses"),
    ],
    ids=["no footer", "weight", "deep", "losses", "column"],
)
@pytest.mark.parametrize("out", ["parquet", "text"])
def test_a_file_that_is_wrong_is_one_line(
    content: Callable[[], bytes], problem: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("f").write_bytes(content())
    assert main(["resolve", "-e", "shop", "f", "--out", out, "-o", "never"]) == 1
    message = capsys.readouterr().err
    assert problem in message
    assert message.startswith("icf: error: f: ")
    assert not Path("never").exists() or out == "text"


def test_a_row_group_of_too_many_values_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f").write_bytes(parquet(zeros(135, 1_000_000)))
    assert main(["resolve", "-e", "shop", "f"]) == 1
    assert "may have 134217728 in 2147483648" in capsys.readouterr().err


def test_a_reader_that_crashes_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unwind.arrow.files._MODULE", "tests.support.crashing_reader")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("f").write_bytes(parquet(batch(STACKS)))
    assert main(["resolve", "-e", "shop", "f"]) == 1
    assert "f: Parquet+0x0: pyarrow ended with SIGABRT" in capsys.readouterr().err


def test_without_pyarrow_a_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unwind.arrow.find_spec", lambda name: None)
    Path("f").write_bytes(b"PAR1")
    assert main(["resolve", "-e", "shop", "f"]) == 1
    error = capsys.readouterr().err
    assert "Parquet needs pyarrow, which is not installed" in error
    assert "hint: pip install 'icf-toolchain[parquet]'" in error
