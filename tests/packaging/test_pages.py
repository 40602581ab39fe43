"""Man pages and completions: written from the parsers, read by man and by the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.cli import VERBS
from tests.support.paths import ROOT
from tests.support.toolchain import tool


@pytest.fixture(scope="session")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run([sys.executable, ROOT / "tools" / "pages.py", folder], check=True)
    return folder / "share"


def shown(share: Path, name: str) -> str:
    """Return a man page as man shows it."""
    page = share / "man" / "man1" / f"{name}.1"
    environment = {**os.environ, "MANWIDTH": "200", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([tool("man"), "-l", page], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_each_command_has_a_page_that_mandoc_accepts(share: Path) -> None:
    pages = sorted((share / "man" / "man1").glob("icf*.1"))
    assert {page.name for page in pages} == {"icf.1", *(f"icf-{name}.1" for name in VERBS)}
    done = subprocess.run([tool("mandoc"), "-T", "lint", "-W", "error", *pages], capture_output=True, text=True)
    assert done.stdout == ""


def test_a_page_has_every_option_and_its_help(share: Path) -> None:
    text = shown(share, "icf-pass")
    assert "icf-pass - write the call-site tables into a linked image" in text
    assert "--link-map FILE\n              the linker's -Map: names the objects of the link" in text
    assert ".gnu_debuglink" in text  # a line of its source began with it
    assert "icf(1)" in text


def test_the_first_page_lists_the_commands(share: Path) -> None:
    text = shown(share, "icf")
    assert all(f"icf {name}" in text and verb.help in text for name, verb in VERBS.items())


def test_examples_keep_their_lines(share: Path) -> None:
    lines = shown(share, "icf-cache").splitlines()
    assert (
        "           icf cache prune --max-size 1G       remove those that were not used for the longest time" in lines
    )


# what is typed, and what a shell makes of it
COMPLETED = {
    "icf repo": ["report"],
    "icf resolve --form": ["--format"],
    "icf cache pr": ["prune"],
    "icf symbolize --style gn": ["gnu"],
    "icf pass imag": ["image-to-pass"],
}
BASH = """
source "$1"
COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$(complete -p icf | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes(share: Path, tmp_path: Path) -> None:
    (tmp_path / "image-to-pass").touch()
    script = share / "bash-completion" / "completions" / "icf"
    for typed, expected in COMPLETED.items():
        command = [tool("bash"), "-c", BASH, "bash", str(script), typed]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == expected, typed


def test_fish_completes(share: Path, tmp_path: Path) -> None:
    (tmp_path / "image-to-pass").touch()
    script = share / "fish" / "vendor_completions.d" / "icf.fish"
    for typed, expected in COMPLETED.items():
        command = [tool("fish"), "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(script), typed]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == expected, typed


def test_zsh_completes(share: Path, tmp_path: Path) -> None:
    """It completes on a terminal only, so it has one."""
    zsh = tool("zsh")
    (tmp_path / "image-to-pass").touch()
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(zsh, ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb"})
    try:
        typed = f"PS1=; fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n"
        assert "\nready" in answer(terminal, typed, "\nready")
        for typed, expected in COMPLETED.items():
            whole = f"{typed.rpartition(' ')[0]} {expected[0]} "
            assert whole in answer(terminal, f"{typed}\t", whole)
            os.write(terminal, b"\x15")  # ^U
    finally:
        os.close(terminal)  # which ends the shell
        os.waitpid(process, 0)


def answer(terminal: int, typed: str, expected: str) -> str:
    """Type something; return what the terminal shows until there is what was expected, or 30 seconds are over."""
    os.write(terminal, typed.encode())
    text, end_s = "", time.monotonic() + 30
    while expected not in text and (left_s := end_s - time.monotonic()) > 0:
        if select.select([terminal], [], [], left_s)[0]:
            text += os.read(terminal, 1 << 16).decode(errors="replace")
    return text
