"""Code that a tool has changed after the pass: its tables are of other code, and nothing is answered from them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, Workshop
from tests.support.icf_command import icf_command
from tests.support.toolchain import run, tool

SOURCE = """
    extern int total;
    int total;
    NOINLINE void leaf(int n) { SAMPLE(); total += n; }
    NOINLINE void one(int n) { leaf(n); total += 3; }
    NOINLINE void two(int n) { leaf(n); total += 3; }
    NOINLINE void ones() { one(1); ++total; }
    NOINLINE void twos() { two(2); --total; }
    int main() { ones(); twos(); return total == 77; }
"""
LINE = "its code has changed since its call-site tables were written"


def address_of(path: Path, symbol: str) -> int:
    """Where a function is."""
    return next(int(line.split()[0], 16) for line in run("nm", path).stdout.splitlines() if line.endswith(f" {symbol}"))


def edit_code(path: Path) -> None:
    """Make a return out of the first instruction of `ones`, as somebody who patches a program does."""
    with Image.open(str(path)) as image:
        section = image.named(".text")
        assert section is not None
        code = bytearray(image.contents(section))
    code[address_of(path, "_Z4onesv") - section.vaddr] = 0xC3
    changed = path.with_suffix(".text")
    changed.write_bytes(code)
    run(tool("objcopy"), "--update-section", f".text={changed}", path)


def said(*command: str | Path) -> tuple[int, str, str]:
    done = subprocess.run([*icf_command(), *map(str, command)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def edited(workshop: Workshop) -> Program:
    program = workshop.build_with_tables(SOURCE)
    assert program.merged() and program.check()
    edit_code(program.folded)
    return program


def test_no_command_uses_the_tables(edited: Program, tmp_path: Path) -> None:
    image, vaddr = edited.folded, f"{address_of(edited.folded, '_Z3onei'):#x}"
    line = f"icf: warning: {image}: {LINE}: they are not used\n"
    stacks = tmp_path / "stacks"
    stacks.write_text(f"{vaddr} ?\n")
    for _ in range(2):  # the second time from the symcache
        status, out, err = said("resolve", "-e", image, "--out", "json", stacks)
        (frame, _) = json.loads(out)["frames"]
        assert (status, err) == (0, line)
        assert frame["verdict"] == "ambiguous"
        for more in ((), ("--lazy",)):
            assert said("symbolize", *more, "-e", image, vaddr)[2] == line
    assert said("disasm", "-e", image, vaddr)[2] == line
    assert said("dump", image) == (0, "", line)
    assert json.loads(said("dump", "--json", image)[1])["classes"] == []


def test_verify_and_a_second_pass_fail(edited: Program) -> None:
    before = edited.folded.read_bytes()
    problem = f"icf: error: {edited.folded}: {LINE}\nhint: link the program again\n"
    assert said("verify", edited.folded) == (1, "", problem)
    assert said("pass", edited.folded) == (1, "", problem)
    assert edited.folded.read_bytes() == before


def test_tables_in_a_debug_file_are_of_the_code_of_the_image(workshop: Workshop) -> None:
    program = workshop.build(SOURCE)
    debug = program.folded.with_suffix(".debug")
    run("objcopy", "--only-keep-debug", program.folded, debug)
    run("strip", program.folded)
    icf("pass", *workshop.pass_options(program), "--debug-file", debug, program.folded)
    assert said("verify", "--debug-file", debug, program.folded)[0] == 0
    run("objcopy", "--strip-debug", program.folded)  # does not move code
    assert said("verify", "--debug-file", debug, program.folded)[0] == 0
    with Image.open(str(program.folded)) as image:
        section = image.named(".text")
        assert section is not None
        data, at = bytearray(program.folded.read_bytes()), section.offset
    data[at] ^= 1
    program.folded.write_bytes(data)
    status, _, err = said("verify", "--debug-file", debug, program.folded)
    assert status == 1 and LINE in err


@pytest.mark.parametrize(
    "command",
    [
        ("objcopy", "--compress-debug-sections=zlib"),
        ("objcopy", "--strip-unneeded", "--keep-section=.debug_*"),
        ("objcopy", "--add-section", ".note.own=/etc/hostname"),
        ("gdb-add-index",),
        ("patchelf", "--set-rpath", "/nowhere/at/all/that/is/longer/than/what/was/there"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_what_does_not_move_code_keeps_the_tables(workshop: Workshop, command: tuple[str, ...]) -> None:
    program = workshop.build_with_tables(SOURCE)
    run(tool(command[0]), *command[1:], program.folded)
    assert said("verify", program.folded)[0] == 0
    program.check()


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_bolt_moves_the_code(workshop: Workshop) -> None:
    bolt = tool("llvm-bolt")
    program = workshop.build_with_tables(SOURCE, link_flags=["-no-pie"])
    moved = program.folded.with_suffix(".bolt")
    options = ("--update-debug-sections", "--reorder-functions=user", "--function-order=/dev/null")
    run(bolt, program.folded, "-o", moved, *options)
    assert LINE in said("verify", moved)[2]
