"""The Python examples of the documentation, run as they stand."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.markdown import Block, read_page
from tests.support.paths import ROOT
from tests.support.stack_columns import batch
from tests.support.toolchain import run
from unwind import open_resolver

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    (f"{path.relative_to(ROOT)}:{block.line}", block)
    for path in PAGES
    for block in read_page(path).blocks
    if block.language == "python"
]
STACK = [0x9D8, 0x87E, 0x8E5, 0x8FF, 0x74A, None]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that the documentation is about, with its tables, in the current folder."""
    image = Path(shutil.copy(ROOT / "testdata" / "shop" / "shop.gold", tmp_path / "shop"))
    icf("pass", image)
    monkeypatch.chdir(tmp_path)
    return image


@pytest.mark.parametrize("example", [block for _, block in EXAMPLES], ids=[where for where, _ in EXAMPLES])
def test_an_example_runs(example: Block, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"Build ID: (\w+)", run("readelf", "-n", shop).stdout)
    assert found is not None
    code = example.text.replace("/usr/bin/shop", "shop").replace("91ab5f...", found[1])
    here = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    names: dict[str, object] = {
        "addresses": STACK,
        "this": 0x1000,
        "read_memory": lambda address, size_bytes: bytes(size_bytes),
        "bias": 0,
        "address": here,
        "code": ctypes.string_at(here or 0, 16),
        "pc": here,
        "return_address": here,
        "return_addresses": [here],
    }
    if "batches" in code:
        names |= {"batches": [batch([STACK])], "write": lambda answers: print(answers.to_pylist())}
    exec(compile(code, "example.py", "exec"), names)
    if "print" in code:
        assert capsys.readouterr().out.strip()


def test_there_are_examples_of_all_that_other_programs_use() -> None:
    text = "".join(block.text for _, block in EXAMPLES)
    assert all(name in text for name in ("Symbolizer.open", "open_process", "open_resolver", "open_or_build"))


def test_a_stack_may_be_any_sequence(shop: Path) -> None:
    resolver = open_resolver(str(shop))
    assert resolver.resolve(STACK) == resolver.resolve(tuple(STACK))
