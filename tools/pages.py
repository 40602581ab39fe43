"""Writes the man pages and the completions of shells, from the argument parsers; setup.py puts them into wheels.

    share/man/man1/icf.1, icf-pass.1, ...               argparse-manpage, a page for each command
    share/bash-completion/completions/icf               shtab
    share/zsh/site-functions/_icf                       shtab
    share/fish/vendor_completions.d/icf.fish            shtab

    python tools/pages.py FOLDER                        writes FOLDER/share/...

The modules of the commands are imported for their parsers, so `build-system` in pyproject.toml lists the packages that
these import.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import shtab  # noqa: E402
from argparse_manpage.manpage import Manpage  # noqa: E402

from icf import __version__, cli  # noqa: E402

COMPLETIONS = {
    "bash": "share/bash-completion/completions/icf",
    "zsh": "share/zsh/site-functions/_icf",
    "fish": "share/fish/vendor_completions.d/icf.fish",
}
FILES = {"FILE", "IMAGE", "LIST", "LOG", "OBJECT", "OUT", "REPORT", "STACKS", "TRACE"}  # metavars
FOLDERS = {"DIR"}
# argparse-manpage leaves a line of help that begins with `.gnu_debuglink` as it is
_TEXT_LIKE_A_MACRO = re.compile(r"^(?=['.](?!(?:TH|SH|SS|TP|B|br)\b))", re.MULTILINE)
_EXAMPLES = re.compile(r"(?:^    .*\n)+", re.MULTILINE)  # which keep their lines


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each page."""
    os.environ["COLUMNS"] = "9999"  # the reader of a page breaks its lines
    yield "icf.1", _page(_overview(), "icf", cli.DESCRIPTION, ", ".join(rf"\fBicf\-{name}\fR(1)" for name in cli.VERBS))
    for name, verb in cli.VERBS.items():
        yield f"icf-{name}.1", _page(_parser_of(f"icf {name}", verb), f"icf-{name}", verb.help, r"\fBicf\fR(1)")
    yield "linkpass.1", ".so man1/icf-pass.1\n"


def _overview() -> argparse.ArgumentParser:
    """Return a parser whose page lists the commands."""
    parser = argparse.ArgumentParser(prog="icf", usage="icf COMMAND [ARGUMENTS]", description=cli.DESCRIPTION)
    parser.add_argument("-V", "--version", action="store_true", help=cli.VERSION_HELP)
    commands = parser.add_argument_group("commands")
    for name, verb in cli.VERBS.items():
        commands.add_argument(name, metavar=f"icf {name}", help=verb.help)
    return parser


def _parser_of(prog: str, verb: cli.Verb) -> argparse.ArgumentParser:
    return cli.parser_of(verb, prog, import_module(verb.module))


def _page(parser: argparse.ArgumentParser, name: str, description: str, see_also: str) -> str:
    about = {"project_name": "icf", "version": __version__, "manual_title": "icf", "description": description}
    page = Manpage(parser, about, format="single-commands-section")
    page.prog, page.date = name, ""  # with a date each build would be another one
    page.add_section("see also", ">", see_also)
    text = _TEXT_LIKE_A_MACRO.sub(r"\\&", str(page))
    return _EXAMPLES.sub(r".nf\n\g<0>.fi\n", text)


def completions() -> Iterator[tuple[str, str]]:
    """Yield the path and text of the script of each shell."""
    parser = argparse.ArgumentParser(prog="icf", description=cli.DESCRIPTION)
    parser.add_argument("-V", "--version", action="store_true", help=cli.VERSION_HELP)
    # `icf` itself imports only the module of the command that it runs
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_parser_of)
    for name, verb in cli.VERBS.items():
        commands.add_parser(name, help=verb.help, verb=verb)
    _complete_files(parser)
    for shell, path in COMPLETIONS.items():
        yield path, shtab.complete(parser, shell=shell)


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Mark the arguments that are files and folders, as shtab wants it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command)
        elif action.metavar in FILES | FOLDERS:
            action.complete = shtab.FILE if action.metavar in FILES else shtab.DIRECTORY


def write(folder: Path) -> list[Path]:
    """Write all pages and completions into a folder; return their paths in it."""
    texts = {f"share/man/man1/{name}": text for name, text in man_pages()} | dict(completions())
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return [Path(path) for path in texts]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
