"""Ten thousand mutations of a log with stacks: what is no frame goes through byte for byte, soon, in bounded memory."""

from __future__ import annotations

import io
import json
import logging
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkpass import Options, run_pass
from tests.fuzz.limits import many, peak_memory, reset_peak_memory
from tests.support.mutations import mutated_text
from tests.support.paths import ROOT
from unwind.logs.addresses import AddressNotes
from unwind.logs.filter import filter_log
from unwind.logs.forms import FORMS
from unwind.readers.module_places import ModulePlaces
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Namer

SHOP = ROOT / "testdata" / "shop"
BIAS = 0x55D3_0000_0000
MUTATION_COUNT, TIME_LIMIT_S, MEMORY_LIMIT_BYTES = many(10_000), 120, 100 << 20
PIECES = (
    b"#1 ",
    b"0x",
    b" in ",
    b"(",
    b")",
    b"<",
    b" (/",
    b"+0x1a45)",
    b"\n",
    b"\x00",
    b"\xff",
    b"[0x",
    b" pc ",
    b": 0x1 - ",
    b"\r",
)


@pytest.fixture(autouse=True)
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep warnings from pytest, whose workers cannot pass on what is not UTF-8."""
    monkeypatch.setattr(logging.getLogger("icf"), "disabled", True)


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RecordedResolver, bytes]]:
    """Yield a resolver, and a log of each form about its program."""
    folder = tmp_path_factory.mktemp("shop")
    shop = Path(shutil.copy(SHOP / "shop.lld", folder / "shop"))
    run_pass(str(shop), Options())
    stack = json.loads((SHOP / "shop.lld.json").read_text().splitlines()[2])["stack"].split()
    lines = ["==17==ERROR: AddressSanitizer: SEGV\n"]
    for form in (
        "    #{idx} {run:#x} in f{idx}() /src/a.c:{idx}:7 \n",
        "    #{idx} {run:#x}  ({shop}+{at:#x})\n",
        "    #{idx} <null> <null> ({shop}+{at:#x}) (BuildId: ab)\n",
        "{shop}(+{at:#x}) [{run:#x}]\n",
        "#{idx:<2} 0x{run:016x} in f (a=1) at a.c:1\n        a = 1\n",
        "#{idx:02d} pc {at:016x}  {shop} (f()+28)\n",
        "#{idx:<2} {run:#018x} f{idx} (shop + {at:#x})\n",
        "#{idx:<2} {run:#018x} - 1 f{idx} - {shop}\n    [5d0c]@0x1+0x2\n    /src/a.c:1:2\n",
        " > {shop}(f(int)+0x12) [{at:#x}]\n",
        "==47==    by 0x{run:X}: f{idx}(int) (a.c:1)\n",
        "    @ {run:#18x}         16  f{idx}\n",
        "C  [{shop}+{at:#x}]  f{idx}(int)+0x12  (a.cpp:12)\n",
        "    frame #{idx}: {run:#018x} shop`f{idx}(int) [inlined] g(n=1) at a.cpp:10:2 [opt]\n",
        "{idx:4}: {run:#18x} - f{idx}\n                               at /src/a.c:1:2\n",
    ):
        for idx, at in enumerate(int(word, 16) for word in stack if word != "?"):
            lines.append(form.format(idx=idx, at=at, run=BIAS + at, shop=shop))
        lines.append("\nSUMMARY: AddressSanitizer: SEGV /src/a.c:0:7 in f0()\n")
    with RecordedResolver(SearchPaths(cache_dir=str(folder / "cache"))) as opened:
        yield opened, "".join(lines).encode()


def is_frame(line: bytes) -> bool:
    is_file = any(form.line_of_file is not None and form.line_of_file.match(line) for form in FORMS)
    return b"SUMMARY: " in line or is_file or any(form.dialect.parse(line) is not None for form in FORMS)


def test_mutations_change_frames_alone(resolver: tuple[RecordedResolver, bytes]) -> None:
    opened, log = resolver
    chance = random.Random(1)
    lines = log.splitlines(True)
    changed_count = 0
    start = time.process_time()
    reset_peak_memory()
    before = peak_memory()
    for number in range(MUTATION_COUNT):
        first = chance.randrange(len(lines))
        text = mutated_text(b"".join(lines[first : first + 8]), PIECES, chance)
        out, places = io.BytesIO(), ModulePlaces((), opened.exported)
        notes = AddressNotes(opened, Namer(), places, keeps=True)
        filter_log(io.BytesIO(text), out, opened, Namer(), places, notes.annotate if number % 7 == 0 else None)
        after = out.getvalue()
        if number % 7:
            left = iter(after.split(b"\n"))
            assert all(line in left for line in text.split(b"\n") if not is_frame(line))
        changed_count += after != text
    assert changed_count > MUTATION_COUNT // 20
    assert time.process_time() - start < TIME_LIMIT_S * many(1)
    assert peak_memory() - before < MEMORY_LIMIT_BYTES


def test_a_stack_of_any_length_takes_no_memory(resolver: tuple[RecordedResolver, bytes], tmp_path: Path) -> None:
    opened, _ = resolver
    path = tmp_path / "log"
    with path.open("wb") as file:
        for number in range(0, 60_000, 1000):
            file.write(b"".join(b"    #%d 0x1136 in f /a.c:1\n" % at for at in range(number, number + 1000)))
        for _ in range(20_000):
            file.write(b"#0  0x0000000000001136 in f () at a.c:1\n        x = 1\n")
        file.write(b"#0 " * (1 << 20))
    reset_peak_memory()
    before = peak_memory()
    with path.open("rb") as stream, (tmp_path / "out").open("wb") as out:
        filter_log(stream, out, opened, Namer())
    assert peak_memory() - before < MEMORY_LIMIT_BYTES
    assert (tmp_path / "out").read_bytes() == path.read_bytes()
