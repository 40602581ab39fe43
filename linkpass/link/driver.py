"""Compiler drivers: recognizes them, and reads the linker command that they would run.

A wrapper (`exec clang++ -fuse-ld=lld -Wl,--icf=all "$@"`), a configuration file (`--config=`) or the environment
(`CCC_OVERRIDE_OPTIONS`) may choose the linker and its options. With `-###` among their words drivers print the
commands that they would run, and run none: the last of those commands is the linker's.

To add words to a command, or to run it twice, is safe only if it passes its words to a driver and does nothing
else: a wrapper that signs the program would sign twice. Known names count as drivers, other programs and
scripts do not, except a script whose last line is `exec DRIVER ... "$@"`, or has a launcher before the driver
(`exec ccache g++ ... "$@"`), or an array that was made of these words (`ARGS=("$@")`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from icf.errors import IcfError
from icf.linkinputs.responsefile import expand, split_words
from linkpass.link.command import LinkCommand, chosen_linker, is_linker, linker_of, output_of

_DRIVER = re.compile(
    r"(?:^|-)(?:g?cc|[gc]\+\+|clang(?:\+\+)?|gfortran|flang|gdc|icp?x|amdclang(?:\+\+)?)(?:-[0-9.]+)?(?:-posix|-win32)?$"
)
_LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc"})  # they pass a link to the command that follows
_SCRIPT_SIZE_LIMIT_BYTES = 1 << 16
# a word of a shell, not parsed any further: "$(dirname "$0")"/real-g++
_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s"'])+"""
_LAUNCHER = rf"""["']?(?:[^\s"']*/)?(?:{"|".join(sorted(_LAUNCHERS))})["']?"""
_ALL_WORDS = r"""(?:"\$@"|\$\{1\+"\$@"\}|"\$\{(?P<array>\w+)\[@\]\}")"""
_PASSES_ON = re.compile(
    rf"\s*exec\s+(?:-a\s+{_WORD}\s+)?(?:{_LAUNCHER}\s+)?(?P<driver>{_WORD})\s(?:.*\s)?{_ALL_WORDS}\s*"
)


def passes_words_on(command: LinkCommand) -> bool:
    """Return whether the command passes its words to a linker, and leaves the output alone."""
    if command.direct:
        return True
    name = command.command[place_of_driver(command)]
    path: str | None = name
    if not os.path.dirname(name):
        from shutil import which  # which takes 3 ms to import, and build systems name compilers by their paths

        path = which(name)
    script = _script(path) if path is not None else None
    if script is not None:
        lines = [line for line in script.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        ending = _PASSES_ON.fullmatch(lines[-1]) if lines else None
        if ending is None or (ending["array"] and f'{ending["array"]}=("$@")' not in map(str.strip, lines)):
            return False
        name = ending["driver"].replace('"', "").replace("'", "")
    return bool(_DRIVER.search(os.path.basename(name)))


def place_of_driver(command: LinkCommand) -> int:
    """Return which word of a command names the driver: the second after a launcher (`ccache g++ ...`)."""
    words = command.command
    return int(os.path.basename(words[0]) in _LAUNCHERS and len(words) > 1)


def program_of(command: LinkCommand, name: str) -> str:
    """Return the path of a program that the driver would run; "" if it does not say one."""
    import subprocess

    try:
        asked = [*command.command, f"-print-prog-name={name}"]
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    path = os.fsdecode(said).strip()
    return os.path.abspath(path) if os.path.dirname(path) and os.access(path, os.X_OK) else ""


def ask_driver(command: LinkCommand) -> LinkCommand:
    """Return the command with what its driver adds; unchanged if the driver adds nothing."""
    if command.direct or not passes_words_on(command):
        return command
    words = linker_words([*command.command, "-###"], _is_linker)
    if not words:
        return command
    named = linker_of(words[0])
    named = named if named.name else chosen_linker(words)  # gcc runs collect2, which looks for the linker
    output = output_of(words)
    options = expand(words[1:])
    return command._replace(
        output=output, arguments=(*command.arguments, *options), options=tuple(options), linker=named
    )


def _is_linker(word: str) -> bool:
    return is_linker(word) or os.path.basename(word) == "collect2"


def linker_words(command: list[str], is_linker: Callable[[str], bool]) -> list[str]:
    """Return the linker's command line among those that a driver prints; none if it runs no linker."""
    import subprocess

    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment)
    except OSError:
        return []
    for line in reversed(os.fsdecode(done.stderr).splitlines()):
        if not line.startswith(" "):
            continue
        try:
            words = split_words(line, "-###")
        except IcfError:
            return []
        if words and is_linker(words[0]):
            return words
    return []


def _script(path: str) -> str | None:
    """Return the text of a script; None for other programs."""
    try:
        with open(path, "rb") as file:
            text = file.read(_SCRIPT_SIZE_LIMIT_BYTES)
    except OSError:
        return None
    return os.fsdecode(text) if text.startswith(b"#!") else None
