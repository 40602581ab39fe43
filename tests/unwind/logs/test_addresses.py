"""Names after the addresses in a text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.demangle import demangle
from tests.support.paths import ROOT
from unwind.logs.addresses import AddressNotes
from unwind.logs.filter import filter_log
from unwind.readers.module_places import ModulePlace, ModulePlaces
from unwind.samples.recording import RecordedModule
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Namer

SHOP = ROOT / "testdata" / "shop"
FIRST = json.loads((SHOP / "shop.lld.json").read_text().splitlines()[0])
VADDR, NAME = int(FIRST["stack"].split()[0], 16), demangle(FIRST["truth"][0])
BIAS = 0x55D3_0000_0000
AT = BIAS + VADDR


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[AddressNotes]:
    places = ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, RecordedModule(str(SHOP / "shop.lld")))])
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path))) as resolver:
        yield AddressNotes(resolver, Namer(), places, keeps=True)


def name_at(notes: AddressNotes, address: int) -> str:
    text = f"{address:#x}"
    return notes.annotate(text.encode()).decode().removeprefix(text).strip(" <>")


def test_addresses_in_functions_get_their_names(notes: AddressNotes) -> None:
    name, _, offset = name_at(notes, AT).rpartition("+")
    assert name == NAME
    start = AT - int(offset, 16)
    assert name_at(notes, start) == NAME
    text = f"call {start:#x}\r\n {AT:016x}: nop ; {AT:x},$0x{AT:X}\xff"
    name = f"<{NAME}+{offset}>"
    expected = f"call {start:#x} <{NAME}>\r\n {AT:016x} {name}: nop ; {AT:x} {name},$0x{AT:X} {name}\xff"
    assert notes.annotate(text.encode("latin-1")) == expected.encode("latin-1")


@pytest.mark.parametrize(
    "text",
    [
        "0x136 0x7fff0000 0x10000000000000000",
        f"{AT:#x} <main>",
        f"{AT:#x}<main+0x1>",
        f"shop+{AT:#x} a{AT:#x} {AT:#x}_z -{AT:#x}",
        f"{BIAS:#x} {BIAS + 0xFFFF:#x}",  # in the module, in none of its functions
        f"{AT:x}0 0{AT:x}",
    ],
)
def test_what_is_no_address_of_a_function_stays(notes: AddressNotes, text: str) -> None:
    assert notes.annotate(text.encode()).decode() == text


def test_stacks_keep_their_form(notes: AddressNotes, tmp_path: Path) -> None:
    out = io.BytesIO()
    frame = f"#0 {AT:#x}  ({SHOP}/shop.lld+{VADDR:#x})\n"
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path))) as resolver:
        text = f"at {AT:#x}\n{frame}{AT:#x}".encode()
        assert filter_log(io.BytesIO(text), out, resolver, Namer(), note=notes.annotate)
    first, stack, last = out.getvalue().decode().splitlines()
    assert f"<{NAME}+" in first and f"<{NAME}+" in last
    assert stack.startswith(f"#0 {AT:#x} in {NAME} ") and "<" not in stack.partition(" in ")[0]
