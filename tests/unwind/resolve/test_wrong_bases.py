"""Stacks of two runs under one list of modules, and stacks of an older build: each address is judged by itself.

Most addresses of such a text fit, so a base that most of them fit would count for all. A frame that follows no call is
unknown, and says nothing about its neighbours.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import capstone
import pytest

from icf.cli import main
from icf.elf.image import Image
from linkpass import Options, run_pass
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"
FIRST_RUN, SECOND_RUN = 0x555555554000, 0x55D0C0B2A000  # where the program was loaded


@pytest.fixture(params=["shop.gold", "shop.lld"])
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A build of the program, in the current folder as `shop`, with its tables."""
    run_pass(str(shutil.copy(SHOP / request.param, tmp_path / "shop")), Options())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    return str(request.param)


def recorded(name: str) -> list[dict[str, list[str]]]:
    """The stacks of a build with the true names of their frames."""
    rows = [json.loads(line) for line in (SHOP / f"{name}.json").read_text().splitlines()]
    return [{"words": row["stack"].split(), "truth": row["truth"]} for row in rows if "stack" in row]


def moved(words: list[str], shift: int) -> list[str]:
    return [word if word == "?" else hex(int(word, 16) + shift) for word in words]


def resolve(capsys: pytest.CaptureFixture[str], stacks: list[list[str]], *options: str) -> list[list[dict[str, str]]]:
    Path("stacks").write_text("".join(f"{' '.join(stack)}\n" for stack in stacks))
    main(["resolve", "--format", "pcs", "--out", "json", *options, "stacks"])
    return [json.loads(line)["frames"] for line in capsys.readouterr().out.splitlines()]


def test_two_runs_in_one_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = recorded(name)
    Path("modules").write_text(json.dumps([{"path": "shop", "load_address": FIRST_RUN}]))
    words = [moved(row["words"], SECOND_RUN if number % 3 == 1 else FIRST_RUN) for number, row in enumerate(stacks)]
    answers = resolve(capsys, words, "--modules", "modules")
    for number, (row, frames) in enumerate(zip(stacks, answers, strict=True)):
        if number % 3 == 1:
            assert {frame["verdict"] for frame in frames} == {"unknown"}
        else:
            assert [frame["linkage_name"] for frame in frames] == row["truth"]


def test_frames_of_another_run_say_nothing_about_their_neighbours(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = [row["words"] for row in recorded(name)]
    spoiled = [[*words[:2], *moved(words[2:3], 0x1000), *words[3:]] for words in whole]
    unknown = [[*words[:2], "?", *words[3:]] for words in whole]
    as_spoiled, as_unknown = (resolve(capsys, words, "-e", "shop") for words in (spoiled, unknown))
    for one, other in zip(as_spoiled, as_unknown, strict=True):
        assert [frame["linkage_name"] for frame in one] == [frame["linkage_name"] for frame in other]
        assert one[2]["verdict"] == "unknown"


def test_stacks_of_an_older_build(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    older = "shop.lld" if name == "shop.gold" else "shop.gold"
    stacks = [row["words"] for row in recorded(older)]
    with Image.open("shop") as image:
        (text,) = [section for section in image.sections if section.name == ".text"]
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        code = decoder.disasm_lite(bytes(image.contents(text)), text.vaddr)
        after_calls = {vaddr + size_bytes for vaddr, size_bytes, mnemonic, _ in code if mnemonic == "call"}
    outside = 0
    for words, frames in zip(stacks, resolve(capsys, stacks, "-e", "shop"), strict=True):
        for word, frame in zip(words[1:], frames[1:], strict=True):
            if word != "?" and not {int(word, 16), int(word, 16) + 1} & after_calls:
                assert frame["verdict"] == "unknown"
                outside += 1
    assert outside > len(stacks) / 2
