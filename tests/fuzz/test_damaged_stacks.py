"""Damaged stacks: lost frames, stale and shifted addresses, cut and doubled ones, among stacks that are whole.

Nothing fails or hangs, the answers to the whole stacks of the run stay what they are alone, and a frame that is
`unmerged` is the function that has its address.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from icf import cli
from icf.elf.image import Image
from tests.fuzz.limits import alarms, many, soon
from tests.support.mutations import LONGEST_S, SHOP

RUN_COUNT, STACKS_IN_A_RUN = many(12), 60
PAGE_BYTES = 4096


def damaged(rng: random.Random, stack: list[str], addresses: list[int], low: int, high: int) -> list[str]:
    """A stack as a profiler may get it wrong."""
    frames = list(stack)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(frames)) if frames else 0
        match rng.randrange(9):
            case 0:  # a frame is lost
                del frames[at : at + 1]
            case 1:  # the outermost are
                del frames[at + 1 :]
            case 2:  # a stale return address
                frames.insert(at, hex(rng.choice(addresses)))
            case 3:
                frames.insert(at, hex(rng.randrange(low, high)))
            case 4:
                frames[at:at] = frames[at : at + rng.randrange(1, 4)]
            case 5 | 6:  # shifted by a little, by pages
                shift = rng.choice((-1, 1, 2, -4, PAGE_BYTES, -PAGE_BYTES, 1 << 40))
                frames = [
                    hex(max(int(frame, 16) + shift, 0) % (1 << 64)) if frame[0] == "0" else frame for frame in frames
                ]
            case 7:
                frames.insert(at, rng.choice(("?", "0x0", "0xffffffffffffffff", hex(1 << 63))))
            case _:
                rng.shuffle(frames)
    return frames or ["?"]


def functions_at(image: Image, address: int) -> set[str]:
    """The functions whose code an address lies in, or follows; one without a size goes on to the next."""
    symbols = image.symbols
    start = symbols.value[symbols.functions].astype("u8")
    end = start + symbols.size_bytes[symbols.functions]
    before = start[start <= address]
    nearest = before.max() if len(before) else 0
    is_exact = start == address + 1  # less one, of a function that was interrupted where it begins
    inside = (is_exact | (start <= address) & ((address <= end) | ((start == nearest) & (start == end)))).nonzero()[0]
    return {symbols.name(int(symbols.functions[row])) for row in inside}


def answers(path: Path, stacks: list[list[str]], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    file = folder / "stacks"
    file.write_text("".join(f"{' '.join(stack)}\n" for stack in stacks))
    soon(LONGEST_S)
    status = cli.main(["resolve", "-e", str(path), "--format", "pcs", "--out", "json", str(file)])
    soon(0)
    said = capsys.readouterr()
    assert status in (0, 1) and "Traceback" not in said.err
    rows = said.out.splitlines()
    assert len(rows) == len(stacks), said.err
    all_unknown = all(frame["verdict"] == "unknown" for row in rows for frame in json.loads(row)["frames"])
    assert status == 0 or all_unknown
    return rows


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld"])
def test_damaged_stacks_change_no_other(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, rng = Path(shutil.copy(SHOP / name, tmp_path / "shop")), random.Random(name)
    assert cli.main(["pass", "-q", str(path)]) == 0
    recorded = (SHOP / f"{name}.json").read_text().splitlines()
    sound = sorted({tuple(json.loads(line)["stack"].split()) for line in recorded})
    addresses = [int(frame, 16) for stack in sound for frame in stack if frame != "?"]
    kept = 0
    with alarms(), Image.open(path) as image:
        alone = dict(zip(sound, answers(path, [list(stack) for stack in sound], tmp_path, capsys), strict=True))
        names: dict[int, set[str]] = {}
        for _ in range(RUN_COUNT):
            stacks = [list(rng.choice(sound)) for _ in range(STACKS_IN_A_RUN)]
            is_whole = [rng.random() < 0.3 for _ in stacks]
            low, high = max(min(addresses) - PAGE_BYTES // 2, 0), max(addresses) + PAGE_BYTES // 2
            asked = [
                stack if whole else damaged(rng, stack, addresses, low, high)
                for stack, whole in zip(stacks, is_whole, strict=True)
            ]
            for stack, whole, row in zip(stacks, is_whole, answers(path, asked, tmp_path, capsys), strict=True):
                if whole:
                    assert row == alone[tuple(stack)]
                    kept += 1
                    continue
                for frame in json.loads(row)["frames"]:
                    if frame["verdict"] == "unmerged":
                        address = int(frame["address"], 16)
                        names.setdefault(address, functions_at(image, address))
                        assert frame["linkage_name"] in names[address], frame
    assert kept > RUN_COUNT * STACKS_IN_A_RUN // 5
