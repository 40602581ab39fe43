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
    extent: str = "all"  # of the builds: "few" are enough for what others have in other words
    signal_every: int = 0  # steps between signals, for programs that ask for them

    @property
    def sources(self) -> list[Path]:
        return [FOLDER / file for file in self.files]

    @property
    def language(self) -> str:
        return self.sources[0].suffix[1:]


_RETPOLINES = ("-mretpoline",)
_ALL = [
    Theme("inheritance", ("inheritance.cpp",)),
    Theme("aliases", ("aliases.cpp",)),
    Theme("tails", ("tails.cpp",)),
    Theme("exceptions", ("exceptions.cpp",)),
    Theme("signals", ("signals.cpp",), signal_every=13),
    Theme("callbacks", ("callbacks.c",)),
    Theme("coroutines", ("coroutines.cpp",), flags=("-std=c++20",)),
    Theme("fibres", ("fibres.cpp",)),
    Theme("pointers", ("pointers.cpp",), flags=("-std=c++17",)),
    Theme("replaced", ("replaced.cpp",)),
    Theme("statics", ("statics.c", "statics_one.c")),
    Theme("generics", ("generics.rs",)),
    Theme(
        "retpolines",
        ("inheritance.cpp",),
        clang_flags=_RETPOLINES,
        gcc_flags=("-mindirect-branch=thunk",),
        extent="few",
    ),
    Theme("loaded", ("loaded.cpp", "loaded_callees.cpp"), flags=("-fno-plt",)),
    Theme("profiled", ("tails.cpp",), flags=("-pg",), extent="few"),
    Theme("packed", ("exceptions.cpp",), flags=("-Os", "-fno-align-functions"), extent="few"),
]
THEMES = {theme.name: theme for theme in _ALL}
