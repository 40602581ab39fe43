"""What terminals would act on is escaped wherever names and paths are printed for people, and nowhere else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from icf.printable import printable, say
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

SHOP = ROOT / "testdata/shop/shop.gold"
HOSTILE = b"gr\x1b[2J\n#1 \xe2\x80\xae\xc2\x9b\xff"
SHOWN = r"gr\x1b[2J\n#1 \u202e\x9b\xff"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fir::taps(int)", "fir::taps(int)"),
        ("caf\u00e9 \u51fd\u6570", "caf\u00e9 \u51fd\u6570"),
        (HOSTILE.decode("utf-8", "surrogateescape"), SHOWN),
        ("\u2066\u2028\u200f\u061c\x00\x7f", r"\u2066\u2028\u200f\u061c\x00\x7f"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_for_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo", "three")
    assert capsys.readouterr().err == "one\\ntwo\nthree\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose `main` has a hostile name, in a folder with one, without debug information."""
    folder = tmp_path_factory.mktemp("printable") / os.fsdecode(b"fold\x1b[1mer\n0 B")
    folder.mkdir()
    source = folder / "a.c"
    stand_in = b"m" * len(HOSTILE)
    source.write_bytes(b"int %s(void) { return 1; } int main(void) { return %s(); }" % (stand_in, stand_in))
    run(tool("gcc"), "-O0", source, "-o", folder / "a")
    image = folder / "a"
    image.write_bytes(image.read_bytes().replace(stand_in + b"\0", HOSTILE + b"\0"))
    return image


def icf(*args: str | Path, folder: Path, stdout: int = subprocess.PIPE) -> tuple[bytes, bytes]:
    environment = os.environ | {"ICF_CACHE_DIR": str(folder)}
    done = subprocess.run([*icf_command(), *args], stdout=stdout, stderr=subprocess.PIPE, env=environment)
    return done.stdout or b"", done.stderr


def address_of(program: Path) -> str:
    from icf.elf.image import Image

    with Image.open(program) as image:
        symbols = image.symbols
        row = next(row for row in symbols.functions.tolist() if symbols.name(row).startswith("gr"))
        return hex(int(symbols.value[row]))


def test_names_and_paths_in_text(program: Path, tmp_path: Path) -> None:
    address = address_of(program)
    stacks = tmp_path / "stacks"
    stacks.write_text(f"{address}\n")
    commands: tuple[list[str | Path], ...] = (
        ["resolve", "-e", program, stacks],
        ["cache", "build", "--force", program],
        ["cache", "list"],
        ["cache", "verify"],
        ["pass", program, "-o", tmp_path / "out"],
        ["verify", program],
        ["dump", program],
        ["symbolize", "-e", program.parent / "none", "0x1"],
    )
    for args in commands:
        out, err = icf(*args, folder=tmp_path / "cache")
        assert not set(b"\x1b\x9b\x80") & set(out + err), (args, out, err)
        assert out + err
    assert SHOWN in icf("resolve", "-e", program, stacks, folder=tmp_path / "cache")[0].decode()


@pytest.mark.parametrize("style", ["llvm", "gnu"])
def test_symbolize_escapes_on_a_terminal_alone(program: Path, tmp_path: Path, style: str) -> None:
    address = address_of(program)
    args: list[str | Path] = ["symbolize", "-e", program, "--style", style, "-f", address]
    assert HOSTILE in icf(*args, folder=tmp_path)[0]  # as llvm-symbolizer and addr2line have it
    master, terminal = pty.openpty()
    icf(*args, folder=tmp_path, stdout=terminal)
    os.close(terminal)
    shown = os.read(master, 1 << 16)
    os.close(master)
    assert SHOWN.encode() in shown and b"\x1b" not in shown


def test_names_that_are_not_utf8_stay_distinct_in_json(program: Path, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks"
    stacks.write_text(f"{address_of(program)}\n")
    out, _ = icf("resolve", "-e", program, "--out", "json", stacks, folder=tmp_path)
    answer = json.loads(out)["frames"][0]
    assert [os.fsencode(name) for name in (answer["linkage_name"], *answer["candidates"]) if name] == [HOSTILE]
    answer = json.loads(icf("symbolize", "-e", program, "--style", "json", address_of(program), folder=tmp_path)[0])
    found = answer[0]["Symbol"][0]["FunctionName"] if isinstance(answer, list) else answer["Symbol"][0]["FunctionName"]
    assert os.fsencode(found) == HOSTILE
