"""Understands a link command as far as a pass after it needs: which linker, which output, folding or not.

A command is a compiler driver with linker options behind `-Wl,` and `-Xlinker`, or a linker called directly.
Nothing of it is changed; options are only added at its end, where they bind to nothing else.

    c++ -fuse-ld=lld -Wl,--icf=all,--gc-sections @objects.rsp -o prog
        driver, linker lld, folds, output prog
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from icf.errors import IcfError
from icf.linkinputs.responsefile import expand

_LINKERS = {"lld": "LLD ", "gold": "GNU gold", "mold": "mold ", "bfd": "GNU ld"}
_DIRECT_NAMES = ("ld", "lld", "gold", "mold")
_NO_LINK = frozenset({"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--version", "-###", "--help"})
_STRIPS = frozenset({"-s", "--strip-all"})


@dataclass(frozen=True, slots=True)
class LinkCommand:
    """A command and what is known of it; `options` are the linker's, response files expanded."""

    command: tuple[str, ...]
    direct: bool  # a linker, not a compiler driver
    links: bool  # it links at all, to something that can be run
    output: str
    options: tuple[str, ...]

    @property
    def folds(self) -> bool:
        """Whether identical functions get folded."""
        modes = [option.partition("=")[2] for option in self.options if option.startswith(("--icf=", "-icf="))]
        return bool(modes) and modes[-1] in ("all", "safe")

    @property
    def strips(self) -> bool:
        """Whether the linker leaves symbols out: then it cannot keep relocations, and no name is left to tell."""
        return any(option in _STRIPS for option in self.options)

    def has(self, *names: str) -> bool:
        """Whether the linker gets one of these options."""
        return any(option in names for option in self.options)

    def with_options(self, options: Iterable[str]) -> list[str]:
        """The command with further linker options."""
        if self.direct:
            return [*self.command, *options]
        return [*self.command, *(f"-Wl,{option}" for option in options)]


def parse_link_command(command: Sequence[str]) -> LinkCommand:
    """Read a command line; response files are opened."""
    if not command:
        raise IcfError("no link command", hint="icf link -- c++ -fuse-ld=lld -Wl,--icf=all -o prog *.o")
    base = os.path.basename(command[0])
    stem = base.removesuffix(".exe")
    direct = any(stem == name or stem.startswith((f"{name}.", f"{name}-")) for name in _DIRECT_NAMES)
    direct |= stem.endswith(("-ld", "-ld.gold", "-ld.bfd", "-ld.lld", "-ld.mold"))  # aarch64-linux-gnu-ld
    arguments = expand(command[1:])
    options = tuple(arguments) if direct else tuple(_linker_options(arguments))
    output = _output(arguments, options)
    relocatable = any(option in ("-r", "-i", "--relocatable") for option in (*arguments, *options))
    links = not relocatable and not any(argument in _NO_LINK for argument in arguments)
    return LinkCommand(tuple(command), direct, links, output, options)


def _linker_options(arguments: Sequence[str]) -> Iterator[str]:
    """What a driver hands on to the linker."""
    following = iter(arguments)
    for argument in following:
        if argument.startswith("-Wl,"):
            yield from argument[4:].split(",")
        elif argument == "-Xlinker":
            yield next(following, "")
        elif argument in ("-s", "-r"):
            yield argument


def _output(arguments: Sequence[str], options: Sequence[str]) -> str:
    output = "a.out"
    for known in (arguments, options):
        for at, argument in enumerate(known):
            if argument in ("-o", "--output") and at + 1 < len(known):
                output = known[at + 1]
            elif argument.startswith("--output="):
                output = argument.partition("=")[2]
            elif argument.startswith("-o") and len(argument) > 2 and not argument.startswith("-oformat"):
                output = argument[2:]
    return output


def find_linker(command: LinkCommand) -> str:
    """Which linker it is ("lld", "gold", "mold", "bfd"), as it says itself; "" if it says nothing known."""
    if command.direct:
        asked = [command.command[0], "--version"]
    else:
        chooses = ("-fuse-ld", "--ld-path", "-B", "--target", "-m")
        asked = [command.command[0], *_choosing(command.command[1:], chooses), "-Wl,--version"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        raise IcfError(f"{command.command[0]}: {error.strerror}") from error
    text = said.stdout + said.stderr
    for linker, words in _LINKERS.items():
        if words in text:
            return linker
    return ""


def _choosing(arguments: Sequence[str], prefixes: tuple[str, ...]) -> Iterator[str]:
    following = iter(expand(list(arguments)))
    for argument in following:
        if argument.startswith(prefixes):
            yield argument
            if argument == "-B":
                yield next(following, "")
