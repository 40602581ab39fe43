"""Cores that gdb takes of a program, and what gdb reads in the frames of each: parameters and `this`.

gdb is run in batch mode; this file is also the script that it runs (its Python has no part of the project).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_MARK = "EVENT "


class GdbScope(NamedTuple):
    """A frame as gdb counts them, inlined functions included; None: gdb does not know the value."""

    name: str
    pc: int
    is_inlined: bool
    parameters: dict[str, int | None]


class Event(NamedTuple):
    """A stop of the program."""

    core: Path
    scopes: list[GdbScope]  # innermost first; frames that tail calls left out are not here


def take_cores(gdb: str, program: Path, stops: Sequence[str], folder: Path, limit: int = 8) -> list[Event]:
    """Take a core at each of the first `limit` stops: breakpoints, or signals if there are none."""
    command = [gdb, "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set print entry-values no"]
    command += ["-ex", f"python STOPS, FOLDER, LIMIT = {list(stops)}, {str(folder)!r}, {limit}", "-x", __file__]
    command += ["--args", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=300)
    lines = (line.partition(_MARK) for line in done.stdout.splitlines())
    events = [json.loads(text) for _, mark, text in lines if mark]
    assert events, f"gdb stopped nowhere:\n{done.stdout}\n{done.stderr}"
    return [Event(Path(core), [GdbScope(*scope) for scope in scopes]) for core, scopes in events]


def _script(gdb: Any) -> None:
    for stop in STOPS:  # type: ignore[name-defined]  # noqa: F821
        gdb.Breakpoint(stop)
    gdb.execute("run", to_string=True)
    for number in range(LIMIT):  # type: ignore[name-defined]  # noqa: F821
        if not gdb.selected_inferior().pid:
            break
        core = f"{FOLDER}/core.{number}"  # type: ignore[name-defined]  # noqa: F821
        gdb.execute(f"generate-core-file {core}", to_string=True)
        print(_MARK + json.dumps([core, _scopes(gdb)]), flush=True)
        gdb.execute("continue", to_string=True)


def _scopes(gdb: Any) -> list[Any]:
    scopes = []
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() != gdb.TAILCALL_FRAME:
            scopes.append([frame.name() or "", frame.pc(), frame.type() == gdb.INLINE_FRAME, _parameters(gdb, frame)])
        frame = frame.older()
    return scopes


def _parameters(gdb: Any, frame: Any) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    try:
        block = frame.block()
    except RuntimeError:
        return found
    while block is not None and block.function is None:
        block = block.superblock
    for symbol in block or ():
        if symbol.is_argument:
            try:
                value = symbol.value(frame)
                found[symbol.name] = None if value.is_optimized_out else int(value) & (1 << 64) - 1
            except Exception:  # of gdb: not to be had, or no number
                found[symbol.name] = None
    return found


if __name__ == "__main__":
    try:
        import gdb
    except ImportError:
        pass
    else:
        _script(gdb)
