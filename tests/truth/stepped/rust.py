"""Compiling a Rust program once, and the arguments that link it.

`rustc` links by itself. A linker of ours writes down its arguments and keeps the one object that rustc makes for the
link; all others and the standard library's archives are there to be linked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.toolchain import run
from tests.truth.programs import Unavailable, find

_LINKER = """\
#!/bin/sh
for word in "$@"; do
  case "$word" in */symbols.o) cp "$word" symbols.o; word=symbols.o;; esac
  echo "$word"
done > arguments.new
mv arguments.new arguments
"""
_OF_THE_LINK = ("-o", "-L")  # each has a word after it


def compile_rust(source: Path, toolchain: str, flags: Sequence[str], folder: Path) -> list[str]:
    """Compile into `folder`, unless it is done; returns the words of the link. Raises Unavailable."""
    listed = folder / "arguments"
    if not listed.exists():
        linker = folder / "linker"
        linker.write_text(_LINKER)
        linker.chmod(0o755)
        words = [f"+{toolchain}", *flags, "-C", "save-temps", "-C", f"linker={linker}", "-o", str(folder / "program")]
        done = run(find("rustc"), *words, source, check=False, folder=folder)
        if not listed.exists():
            raise Unavailable(f"rustc +{toolchain}: {done.stderr.strip()[:300]}")
    words = listed.read_text().splitlines()
    kept = [
        word
        for row, word in enumerate(words)
        if word not in _OF_THE_LINK and (row == 0 or words[row - 1] not in _OF_THE_LINK)
    ]
    return [str(folder / word) if (folder / word).is_file() else word for word in kept]
