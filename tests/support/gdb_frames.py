"""The stacks that gdb sees where a program calls a function, with the frames that it adds for tail calls.

gdb is run in batch mode; this file is also the script that it runs (its Python has no part of the project).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_MARK = "STACK "


class GdbFrame(NamedTuple):
    """A function that is on the stack, and whether a tail call has taken its frame away."""

    linkage_name: str
    tail_call: bool


def stacks(gdb: str, program: Path, breakpoint: str, *arguments: str, limit: int = 1000) -> list[list[GdbFrame]]:
    """The stack at each call of `breakpoint`, from its caller outwards to `main`."""
    command = [gdb, "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", f"break *&{breakpoint}"]
    command += ["-ex", f"python LIMIT = {limit}", "-x", __file__, "--args", str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600, check=False)
    found = [json.loads(line.removeprefix(_MARK)) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert found, done.stdout + done.stderr
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
    import gdb  # type: ignore[import-untyped]

    gdb.execute("run", to_string=True)
    for _ in range(LIMIT):  # type: ignore[name-defined]  # noqa: F821
        if not gdb.selected_inferior().pid:
            break
        found = []
        frame = gdb.newest_frame().older()
        while frame is not None and frame.is_valid():
            function = frame.function()
            if frame.type() != gdb.INLINE_FRAME:
                name = function.linkage_name if function else frame.name() or "?"
                # gdb says `main()` of a function without a mangled name
                found.append((name.removesuffix("()"), frame.type() == gdb.TAILCALL_FRAME))
            frame = frame.older()
        print(_MARK + json.dumps(found), flush=True)
        gdb.execute("continue", to_string=True)


if __name__ == "__main__":
    _print_stacks()
