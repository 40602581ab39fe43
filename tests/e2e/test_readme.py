"""The Python examples of the README, run as they stand."""

from __future__ import annotations

import ctypes
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.e2e.test_shop import ROOT, SHOP
from tests.support.link import run
from unwind import open_resolver

BLOCKS = re.findall(r"(?:^(?: {4}.*)?\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)
EXAMPLES = [textwrap.dedent(block).strip() for block in BLOCKS if "from unwind import" in block]
STACK = [0x9F8, 0x88E, 0x8F5, 0x90F, 0x74A, None]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that the README is about, with its tables, in the current folder."""
    image = Path(shutil.copy(SHOP / "shop.gold", tmp_path / "shop"))
    icf("pass", image)
    monkeypatch.chdir(tmp_path)
    return image


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.split("(")[0].split()[-1])
def test_an_example_runs(example: str, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"Build ID: (\w+)", run("readelf", "-n", shop).stdout)
    assert found is not None
    code = example.replace("/usr/bin/shop", "shop").replace("91ab5f...", found[1])
    here = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    names = {
        "addresses": STACK,
        "this": 0x1000,
        "read_memory": lambda address, size_bytes: bytes(size_bytes),
        "bias": 0,
        "address": here,
        "pc": here,
        "return_address": here,
        "return_addresses": [here],
    }
    exec(compile(code, "README.md", "exec"), names)
    if "print" in code:
        assert capsys.readouterr().out.strip()


def test_there_are_examples_of_all_that_other_programs_use() -> None:
    text = "".join(EXAMPLES)
    assert all(name in text for name in ("Symbolizer.open", "open_process", "open_resolver", "open_or_build"))


def test_a_stack_may_be_any_sequence(shop: Path) -> None:
    resolver = open_resolver(str(shop))
    assert resolver.resolve(STACK) == resolver.resolve(tuple(STACK))
