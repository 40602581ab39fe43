"""A link command with copies in the place of some inputs.

    c++ main.o lib/libtill.a -lshop    copies of main.o, lib/libtill.a and /usr/lib/libshop.a
    c++ /tmp/d/0/main.o /tmp/d/1/libtill.a -L/tmp/d/2 -lshop

An archive that no word names is one that the linker has found by `-lname`, or that the compiler adds: its directory is
searched first. An object that no word names comes from a linker script, which nothing here changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from icf.linkinputs.responsefile import escaped, expand

_LENGTH_LIMIT_BYTES = 1 << 17
_RESPONSE_FILE = "words"


def with_copies(words: tuple[str, ...], copies: Mapping[str, str], folder: str) -> tuple[tuple[str, ...], list[str]]:
    """Return a command's words with these copies, and the originals for which that is not possible.

    Args:
        words: the command.
        copies: the copy of each original, by path.
        folder: where a response file may be written.
    """
    if not copies:
        return words, []
    by_file = {os.path.abspath(path): path for path in copies}
    used: set[str] = set()

    def copy_of(word: str) -> str:
        path = by_file.get(os.path.abspath(word)) if word and not word.startswith("-") else None
        if path is None:
            return word
        used.add(path)
        return copies[path]

    new = []
    outputs = ("-o", "--output", "-MF", "-Map")
    arguments = expand(words[1:])
    for before, word in zip(("", *arguments), arguments, strict=False):
        if word.startswith("-Wl,"):
            new.append(",".join(map(copy_of, word.split(","))))
        else:
            new.append(word if before in outputs else copy_of(word))
    libraries = [path for path in copies if path not in used and _is_library(path)]
    at = next((idx for idx, word in enumerate(new) if word.startswith(("-L", "-l"))), len(new))
    new[at:at] = [f"-L{os.path.dirname(copies[path])}" for path in libraries]
    impossible = [path for path in copies if path not in used and path not in libraries]
    if sum(len(word) + 1 for word in new) > _LENGTH_LIMIT_BYTES:
        file_name = os.path.join(folder, _RESPONSE_FILE)
        with open(file_name, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{escaped(word)}\n" for word in new)
        new = [f"@{file_name}"]
    return (words[0], *new), impossible


def names_file(words: tuple[str, ...], path: str) -> bool:
    """Return whether a copy of a file can have its place in a command."""
    return _is_library(path) or os.path.abspath(path) in _named_files(words)


@cache
def _named_files(words: tuple[str, ...]) -> frozenset[str]:
    parts = (part for word in expand(words[1:]) for part in (word.split(",") if word.startswith("-Wl,") else (word,)))
    return frozenset(os.path.abspath(part) for part in parts if part and not part.startswith("-"))


def _is_library(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("lib") and name.endswith(".a")
