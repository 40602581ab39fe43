"""`icf link -- lld-link ...`, or `clang-cl`: run the link of a PE image, then the pass with its objects and libraries.

    /opt:icf        folds; /debug without it does not
    /out:app.exe    else the name of the first object
    x.obj y.lib     inputs, also in response files; a library is searched where /libpath: and LIB say
    /wholearchive:z.lib, /defaultlib:w.lib

Options begin with `/` or `-`, and case does not matter in them. A word that begins with `/` and is a file is an input,
as for lld-link.

clang-cl runs lld-link with the words after `/link` and some of its own; with `-###` it prints the command. Where it
also compiles sources, their objects are gone after the link, so their calls have no records.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

from icf.errors import IcfError
from icf.linkinputs.responsefile import expand
from icf.printable import printable
from linkpass.link.driver import linker_words
from linkpass.pe.inputs import Given
from linkpass.pe.run import run_pass, summary_lines, warnings_of

_LINKER = re.compile(r"(?:^|[/\\])lld-link(?:-[0-9.]+)?(?:\.exe)?$", re.IGNORECASE)
_DRIVER = re.compile(r"(?:^|[/\\])clang-cl(?:-[0-9.]+)?(?:\.exe)?$", re.IGNORECASE)
_LIBRARIES = ("wholearchive", "defaultlib")
_VARIABLES = ("LINK", "_LINK_")  # which lld-link reads options from
_EXIT_FAILED = 1
Say = Callable[..., None]


class PeLink(NamedTuple):
    """A link command, as far as a pass after it needs it."""

    command: tuple[str, ...]
    output: str
    folds: bool
    inputs: tuple[str, ...]  # objects and archives that exist
    given: Given = Given.SOME  # whether these are all inputs of the link


def is_pe_linker(word: str) -> bool:
    """Return whether a command is a linker for PE images."""
    return _LINKER.search(word) is not None


def find_pe_link(words: list[str]) -> PeLink | None:
    """Return what a command links, if it is lld-link, or clang-cl and runs lld-link; else None.

    Raises:
        IcfError: a response file cannot be read.
    """
    if is_pe_linker(words[0]):
        return parse_pe_link(words)
    if not _DRIVER.search(words[0]):
        return None
    linked = linker_words([words[0], "-###", *words[1:]], is_pe_linker)
    return parse_pe_link(linked)._replace(command=tuple(words)) if linked else None


def parse_pe_link(words: Sequence[str]) -> PeLink:
    """Parse the command of a linker; raise IcfError for a response file that cannot be read."""
    output, named, folders = "", list[str](), [""]
    debug, mode, ignores = False, None, False
    for word in expand(words[1:]):
        if not (word.startswith("-") or (word.startswith("/") and not os.path.isfile(word))):
            named.append(word)
            continue
        name, _, value = word[1:].partition(":")
        name = name.lower()
        if name == "out":
            output = value
        elif name == "debug":
            debug = value.lower() != "none"
        elif name == "opt":
            modes = [each for each in value.lower().split(",") if each in ("icf", "safeicf", "noicf")]
            mode = modes[-1] if modes else mode
        elif name == "libpath":
            folders.append(value)
        elif name in _LIBRARIES and value:
            named.append(value)
        elif name == "nodefaultlib" and not value:
            ignores = True
    if not output and named:
        output = os.path.splitext(named[0])[0] + ".exe"
    folds = mode in ("icf", "safeicf") or (mode is None and not debug)
    folders += filter(None, os.environ.get("LIB", "").split(";"))
    found = [_find(each, folders) for each in named]
    given = Given.ALL if ignores else Given.BUT_LIBRARIES
    if not all(found) or any(map(os.environ.get, _VARIABLES)):
        given = Given.SOME
    return PeLink(tuple(words), output, folds, tuple(dict.fromkeys(filter(None, found))), given)


def _find(name: str, folders: Sequence[str]) -> str:
    """Return the path of an input; "" if there is none."""
    for each in (name, f"{name}.lib"):
        for folder in folders:
            path = os.path.join(folder, each)
            if os.path.isfile(path):
                return path
    return ""


def link_and_pass(link: PeLink, say: Say, *, strict: bool, summary: bool) -> int:
    """Run a link command and, if it folds functions, the pass.

    Args:
        link: the command.
        say: writes lines to stderr.
        strict: whether a link that does not fold, or a pass that fails, is a failure.
        summary: whether to write what the pass found.

    Returns:
        The exit status.

    Raises:
        IcfError: the linker cannot be started.
    """
    try:
        status = subprocess.run(link.command, check=False).returncode
    except OSError as error:
        raise IcfError(f"{link.command[0]}: {error.strerror}") from error
    if status:
        return status
    if not link.folds:
        if strict or summary:
            say(f"icf link: {'error: ' * strict}{link.output}: not folded: /opt:icf is not among the options")
        return _EXIT_FAILED if strict else 0
    try:
        found = run_pass(link.output, None, None, (), link.inputs, is_just_linked=True, given=link.given)
    except IcfError as error:
        say(f"icf link: {'error' if strict else 'warning'}: {error}", *([f"hint: {error.hint}"] if error.hint else []))
        return _EXIT_FAILED if strict else 0
    if summary:
        say(*(f"icf link: warning: {each}" for each in map(printable, warnings_of(found))))
        say(*map(printable, summary_lines(found)))
    return 0
