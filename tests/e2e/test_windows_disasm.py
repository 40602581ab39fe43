"""`icf disasm` on PE images: each call of the folded program has the name that it has in the unfolded one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import icf
from tests.support.pe import of_pip
from tests.support.toolchain import lasting_folder
from tests.support.windows import RUNTIME, SHOP, compile_windows, library_and_user, link_windows

FUNCTIONS = ("orders", "payments", "discount", "rebate", "tax", "add", "price", "stock", "mainCRTStartup")


@cache
def linked(*, folded: bool) -> Path:
    compiled = compile_windows(SHOP)
    path = link_windows(lasting_folder(), compiled, icf=folded, name="shop" if folded else "unfolded")
    if folded:
        icf("pass", "-q", path, "--objects", compiled)
    return path


def calls_of(path: Path) -> dict[str, list[list[dict[str, Any]]]]:
    """The notes of the calls in each function, by its linkage name."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    members: list[str] = []
    for line in icf("disasm", "-e", path, "--json", *FUNCTIONS).splitlines():
        said = json.loads(line)
        if "region" in said:
            members = [each["linkage_name"] for each in said["region"]["members"]]
            found |= {name: [] for name in members}
        elif said["mnemonic"] == "call":
            for name in members:
                found[name].append([each for each in said["notes"] if each["kind"] == "function"])
    return found


def meant(note: dict[str, Any], caller: str) -> list[str]:
    """The callees of a call in one of the functions that share its code."""
    for meaning in note["meanings"]:
        if not meaning["callers"] or caller in meaning["callers"]:
            callees: list[str] = meaning["callees"]
            return callees
    raise AssertionError(note)


def test_calls_have_the_names_that_they_have_in_the_unfolded_program() -> None:
    folded, truth = calls_of(linked(folded=True)), calls_of(linked(folded=False))
    assert folded.keys() == truth.keys() and len(truth) >= 13
    merged = 0
    for caller, calls in truth.items():
        assert len(folded[caller]) == len(calls)
        for ours, theirs in zip(folded[caller], calls, strict=True):
            assert len(ours) == len(theirs)  # none for a call through a pointer
            for note, true in zip(ours, theirs, strict=True):
                assert meant(note, caller) == meant(true, caller) and len(meant(true, caller)) == 1
                merged += note["members"] > 1
    assert merged >= 6


def test_data_and_imports_are_named() -> None:
    text = icf("disasm", "-e", linked(folded=True), "mainCRTStartup")
    assert "const Book::`vftable'" in text and "struct Item *volatile picked" in text
    user = icf("disasm", "-e", library_and_user()[1])
    assert "-> weigh" in user and " label\n" in user
    assert '"Fatal error in launcher: %s\\n"' in icf("disasm", "-e", of_pip("t64.exe"))


def test_lines_are_those_of_the_function_that_was_named() -> None:
    text = icf("disasm", "-e", linked(folded=True), "-S", "costs::tax")
    assert "namespace costs { KEEP int tax" in text and "namespace sales" not in text


def test_the_cases_of_a_switch_are_shown(tmp_path: Path) -> None:
    cases = "".join(f"case {n}: total = total {sign} 7; break; " for n, sign in enumerate("+*/|%"))
    pick = f"__attribute__((noinline)) int pick(int by) {{ switch (by) {{ {cases} }} return 0; }}"
    main = 'extern "C" int mainCRTStartup() { return pick(total); }'
    image = link_windows(tmp_path, compile_windows(f"{RUNTIME} volatile int total; {pick} {main}", "-O2"))
    text = icf("disasm", "-e", image, "pick")
    (line,) = [line for line in text.splitlines() if "switch by 0x" in line]
    assert ", 5: +0x" in line and len(set(line.partition(", 5: ")[2].split())) == 5


def test_an_image_without_tables_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "discount(int)" in icf("disasm", "-e", linked(folded=False), "orders")
    assert "has no call-site tables" in capsys.readouterr().err
    icf("disasm", "-e", linked(folded=False), "nothing", status=1)
    assert "no function 'nothing'" in capsys.readouterr().err
