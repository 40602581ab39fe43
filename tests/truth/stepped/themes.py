"""The programs: one theme each, many functions of one body, short runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("themes")


@dataclass(frozen=True)
class Theme:
    """A program and what is special in how it is built and run."""

    name: str
    files: tuple[str, ...]
    compilers: tuple[str, ...] = ()  # prefixes of names in COMPILERS; all of its language without
    flags: tuple[str, ...] = ()
    clang_flags: tuple[str, ...] = ()
    gcc_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    signal_every: int = 0  # steps between signals, for programs that ask for them

    @property
    def sources(self) -> list[Path]:
        return [FOLDER / file for file in self.files]

    @property
    def language(self) -> str:
        return self.sources[0].suffix[1:]


_ALL = [
    Theme("inheritance", ("inheritance.cpp",)),
    Theme("aliases", ("aliases.cpp",)),
    Theme("tails", ("tails.cpp",)),
    Theme("exceptions", ("exceptions.cpp",)),
    Theme("signals", ("signals.cpp",), signal_every=13),
    Theme("callbacks", ("callbacks.c",)),
]
THEMES = {theme.name: theme for theme in _ALL}
