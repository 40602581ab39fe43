"""What the symbolizers of today say: one name for each address, whoever called."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.toolchain import find
from tests.truth.align import Frame, Stack

Names = dict[int, str]  # address as looked up -> linkage name of the function, not of what is inlined there


def lookup_vaddr(frame: Frame) -> int:
    return frame.pc if frame.is_exact else frame.pc - 1


def _addresses(stacks: Iterable[Stack]) -> list[int]:
    return sorted({lookup_vaddr(frame) for stack in stacks for frame in stack.frames if frame})


def llvm_symbolizer(image: Path, stacks: Iterable[Stack]) -> Names | None:
    """None if the tool is not here."""
    tool = find("llvm-symbolizer")
    if tool is None:
        return None
    command = [tool, f"--obj={image}", "--functions=linkage", "--no-demangle", "--output-style=JSON"]
    text = "".join(f"{vaddr:#x}\n" for vaddr in _addresses(stacks))
    output = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    names: Names = {}
    for line in output.splitlines():
        answer = json.loads(line)
        if answer.get("Symbol"):
            names[int(answer["Address"], 16)] = answer["Symbol"][-1].get("FunctionName", "")
    return names


def addr2line(image: Path, stacks: Iterable[Stack]) -> Names | None:
    tool = find("addr2line")
    if tool is None:
        return None
    command = [tool, "-a", "-f", "-i", "-e", str(image)]
    text = "".join(f"{vaddr:#x}\n" for vaddr in _addresses(stacks))
    output = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    names: Names = {}
    vaddr, is_name = 0, False
    for line in output.splitlines():
        if line.startswith("0x"):
            vaddr, is_name = int(line, 16), True
            continue
        if is_name:  # the last of an inlined chain is the function
            names[vaddr] = line
        is_name = not is_name
    return names


PEERS: dict[str, Callable[[Path, Iterable[Stack]], Names | None]] = {
    "llvm-symbolizer": llvm_symbolizer,
    "addr2line": addr2line,
}
