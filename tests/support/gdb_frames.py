"""The stacks that gdb sees where a program calls a function, with the frames that it adds for tail calls.

gdb is run in batch mode; this file is also the script that it runs (its Python has no part of the project).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_MARK = "STACK "


class GdbFrame(NamedTuple):
    """A function that is on the stack, and whether a tail call has taken its frame away."""

    linkage_name: str
    tail_call: bool
    pc: int = 0  # less the address of _start


def stacks(
    gdb: str,
    program: Path,
    breakpoints: Sequence[str],
    *arguments: str,
    skip: int = 0,
    limit: int = 1000,
    folder: Path | None = None,
) -> list[list[GdbFrame]]:
    """The stack at each call of one of `breakpoints`, outwards to `main`; `skip` calls are passed between."""
    command = [gdb, "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "tbreak main"]
    command += ["-ex", f"python BREAKPOINTS, SKIP, LIMIT = {list(breakpoints)}, {skip}, {limit}", "-x", __file__]
    command += ["--args", str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder, check=False)
    lines = (line.partition(_MARK) for line in done.stdout.splitlines())  # the program may have written before it
    found = [json.loads(text) for _, mark, text in lines if mark]
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return [[GdbFrame(*frame) for frame in stack] for stack in found]


def functions_between(frames: Sequence[GdbFrame]) -> list[tuple[str, list[str]]]:
    """Each function that has a frame, and those that tail calls left out between it and its caller."""
    found: list[tuple[str, list[str]]] = []
    for frame in frames:
        if frame.tail_call:
            found[-1][1].append(frame.linkage_name)
        else:
            found.append((frame.linkage_name, []))
    return found


def _print_stacks() -> None:
    import gdb

    gdb.execute("run", to_string=True)
    for symbol in BREAKPOINTS:  # type: ignore[name-defined]  # noqa: F821
        gdb.execute(f"break *&{symbol}", to_string=True)
    gdb.execute("continue", to_string=True)
    start = int(gdb.parse_and_eval("(long)&_start"))
    for _ in range(LIMIT):  # type: ignore[name-defined]  # noqa: F821
        if not gdb.selected_inferior().pid:
            break
        found = []
        frame = gdb.newest_frame()
        while frame is not None and frame.is_valid():
            if frame.type() != gdb.INLINE_FRAME:
                function = _function(frame)
                name = function.linkage_name if function else frame.name() or "?"
                # gdb says `main()` of a function without a mangled name
                found.append((name.removesuffix("()"), frame.type() == gdb.TAILCALL_FRAME, frame.pc() - start))
            frame = frame.older()
        print("\n" + _MARK + json.dumps(found), flush=True)
        gdb.execute(f"continue {SKIP + 1}", to_string=True)  # type: ignore[name-defined]  # noqa: F821


def _function(frame: Any) -> Any:
    """The function whose code it is, not one that is inlined there, as gdb says of frames of tail calls."""
    try:
        block = frame.block()
    except RuntimeError:  # no debug information
        return frame.function()
    function = None
    while block is not None and not block.is_static:
        function = block.function or function
        block = block.superblock
    return function


if __name__ == "__main__":
    _print_stacks()
