"""Mutated questions of a debugger get an answer; mutated images and answers do not stop its plug-in."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from icf.errors import IcfError
from tests.fuzz.limits import many
from tests.support.mutations import SHOP, mutated_text, mutations
from unwind.debugger.inside.sections import read_sections
from unwind.debugger.inside.shown import change_of
from unwind.debugger.question import parse_question
from unwind.debugger.server import Server

MUTATION_COUNT = many(10_000)
ASKED_COUNT = many(300)
PIECES = (b"null", b"-1", b"[", b"]", b"{", b"}", b'"', b"1e9", b"NaN", b"\xff", b"9" * 40, b",", b"true", b"\\u0000")
ANSWER = {
    "address": "0x401136",
    "verdict": "unique",
    "name": "f(int)",
    "linkage_name": "_Z1fi",
    "candidate_names": ["a", "b"],
    "inlines": [{"name": "g()", "file": "a.cc", "line": 3}],
    "file": "a.cc",
    "line": 12,
    "evidence": "dwarf",
    "missing": [{"verdict": "unmerged", "name": "t()", "address": None}],
}


def mutated(content: bytes, count: int) -> Iterator[bytes]:
    chance = random.Random(1)
    for _ in range(count):
        data = mutated_text(content, PIECES, chance)
        yield data.replace(b"\n", b" ")


def question() -> bytes:
    modules = [{"path": str(SHOP / "shop.gold"), "build_id": "", "bias": 0}]
    stacks = [{"frames": [0x9D8, 0x87E, None, 0x8E5], "exact": [1], "is_called": True, "registers": [[1, {"7": 64}]]}]
    return json.dumps({"id": 7, "modules": modules, "stacks": stacks, "debug_roots": ["/x"], "explain": True}).encode()


def test_mutated_questions_are_read_or_refused() -> None:
    outcomes = [0, 0]
    for line in mutated(question(), MUTATION_COUNT):
        try:
            asked = parse_question(line)
            assert all(0 <= at < 1 << 64 for stack in asked.stacks for at in stack.frames if at is not None)
            outcomes[0] += 1
        except IcfError as error:
            assert "\n" not in str(error)
            outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 20


def test_mutated_questions_have_answers(tmp_path: Path) -> None:
    with Server(str(tmp_path / "cache")) as server:
        for line in mutated(question(), ASKED_COUNT):
            answer = json.loads(server.answer(line))
            assert ("stacks" in answer) != ("error" in answer)
        whole = json.loads(server.answer(question()))  # nothing of what was asked before is left
    assert len(whole["stacks"][0]["frames"]) == 4


def test_mutated_answers_change_a_frame_or_nothing() -> None:
    changed = 0
    for line in mutated(json.dumps(ANSWER).encode(), MUTATION_COUNT):
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            continue
        try:
            change = change_of(answer)
        except (TypeError, ValueError, AttributeError, KeyError):  # which the plug-in reports in a line
            continue
        changed += change is not None and bool(change.functions)
    assert changed > MUTATION_COUNT // 20


def test_mutated_images_have_sections_or_none(tmp_path: Path) -> None:
    chance = random.Random(2)
    image = Path(shutil.copy(SHOP / "shop.gold", tmp_path / "image"))
    content = image.read_bytes()
    found = 0
    for number, changed in enumerate(mutations(image, many(600), chance)):
        header = changed[:64] if number % 2 else content[:64]
        path = tmp_path / f"{number}"
        path.write_bytes(header + changed[64:])
        found += ".text" in read_sections(str(path))
        path.unlink()
    assert found > many(100)
