"""Parses a link command as far as a pass after it needs: which linker, which output, folding or not.

A command is a compiler driver with linker options after `-Wl,` and `-Xlinker`, or a linker called directly.
No word of it is changed; options are only added at its end, where they bind to nothing else.

    c++ -fuse-ld=lld -Wl,--icf=all,--gc-sections @objects.rsp -o prog
        driver, linker lld, folds, output prog

The linker follows from the command alone; running the linker to find out would take longer than parsing a
thousand commands. Where the compiler chooses it, it is not known, and no answer needs it. Options that a
wrapper or a configuration file adds are not in the command; `linkpass.link.driver` asks the driver for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from icf.linkers import LINKERS, UNKNOWN, Linker, linker_named
from icf.linkinputs.commandline import input_words
from icf.linkinputs.responsefile import expand

_NAMES = "|".join(linker.name for linker in LINKERS)
_LINKER = re.compile(rf"(?:^|[-.])({_NAMES})(?:-[0-9.]+)?$")  # ld.lld, aarch64-linux-gnu-ld.gold, lld-19
_DIRECT = re.compile(r"(?:^|-)(?:ld|ld[.-][a-z]+|lld|gold|mold)(?:-[0-9.]+)?$")
_DRIVER_ENDS_EARLIER = frozenset({"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--version", "-###", "--help"})
_LINKER_ENDS_EARLIER = frozenset({"--version", "--help"})  # for a linker -S, -E and -M are other options
_SOURCE = re.compile(
    r"\.(?:[cCdiIsSmMfF]|ii|mii?|mm|cc|cp|cxx|cpp|CPP|c\+\+|c\+\+m|cppm|for|ftn|FOR|fpp|FPP|FTN|[fF](?:90|95|03|08)|"
    r"adb|ads|go|sx|cu|hip|ll)"
)
_BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_ARCHIVE_MAGIC = b"!<arch>\n"
_ARCHIVE_HEAD_SIZE_BYTES = 1 << 20


class LinkCommand(NamedTuple):
    """A command and the facts that follow from it."""

    command: tuple[str, ...]
    direct: bool  # a linker, not a compiler driver
    links: bool  # it links at all, to something that can be run
    output: str
    arguments: tuple[str, ...]  # response files expanded
    options: tuple[str, ...]  # those of the linker
    linker: Linker  # `UNKNOWN` where the compiler chooses

    @property
    def folds(self) -> bool:
        """Whether identical functions get folded."""
        return self.value_of("--icf", "-icf") in ("all", "safe") and self.linker.folds_functions

    @property
    def is_clang(self) -> bool:
        """Whether the driver, or the plugin that compiles during the link, is LLVM's."""
        names = (os.path.basename(self.command[0]), *self.options)
        return "clang" in names[0] or any(name.endswith("LLVMgold.so") for name in names[1:])

    def has(self, *names: str) -> bool:
        """Return whether the linker gets one of these options, with an argument or without."""
        return any(option.partition("=")[0] in names for option in self.options)

    def value_of(self, *names: str) -> str:
        """Return the value of the last of these options, `--name=value` or `--name value`; "" if there is none."""
        found = ""
        for option, following in zip(self.options, [*self.options[1:], ""], strict=False):
            name, is_joined, value = option.partition("=")
            if name in names:
                found = value if is_joined else following
        return found

    def compiles(self) -> bool:
        """Return whether the link makes code (LTO), so that no given object has it."""
        if any(argument.startswith("-flto") for argument in self.arguments):
            return True
        return any(_is_bitcode(word) for word in input_words(self.arguments)[0])

    def has_sources(self) -> bool:
        """Return whether a driver is given something to compile."""
        if self.direct:
            return False
        inputs, _ = input_words(self.arguments)
        return "-x" in self.arguments or any(_SOURCE.fullmatch(os.path.splitext(word)[1]) for word in inputs)

    def with_options(self, options: Iterable[str]) -> list[str]:
        """Return the command with further linker options."""
        if self.direct:
            return [*self.command, *options]
        words = list(self.command)
        for option in options:  # -Wl, splits at commas
            words += ["-Xlinker", option] if "," in option else [f"-Wl,{option}"]
        return words


def parse_link_command(command: Sequence[str]) -> LinkCommand:
    """Read a command line; response files are opened."""
    base = os.path.basename(command[0]).removesuffix(".exe")
    direct = bool(_DIRECT.search(base))
    arguments = expand(command[1:])
    if not direct:
        arguments = _with_linkers_files(arguments)
    options = tuple(arguments) if direct else tuple(_linker_options(arguments))
    output = output_of(arguments, options)
    ends_earlier = _LINKER_ENDS_EARLIER if direct else _DRIVER_ENDS_EARLIER
    relocatable = any(option in ("-r", "-i", "--relocatable") for option in (*arguments, *options))
    links = not relocatable and not any(argument in ends_earlier for argument in arguments) and _has_inputs(arguments)
    linker = linker_of(base) if direct else chosen_linker(arguments)
    return LinkCommand(tuple(command), direct, links, output, tuple(arguments), options, linker)


def output_of(arguments: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return the file that is written: the value of the last `-o`."""
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


def chosen_linker(arguments: Sequence[str]) -> Linker:
    """Return the linker that the words of a driver choose."""
    name = chosen_name(arguments)
    return linker_of(name) if name else UNKNOWN


def chosen_name(arguments: Sequence[str]) -> str:
    """Return the name or the path of that linker, "" if they choose none; the last such word counts."""
    choices = [argument.partition("=") for argument in arguments]
    named = [name for option, _, name in choices if option in ("-fuse-ld", "--ld-path")]
    return named[-1] if named else ""


def linker_of(path: str) -> Linker:
    """Return which linker has this name."""
    match = _LINKER.search(os.path.basename(path))
    return linker_named(match[1]) if match else UNKNOWN


def is_linker(path: str) -> bool:
    """Return whether a program of this name is a linker, and not a compiler driver."""
    return bool(_DIRECT.search(os.path.basename(path)))


def _with_linkers_files(arguments: Sequence[str]) -> list[str]:
    """Return the words of a driver with those of the response files that only the linker opens: `-Wl,@file`."""
    words: list[str] = []
    following = iter(arguments)
    for argument in following:
        if argument == "-Xlinker":
            given = [argument, next(following, "")]
            parts = given[1:]
        else:
            given = [argument]
            parts = argument[4:].split(",") if argument.startswith("-Wl,") else []
        if any(part.startswith("@") for part in parts):
            given = [word for part in expand(parts) for word in ("-Xlinker", part)]
        words += given
    return words


def _linker_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words that a driver passes to the linker."""
    following = iter(arguments)
    for argument in following:
        if argument.startswith("-Wl,"):
            yield from argument[4:].split(",")
        elif argument == "-Xlinker":
            yield next(following, "")
        elif argument in ("-s", "-r"):
            yield argument


def _has_inputs(arguments: Sequence[str]) -> bool:
    """Return whether there is anything to link; a command that only prints the driver's version has nothing."""
    inputs, libraries = input_words(arguments)
    return bool(inputs or libraries) or "-" in arguments


def _is_bitcode(path: str) -> bool:
    """Return whether a file is bitcode, or an archive of it."""
    try:
        with open(path, "rb") as file:
            head = file.read(8)
            if head == _ARCHIVE_MAGIC:  # the first member after a table of symbols is enough
                head = file.read(_ARCHIVE_HEAD_SIZE_BYTES)
                return any(b"`\n" + magic in head for magic in _BITCODE_MAGICS)
    except OSError:
        return False
    return head.startswith(_BITCODE_MAGICS)
