"""Threads that share what they ask: a profiler in the process has one symbolizer, and samples in any thread."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_void_p, cast, pythonapi
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.paths import ROOT
from unwind import Symbolizer, open_or_build, open_process, open_resolver

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
THREADS, TURNS = 4, 2


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Path(shutil.copy(SHOP, tmp_path_factory.mktemp("threads") / "shop"))
    icf("pass", image)
    return image


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def check_in_threads(ask: Callable[[int], object], questions: list[int]) -> None:
    """Ask from all threads, each in an order of its own; all answers are as those of one thread."""
    alone = [ask(question) for question in questions]

    def turn(idx: int) -> None:
        order = range(len(questions)) if idx % 2 else range(len(questions) - 1, -1, -1)
        for at in order:
            here = (at * (idx + 1)) % len(questions)
            assert ask(questions[here]) == alone[here]

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(turn, range(THREADS * TURNS)))


def code(shop: Path) -> list[int]:
    cache = open_or_build(shop)
    found = [cache.find(vaddr) for vaddr in range(0x600, 0xB00, 16)]
    return sorted({vaddr for body in found if body for vaddr in range(body.start, body.start + body.size_bytes, 9)})


def test_symbolizer(shop: Path) -> None:
    symbolizer = Symbolizer.open(shop)

    def ask(vaddr: int) -> object:
        found = symbolizer.symbolize(vaddr)
        return found.start, found.frames, [(each.linkage_name, each.frames) for each in found.candidates]

    check_in_threads(ask, code(shop))


def test_resolver(shop: Path) -> None:
    resolver = open_resolver(str(shop))
    vaddrs = code(shop)
    check_in_threads(lambda vaddr: resolver.resolve([vaddr, 0x8F5, 0x90F, vaddr]), vaddrs)


@pytest.mark.first_alone  # the second loads all modules
def test_process() -> None:
    with open_process("self") as symbolizer:
        functions = (pythonapi.PyList_New, pythonapi.PyDict_New, pythonapi.PyTuple_New, pythonapi.PyLong_FromLong)
        starts = [cast(function, c_void_p).value or 0 for function in functions]

        def ask(address: int) -> object:
            found = symbolizer.symbolize(address)
            frames = symbolizer.resolve([address, address + 1])
            return found.start, found.linkage_name, found.frames, [frame.linkage_name for frame in frames]

        check_in_threads(ask, [start + offset for start in starts for offset in range(0, 12, 3)])
