"""The helper of debuggers: a question has an answer with what `icf resolve` says, or one line that says why not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linkpass import Options, run_pass
from tests.support.paths import ROOT
from tests.support.toolchain import compile_object, link, run
from unwind.debugger.server import Server

SHOP = ROOT / "testdata" / "shop"
BIAS = 0x555500000000
STACK = [0x9D8, 0x87E, 0x8E5, 0x8FF, 0x74A]
NAMES = [
    "sample_allocation(unsigned long)",
    "List<Payment>::grow()",
    "List<Payment>::add(Payment*)",
    "Ledger::post(Payment*)",
    "main",
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    image = Path(shutil.copy(SHOP / "shop.gold", tmp_path / "shop"))
    run_pass(str(image), Options())
    return image


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(str(tmp_path / "cache")) as server:
        yield server


def ask(server: Server, **question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(server.answer(json.dumps({"id": 1, **question}).encode()))
    return answer


def module(path: Path, build_id: str = "") -> dict[str, Any]:
    return {"path": str(path), "build_id": build_id, "bias": BIAS}


def moved(stack: list[int]) -> list[int]:
    return [address + BIAS for address in stack]


def test_a_stack_of_run_time_addresses_has_its_names(server: Server, shop: Path) -> None:
    answer = ask(server, modules=[module(shop)], stacks=[{"frames": moved(STACK)}, {"frames": moved(STACK[:1])}])
    assert answer["id"] == 1 and answer["warnings"] == []
    assert [[frame["name"] for frame in stack["frames"]] for stack in answer["stacks"]] == [NAMES, NAMES[:1]]
    assert answer["stacks"][0]["frames"][1]["line"] == 20


def test_a_stack_that_is_called_begins_with_a_return_address(server: Server, shop: Path) -> None:
    inner = ask(server, modules=[module(shop)], stacks=[{"frames": moved(STACK[1:]), "is_called": True}])
    assert [frame["name"] for frame in inner["stacks"][0]["frames"]] == NAMES[1:]


def test_each_frame_is_explained_with_those_that_tail_calls_left_out(server: Server, shop: Path) -> None:
    stack = moved([0x9D8, 0x87E, 0x8E5, 0x72A])
    for is_called in (False, True):
        answer = ask(server, modules=[module(shop)], stacks=[{"frames": stack, "is_called": is_called}], explain=True)
        frames = answer["stacks"][0]["frames"]
        assert len(frames) == 4 and all(frame["explain"] for frame in frames)
        assert frames[2]["missing"][0]["name"] == "Sessions::open(Session*)" and frames[2]["missing"][0]["explain"]


def test_a_module_of_another_build_is_unknown(server: Server, shop: Path) -> None:
    answer = ask(server, modules=[module(shop, "00" * 20)], stacks=[{"frames": moved(STACK)}])
    assert {frame["verdict"] for frame in answer["stacks"][0]["frames"]} == {"unknown"}
    assert len(answer["warnings"]) == 1 and "has build id c9d4" in answer["warnings"][0]


def test_a_damaged_image_is_left_out_once(server: Server, shop: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(shop, tmp_path / "other"))
    content = bytearray(shop.read_bytes())
    at = _table_at(shop)
    content[at + 4] = 99  # the version
    shop.write_bytes(content)
    modules = [module(shop), {"path": str(other), "bias": 0x1000}]
    stacks = [{"frames": moved(STACK)}, {"frames": [address + 0x1000 for address in STACK]}]
    answer = ask(server, modules=modules, stacks=stacks)
    assert len(answer["warnings"]) == 1 and "shop: .debug_icf+0x" in answer["warnings"][0]
    assert [frame["verdict"] for frame in answer["stacks"][0]["frames"]] == ["unknown"] * 5
    assert [frame["name"] for frame in answer["stacks"][1]["frames"]] == NAMES
    assert ask(server, modules=modules, stacks=stacks)["warnings"] == []


def _table_at(image: Path) -> int:
    for line in run("readelf", "-SW", image).stdout.splitlines():
        if " .debug_icf " in line:
            return int(line.split(" PROGBITS ")[1].split()[1], 16)
    raise AssertionError("no .debug_icf")


GAP = r"""
extern "C" __attribute__((noinline)) void leaf() { asm volatile("nop"); }
#define FUNCTION(name, begin, end)                                                                             \
  extern "C" void name();                                                                                     \
  asm(".pushsection .text." #name ",\"ax\",@progbits; .globl " #name "; .type " #name ", @function;" #name ":" \
      begin "push %rax; call leaf; pop %rax; ret;" end ".size " #name ", . - " #name "; .popsection")
FUNCTION(bare_a, "", "");
FUNCTION(bare_b, "", "");
FUNCTION(dressed_a, "nop; .cfi_startproc; .cfi_adjust_cfa_offset 8;", ".cfi_endproc;");
FUNCTION(dressed_b, "nop; .cfi_startproc; .cfi_adjust_cfa_offset 8;", ".cfi_endproc;");
int main() { bare_a(); bare_b(); dressed_a(); dressed_b(); }
"""


def test_code_without_call_frame_information_says_nothing_of_frames_inwards(server: Server, tmp_path: Path) -> None:
    """A debugger guesses the caller of `bare_a`, and may leave out others."""
    image = link(tmp_path / "gap", "lld", compile_object(GAP, "-O2", "-g", "-ffunction-sections"), "-Wl,--icf=all")
    run_pass(str(image), Options())
    leaf, bare, dressed, *calls = places_of(image)
    stacks = [
        {"frames": moved([leaf, at, call])} for at, call in zip([bare, bare, dressed, dressed], calls, strict=True)
    ]
    answer = ask(server, modules=[module(image)], stacks=stacks)
    assert [
        (stack["frames"][1]["verdict"], stack["frames"][1]["name"], stack["frames"][2]["name"])
        for stack in answer["stacks"]
    ] == [
        ("ambiguous", None, "main"),
        ("ambiguous", None, "main"),
        ("unique", "dressed_a", "main"),
        ("unique", "dressed_b", "main"),
    ]


def places_of(image: Path) -> list[int]:
    """Where `leaf` is, what follows the calls in the bare and the dressed body, and what follows each call in main."""
    after: dict[str, list[int]] = {}
    function, is_call, start = "", False, 0
    for line in run("objdump", "-d", "--no-show-raw-insn", image).stdout.splitlines():
        if line.endswith(">:"):
            start, function = int(line.split()[0], 16), line.split("<")[1][:-2]
            after[function] = [start] if function == "leaf" else []
        elif ":\t" in line:
            if is_call:
                after[function].append(int(line.split(":")[0], 16))
            is_call = "\tcall " in line
    body = [after[each][0] for name in ("bare", "dressed") for each in (f"{name}_a", f"{name}_b") if each in after]
    return [after["leaf"][0], *body, *after["main"]]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "the question is not JSON: "),
        (b"[]", "the question must be an object"),
        (b'{"id": "1"}', "id must be a number"),
        (b'{"id": 1, "stacks": {}}', "stacks must be a list"),
        (b'{"id": 1, "stacks": [{"frames": ["0x1"]}]}', "stack 0: address must be a number"),
        (b'{"id": 1, "stacks": [{"frames": [-1]}]}', "stack 0: -0x1 is not an address of 64 bits"),
        (b'{"id": 1, "stacks": [{"registers": [[1]]}]}', "stack 0: registers must be pairs of frame and values"),
        (b'{"id": 1, "stacks": [{"registers": [[1, {"rax": 1}]]}]}', "DWARF numbers of registers are below 100"),
        (b'{"id": 1, "modules": [{"path": "x"}]}', "module 0: bias must be a number"),
        (b'{"id": 1, "modules": [{"path": "", "bias": 0}]}', "module 0: needs a path, and a bias of 64 bits"),
        (b'{"id": 1, "modules": [{"path": "x", "build_id": "0", "bias": 0}]}', "build_id must have hexadecimal digits"),
    ],
)
def test_what_is_not_a_question_is_one_line(server: Server, line: bytes, says: str) -> None:
    answer = json.loads(server.answer(line))
    assert answer["id"] is None and says in answer["error"]


def test_every_line_of_the_command_has_an_answer(shop: Path) -> None:
    question = json.dumps({"id": 7, "modules": [module(shop)], "stacks": [{"frames": moved(STACK)}]})
    done = subprocess.run(
        [sys.executable, "-m", "icf", "gdb", "--serve"],
        input=f"{question}\n\nnonsense\n{question}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [7, None, 7] and answers[0] == answers[2]
