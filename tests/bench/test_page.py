"""The page of figures: shares, tables, the picture, and one small run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.__main__ import main
from tests.bench.page import Subject, page, plot
from tests.bench.rows import Row, markdown, rows_of_image, rows_of_link, rows_of_recording

COSTS = Row("icf pass: processor time", 1.5, "s", "gsymutil", 3.0)


def test_a_share_is_what_icf_takes_of_what_the_other_takes() -> None:
    assert COSTS.share == 0.5
    assert Row("stacks", 200, "stacks/s", "other", 100).share == 0.5  # twice the rate is half the time
    assert Row("stacks", 200, "stacks/s").share is None


def test_a_table_has_a_line_for_each_figure() -> None:
    assert markdown([COSTS, Row("rate", 12345, "stacks/s")]).splitlines() == [
        "| figure | icf | beside | that has | share |",
        "|---|---|---|---|---|",
        "| icf pass: processor time | 1.5 s | gsymutil | 3 s | 0.5 |",
        "| rate | 12,300 stacks/s |  |  |  |",
    ]


def test_a_part_that_failed_has_no_rows() -> None:
    passing = {"pass_cpu_s": 1, "gsymutil_cpu_s": 4, "pass_wall_s": 2, "pass_peak_mb": 30}
    rows = list(rows_of_image({"image": "a", "pass": passing, "query": {"problem": "no such file"}}))
    assert [(row.what, row.other) for row in rows] == [
        ("icf pass: processor time", 4),
        ("icf pass: time", None),
        ("icf pass: memory", None),
    ]


def test_links_and_recordings_stand_beside_the_link_and_perf() -> None:
    names = ("link", "first", "again", "changed", "python", "annotate")
    figures = {"program_mb": 7, **{f"{name}_cpu_s": number + 1.0 for number, name in enumerate(names)}}
    assert [row.share for row in rows_of_link(figures)] == [None, 2, 3, 4, 6 / 5]
    costs = {"cpu_s": 2.0, "wall_s": 2.0, "peak_mb": 50.0}
    recording = {"recording": "x", "recording_mb": 9, "text": costs, "perf script": {**costs, "cpu_s": 4.0}}
    assert [row.share for row in rows_of_recording(recording)] == [None, 0.5, 1, 1]


def test_the_picture_has_a_bar_for_each_share_of_processor_time() -> None:
    subjects = [Subject("a < b", [COSTS, Row("icf pass: memory", 1, "MB", "gsymutil", 2)])]
    root = ElementTree.fromstring(plot(subjects))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a < b: icf pass / gsymutil", "0.50", "as much as the other"]
    text = page(subjects, 5, "b.svg", [("icf", "0.1")])
    assert "(b.svg)" in text and "## a < b" in text and "median of 5 turns" in text


def test_a_run_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "benchmarks.md"
    assert main(["--records", "20000", "--turns", "1", "--page", str(target)]) == 0
    text = target.read_text()
    assert "| icf trace view --count: processor time |" in text and "| icf |" in text
    shown = capsys.readouterr().out
    assert "icf trace seek, to the last chunk: processor time" in shown and "open and seek" in shown
    assert (tmp_path / "benchmarks.svg").read_text().startswith("<svg")


def test_what_fails_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "image").write_text("no image")
    assert main([str(tmp_path / "image"), "--part", "pass", "--turns", "1"]) == 1
    assert "pass failed: " in capsys.readouterr().out
