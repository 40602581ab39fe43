"""The benchmark's own arithmetic, and that it runs at all; speed itself is no test's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.timing import CommandFailed, Cost, median, run, run_in_turns
from tests.support import toolchain


def test_memory_and_time_are_those_of_the_command_alone() -> None:
    cost = run([sys.executable, "-c", "block = bytearray(150_000_000); block[::4096] = bytes(len(block[::4096]))"])
    assert 150 < cost.peak_mb < 250
    assert run([sys.executable, "-c", ""]).peak_mb < 100


def test_measured_processes_keep_their_bytecode() -> None:
    command = "import sys; sys.exit(sys.dont_write_bytecode)"
    measured = f"import sys; from tests.bench.timing import run; run([sys.executable, '-c', {command!r}])"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", measured], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_failed_command_says_its_last_words() -> None:
    with pytest.raises(CommandFailed, match="no such thing"):
        run([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


def test_turns_alternate_and_the_first_is_not_counted() -> None:
    order: list[str] = []

    def measure(command: list[str] | tuple[str, ...] | object) -> Cost:
        assert isinstance(command, list)
        order.append(command[0])
        return Cost(float(len(order)), 0.0, 1.0)

    costs = run_in_turns({"a": ["a"], "b": ["b"]}, 3, measure)
    assert order == ["a", "b"] * 4
    assert costs["a"].wall_s == 5
    assert costs["b"].wall_s == 6


def test_the_median_is_of_time_and_the_maximum_of_memory() -> None:
    assert median([Cost(3, 1, 5), Cost(1, 1, 9), Cost(2, 4, 7)]) == Cost(2, 1, 9)


def test_the_scan_of_an_image_is_measured(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    image = tmp_path / "a.out"
    toolchain.run(toolchain.tool("gcc"), "-g", "-o", image, source)
    command = [sys.executable, "-m", "tests.bench.inside", "scan", str(image)]
    figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert figures["function_count"] == 1
    assert figures["one_thread_mb_per_s"] > 0


def test_the_resolver_is_measured(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    image, stacks = tmp_path / "a.out", tmp_path / "stacks"
    toolchain.run(toolchain.tool("gcc"), "-g", "-no-pie", "-o", image, source)
    stacks.write_text("0x401000 ?\n0x401000 0x401010\n0x401000 ?\n")
    command = [sys.executable, "-m", "tests.bench.inside", "resolve", str(image), str(stacks)]
    figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert figures["distinct_count"] == 2
    assert min(figures[f"{what}_per_s"] for what in ("new_stacks", "known_calls", "known_stacks")) > 0


def test_rows_of_call_frame_information_are_measured(tmp_path: Path) -> None:
    image = toolchain.link(tmp_path / "a", "bfd", toolchain.compile_object("int main() { return 0; }"))
    command = [sys.executable, "-m", "tests.bench.unwinding", "rows", str(image)]
    figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert figures["row_count"] > 4
    assert min(figures["rows_per_s"], figures["pyelftools_rows_per_s"]) > 0
