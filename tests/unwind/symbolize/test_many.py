"""Many addresses at once are answered as each alone is, by kernels that are compiled or plain Python."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import unwind.symbolize.many
import unwind.symcache.reader.many
from icf.elf.image import Image
from icf.errors import FormatError
from tests.e2e.program import icf
from tests.support.builds import uncompiled
from tests.support.paths import ROOT
from tests.support.toolchain import linker_options, run, tool
from unwind.symbolize import _write
from unwind.symbolize.styles import Options, TextWriter
from unwind.symbolize.styles_json import JsonWriter
from unwind.symbolize.symbolizer import Symbolizer
from unwind.symcache.builder.build import build_sections
from unwind.symcache.format.container import COMPLETE, Container, Head, Identity, pack
from unwind.symcache.reader import _look_up
from unwind.symcache.reader.many import frames_many
from unwind.symcache.reader.symcache import SymCache

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
VADDRS = [*range(0, 0x2400, 4), 0x7FFF_FFFF_FFFF, (1 << 64) - 1]
STYLES = [
    Options(candidates=True),
    Options(form="json"),
    Options(form="json", candidates=True, inlines=False),
    Options(form="addr2line", addresses=True, pretty=True, candidates=True),
]


# folded functions with inlined calls that they share, some with places of their own, and more than are compared
INLINED = """
static inline __attribute__((always_inline)) int inner(int x) { return x * x + 3; }
static inline __attribute__((always_inline)) int outer(int x) { return inner(x) ^ inner(x + 7); }
template <int> __attribute__((noinline)) int shared(int x) { return outer(x) + x * 5; }
__attribute__((noinline)) int first(int x) { return outer(x) - x * 3; }
__attribute__((noinline)) int second(int x) { return outer(x) - x * 3; }
template <int N> struct Sum { static int of(int x) { return shared<N>(x) + Sum<N - 1>::of(x + 1); } };
template <> struct Sum<0> { static int of(int x) { return first(x) * second(x); } };
template <int N> __attribute__((noinline)) int twin(int x) { return inner(x) * 11; }
int main(int count, char **) { return Sum<20>::of(count) + twin<0>(count) + twin<1>(count) + twin<2>(count); }
"""


def _compiled(folder: Path) -> Path:
    (folder / "inlined.cc").write_text(INLINED)
    flags = ["-g", "-O1", "-ffunction-sections", *linker_options("gold", tool("ld.gold")), "-Wl,--icf=all"]
    run(tool("g++"), *flags, "-o", "image", "inlined.cc", folder=folder)
    return folder / "image"


@pytest.fixture(scope="module", params=["shop", "inlined"])
def sections(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp(request.param)
    path = Path(shutil.copy(SHOP, folder / "shop")) if request.param == "shop" else _compiled(folder)
    icf("pass", path)
    with Image.open(path) as image:
        return {name: bytes(content) for name, content in build_sections(image).items()}


def packed(sections: dict[str, bytes]) -> SymCache:
    head = Head(Identity(2, bytes(20)), bytes(16), 62, COMPLETE)
    return SymCache(Container(memoryview(b"".join(pack(head, sections, {}))), "cache"))


@pytest.fixture
def symbolizer(sections: dict[str, bytes]) -> Iterator[Symbolizer]:
    yield Symbolizer(packed(sections))


def written(symbolizer: Symbolizer, options: Options) -> str:
    writer = JsonWriter(options) if options.form == "json" else TextWriter(options)
    return "".join(writer.addresses(symbolizer, VADDRS, VADDRS, 'sh"op'))


def written_one_by_one(symbolizer: Symbolizer, options: Options) -> str:
    writer = JsonWriter(options) if options.form == "json" else TextWriter(options)
    return "".join([writer.address(symbolizer.symbolize(vaddr), vaddr, 'sh"op') for vaddr in VADDRS])


@pytest.mark.parametrize("options", STYLES)
def test_kernels_as_plain_python_write_the_same(
    symbolizer: Symbolizer, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written_one_by_one(symbolizer, options)
    assert written(symbolizer, options) == expected
    monkeypatch.setattr(unwind.symcache.reader.many, "look_up", uncompiled(_look_up).look_up)
    monkeypatch.setattr(unwind.symbolize.many, "write", uncompiled(_write).write)
    assert written(symbolizer, options) == expected


@pytest.mark.parametrize("options", STYLES)
def test_little_room_makes_no_difference(
    symbolizer: Symbolizer, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(symbolizer, options)
    monkeypatch.setattr(unwind.symcache.reader.many, "_FRAME_LIMIT", 300)
    monkeypatch.setattr(unwind.symbolize.many, "_OUT_BYTES", 16)
    monkeypatch.setattr(unwind.symbolize.many, "_KEPT_BYTES", 1000)
    assert written(symbolizer, options) == expected
    assert written(symbolizer, options) == expected


def test_frames_of_many_are_those_of_each(symbolizer: Symbolizer, sections: dict[str, bytes]) -> None:
    cache = packed(sections)
    many = frames_many(cache, VADDRS)
    assert many == [cache.frames(vaddr) for vaddr in VADDRS]
    assert {len(frames) for frames in many} >= ({0, 1, 2, 3} if "inlined.cc" in str(many) else {0, 1})
    assert frames_many(cache, [0] * 1000) == [[]] * 1000


def test_records_that_break_a_rule_are_refused(sections: dict[str, bytes]) -> None:
    records = np.frombuffer(sections["records"], np.uint8)
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(60):
        damaged = records.copy()
        damaged[rng.integers(0, len(records), 20)] = rng.integers(0, 256, 20)
        cache = packed({**sections, "records": damaged.tobytes()})
        writer = TextWriter(Options(candidates=True))
        try:
            for _ in writer.addresses(Symbolizer(cache), VADDRS, VADDRS, "shop"):
                pass
        except FormatError as error:
            assert error.section in ("records", "names", "files")
            refused += 1
    assert 10 < refused
