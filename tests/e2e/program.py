"""A program linked with folding and without: its stacks, the truth about them, and what `icf` says.

Folding happens in the linker. The same objects linked with `--icf=all` and with `--icf=none` therefore hold the
same code at different addresses, and stack k of the one program is stack k of the other, frame by frame. The
symbols of the second say which function each frame of the first truly is.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from bisect import bisect_right
from collections import defaultdict
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from icf import cli

_SYMBOL = Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
STT_FUNC, SHN_UNDEF = 2, 0

Frame = dict[str, Any]  # of `icf resolve --out json`
Names = frozenset[str]  # all symbols of one function; none for a frame outside of the image


@dataclass(frozen=True, slots=True)
class Program:
    """One set of objects linked with folding and without."""

    folded: Path
    unfolded: Path
    report: Path  # the linker's report it folded
    loaders: tuple[Path, Path] | None = None  # the programs to run when the images are shared objects
    emulator: tuple[str, ...] = ()  # what runs programs of another machine

    def stacks(self, *, with_vptrs: bool = False) -> list[str]:
        """What the folded program prints; where it knows objects, with their vtable pointers if so asked."""
        return self._run(self.folded, self.loaders[0] if self.loaders else None, with_vptrs=with_vptrs)

    def truth(self) -> list[list[Names]]:
        """The true function of each frame of each stack."""
        stacks = self._run(self.unfolded, self.loaders[1] if self.loaders else None)
        functions = Functions(self.unfolded)
        return [[functions.at(frame) for frame in stack.split()] for stack in stacks]

    def add_tables(self, *options: str | Path) -> None:
        """`icf pass` on the folded program; where it adds tables there, a second reader agrees with the first."""
        icf("pass", self.folded, *options)
        if "-o" not in options:
            icf("verify", "--second-reader", self.folded)

    def resolve(self, *, with_vptrs: bool = False) -> list[list[Frame]]:
        """`icf resolve` on the stacks that the folded program prints."""
        stacks = self.folded.with_name("stacks")
        stacks.write_text("".join(f"{stack}\n" for stack in self.stacks(with_vptrs=with_vptrs)))
        return resolved("-e", self.folded, stacks)

    def check(self, *, with_vptrs: bool = False) -> dict[str, set[str]]:
        """Resolve everything: no claim may be wrong, nor the truth be missing from the candidates.

        Returns the verdicts that each function got, under the first of its names.
        """
        verdicts: dict[str, set[str]] = defaultdict(set)
        for frames, truths in zip(self.resolve(with_vptrs=with_vptrs), self.truth(), strict=True):
            for frame, truth in zip(frames, truths, strict=True):
                if not truth:
                    assert frame["verdict"] == "unknown"
                    continue
                claimed = {frame["linkage_name"]} if frame["linkage_name"] else set(frame["candidates"])
                assert not claimed or any(_source_name(name) in truth for name in claimed), f"{frame}: {sorted(truth)}"
                verdicts[min(truth)].add(frame["verdict"])
        return dict(verdicts)

    def check_names(self) -> dict[str, set[str]]:
        """Resolve everything: no name may be wrong, but a function without a trace is not among the candidates.

        Returns what `check` returns.
        """
        verdicts: dict[str, set[str]] = defaultdict(set)
        for frames, truths in zip(self.resolve(), self.truth(), strict=True):
            for frame, truth in zip(frames, truths, strict=True):
                assert frame["linkage_name"] in {None, *truth}, f"{frame}: {sorted(truth)}"
                if truth:
                    verdicts[min(truth)].add(frame["verdict"])
        return dict(verdicts)

    def merged(self) -> set[Names]:
        """The functions that were seen at an address at which another was seen too."""
        seen: dict[str, set[Names]] = defaultdict(set)
        for stack, truths in zip(self.stacks(), self.truth(), strict=True):
            for frame, truth in zip(stack.split(), truths, strict=True):
                if truth:
                    seen[frame].add(truth)
        return {function for functions in seen.values() if len(functions) > 1 for function in functions}

    def _run(self, image: Path, loader: Path | None, *, with_vptrs: bool = False) -> list[str]:
        env = {**os.environ, "SAMPLE_MODULE": image.name if loader else "", "LD_LIBRARY_PATH": str(image.parent)}
        if with_vptrs:
            env["SAMPLE_VPTRS"] = "1"
        command = [*self.emulator, str(loader or image)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


class Functions:
    """The function symbols of an image by address."""

    def __init__(self, path: Path) -> None:
        self._names: dict[int, set[str]] = defaultdict(set)
        with path.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            names = table.stringtable.data()
            # not `iter_symbols`, which takes half a second for a program that is linked statically
            for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table.data()):
                if info & 15 == STT_FUNC and section != SHN_UNDEF:
                    self._names[value].add(_source_name(names[name : names.index(0, name)].decode()))
        self._starts = sorted(self._names)

    def at(self, frame: str) -> Names:
        """The symbols of the function that a return address, or a program counter past a call, lies in."""
        if frame == "?":
            return frozenset()
        return frozenset(self._names[self._starts[bisect_right(self._starts, int(frame, 16) - 1) - 1]])


def _source_name(symbol: str) -> str:
    """The function that `f.cold`, `f.constprop.0` or `f.isra.0` is a part or a clone of."""
    return symbol.partition(".")[0]


def resolved(*args: str | Path) -> list[list[Frame]]:
    """The frames that `icf resolve` writes as JSON; the second resolver has to write the same."""
    stacks, others = (
        [
            json.loads(line)["frames"]
            for line in icf("resolve", *reader, "--out", "json", *args, status=None).splitlines()
        ]
        for reader in ([], ["--second-reader"])
    )
    for frame, other in zip(chain(*stacks), chain(*others), strict=True):
        for field in ("address", "verdict", "name", "linkage_name", "candidates", "candidate_names", "file", "line"):
            assert frame[field] == other[field], f"{field}:\n{frame}\n{other}"
    return stacks


def icf(*args: str | Path, status: int | None = 0) -> str:
    """Run the command `icf` in this process; returns its stdout. It has to end with `status`, or None: any."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True)
    with redirect_stdout(out):
        actual = cli.main([str(arg) for arg in args])
    out.seek(0)
    text = out.read()
    assert status in (actual, None), f"icf {' '.join(map(str, args))}: exit {actual}\n{text}"
    return text
