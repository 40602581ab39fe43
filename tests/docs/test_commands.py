"""Every command that the documentation shows is run, and prints what the page says. It is run by the installed wheel.

The commands of one section (`##`) run in order in a directory of their own. It holds the demo's sources, `shop` (the
checked-in program, with its tables), `shop.linked` (as the linker left it), `stacks.txt` (the three stacks that the
program printed) and the files whose text the section shows. A line `...` stands for any number of lines, and `...` in a
line for any text.

`DOCS_UPDATE=1` rewrites the output that the pages show; read that diff.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.support.markdown import Block, Page, Section, read_page
from tests.support.paths import ROOT
from tests.support.toolchain import tool

ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [read_page(path) for path in (*(ROOT / name for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md")))]
SECTIONS = [(page, section) for page in PAGES for section in page.sections if section.blocks]
SHOP = ROOT / "testdata" / "shop"
LANGUAGES = {"console", "python", "text", "sh", "json", "toml", "ini", "cmake", "meson", "makefile", "cpp", "rust"}
UPDATE = "DOCS_UPDATE" in os.environ
_NUMBER = re.compile(r"\b0x[0-9a-f]+|(?<![\w.])\d+(?![\w.])")
_ANY_NUMBER = "(?:0x[0-9a-f]*[1-9a-f][0-9a-f]*|[1-9][0-9]*)"


def name_of(value: object) -> str | None:
    return str(value.path.relative_to(ROOT)) if isinstance(value, Page) else getattr(value, "title", None)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Path:
    """What each section starts with, and the commands of the wheel in `bin`."""
    folder = tmp_path_factory.mktemp("docs")
    for source in (ROOT / "demo").iterdir():
        if source.suffix in (".cpp", ".h"):
            shutil.copy(source, folder)
    shutil.copy(SHOP / "shop.gold", folder / "shop.linked")
    recorded = (SHOP / "shop.gold.json").read_text().splitlines()
    (folder / "stacks.txt").write_text("".join(f"{json.loads(line)['stack']}\n" for line in recorded))
    for name in ("shop.exe", "shop.pdb", "shop.obj", "shop-dwarf.exe", "shop-dwarf.obj"):
        shutil.copy(ROOT / "testdata" / "pe" / name, folder)
    shutil.copy(ROOT / "testdata" / "trace" / "allasm_x86_64.trace.zip", folder)
    (folder / "bin").mkdir()
    of_wheel = {name: [str(installed / "bin" / name)] for name in ("python", "linkpass")}
    of_wheel["icf"] = [*icf_command(of_wheel["python"][0])]
    for name, words in of_wheel.items():
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    subprocess.run([folder / "bin" / "icf", "pass", "-q", "shop.linked", "-o", "shop"], cwd=folder, check=True)
    return folder


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "CARGO_TERM_QUIET": "true",
        "ICF_CACHE_DIR": f"{folder}/cache",
    }


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(folder), text=True, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def fits(shown: list[str], printed: list[str], *, numbers_vary: bool = False) -> bool:
    """Whether the output is what the page shows; `...` stands for any lines."""
    while shown and shown[-1] == "":
        shown = shown[:-1]
    while printed and printed[-1] == "":
        printed = printed[:-1]
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + "\n" for line in shown
    )
    if numbers_vary:  # another version of the compiler makes other code of the same source
        pattern = _NUMBER.sub(lambda number: _ANY_NUMBER if int(number[0], 16) else number[0], pattern)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize(
    ("printed", "is_same"),
    [
        ("12 functions share 3 bodies at 0x91c, 0 open", True),
        ("12 functions share 3 bodies at 0x91c, 1 open", False),
        ("0 functions share 3 bodies at 0x91c, 0 open", False),
        ("12 functions share 3 bodies at 0x0, 0 open", False),
        ("12 functions share 3 bodies, 0 open", False),
    ],
)
def test_where_numbers_vary_words_and_zeros_are_compared(printed: str, is_same: bool) -> None:
    shown = ["10 functions share 4 bodies at 0x880, 0 open"]
    assert fits(shown, [printed], numbers_vary=True) is is_same
    assert not fits(shown, [printed])


def corrected(page: Page, block: Block, printed: list[list[str]]) -> None:
    """Write what the commands of a block print into the page."""
    text = "".join(
        f"$ {command}\n"
        + "".join(f"{line}\n" for line in (output if fits(output, new, numbers_vary=block.numbers_vary) else new))
        for (command, output), new in zip(block.commands, printed, strict=True)
    )
    page.path.write_text(page.path.read_text().replace(f"```console\n{block.text}```", f"```console\n{text}```"))


@pytest.mark.parametrize(("page", "section"), SECTIONS, ids=name_of)
def test_the_commands_of_a_section_print_what_it_shows(
    page: Page, section: Section, prepared: Path, tmp_path: Path
) -> None:
    blocks = [block for block in section.blocks if "not run" not in block.notes]
    if not any(block.language == "console" for block in blocks):
        return
    needed = {name.strip() for block in blocks for name in block.notes.get("needs", "").split(",") if name.strip()}
    found = {name: tool(name) for name in needed}
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    for name, path in found.items():
        if Path(path).name != name:
            (tmp_path / "bin" / name).symlink_to(path)
    for block in blocks:
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.text)
            (tmp_path / block.title).chmod(0o755 if block.text.startswith("#!") else 0o644)
        if block.language != "console":
            continue
        printed = []
        for command, shown in block.commands:
            done = run(command, tmp_path)
            where = f"{page.path.relative_to(ROOT)}:{block.line}: {command}"
            assert done.returncode == int(block.notes.get("status", "0")), f"{where}\n{done.stdout}"
            printed.append(done.stdout.replace(f"{tmp_path}/", "").splitlines())
            if not UPDATE and "output differs" not in block.notes:
                assert fits(shown, printed[-1], numbers_vary=block.numbers_vary), f"{where}\n" + "\n".join(printed[-1])
        if UPDATE and "output differs" not in block.notes:
            corrected(page, block, printed)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_of_a_kind_that_is_checked(page: Page) -> None:
    for block in page.blocks:
        where = f"{page.path}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: language {block.language!r}"
        assert block.language != "console" or block.text.startswith("$ "), f"{where}: begins with no command"
        assert block.language in ("console", "python", "text") or block.title or "not run" in block.notes, (
            f"{where}: neither a file nor shown only"
        )


def test_the_commands_are_those_of_the_wheel(prepared: Path, installed: Path) -> None:
    commands = ["icf gdb --print-path", 'python -c "import unwind; print(unwind.__file__)"', "linkpass --version"]
    plugin, library, version = (run(command, prepared).stdout for command in commands)
    assert plugin.startswith(f"source {installed}/lib") and library.startswith(f"{installed}/lib")
    assert version == run("icf --version", prepared).stdout


def test_commands_that_are_only_shown_name_what_there_is() -> None:
    for page in PAGES:
        for block in page.blocks:
            if block.language != "console" or "not run" not in block.notes:
                continue
            for command, _ in block.commands:
                words = shlex.split(command)
                if words[0] == "make" and not {"-C", "-j", "CXX=icf link -- g++"} & set(words):
                    targets = [word for word in words[1:] if "=" not in word]
                    subprocess.run(["make", "-n", "-C", ROOT, *targets], check=True, capture_output=True)
                for word in words:
                    if word.startswith("tests/"):
                        assert (ROOT / word.partition("::")[0]).exists(), f"{page.path}:{block.line}: {word}"
                    if re.fullmatch(r"tests(\.\w+)+", word):
                        assert (ROOT / word.replace(".", "/")).is_dir() or (
                            ROOT / f"{word.replace('.', '/')}.py"
                        ).exists(), f"{page.path}:{block.line}: {word}"


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.run"], cwd=ROOT, env=environment(tmp_path), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    shown = next(block.text for page in PAGES for block in page.blocks if block.text.startswith("$ make demo\n"))
    demo = shown.removeprefix("$ make demo\n").partition("$ make test")[0]
    assert fits(demo.splitlines(), done.stdout.strip().splitlines(), numbers_vary=True), done.stdout
