"""What the symbolizers of today say: one name for each address, whoever called."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

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


_OF_GDB = """
import gdb
for line in open({asked!r}):
    block, name = gdb.block_for_pc(int(line, 16)), None
    while block is not None and not block.is_static and not block.is_global:
        if block.function is not None:  # the outermost: others are inlined
            name = block.function.linkage_name  # without one in DWARF, as of `main`, with parameters
            name = name if name.startswith("_Z") else name.partition("(")[0]
        block = block.superblock
    if name is None:
        text = gdb.execute("info symbol " + line.strip(), to_string=True)
        name = text.split()[0] if " in section " in text else ""
    print(line.strip(), name)
"""


def gdb(image: Path, stacks: Iterable[Stack]) -> Names | None:
    """Ask gdb as its `backtrace` does: the function of the block at an address, without one the symbol."""
    tool = find("gdb")
    if tool is None:
        return None
    with TemporaryDirectory() as folder:
        asked, script = Path(folder, "asked"), Path(folder, "ask.py")
        asked.write_text("".join(f"{vaddr:#x}\n" for vaddr in _addresses(stacks)))
        script.write_text(_OF_GDB.format(asked=str(asked)))
        command = [tool, "-nx", "-batch", "-ex", "set print demangle off", "-x", str(script), str(image)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in output.splitlines() if line.startswith("0x"))
    return {int(row[0], 16): row[1] for row in rows if len(row) == 2}


PEERS: dict[str, Callable[[Path, Iterable[Stack]], Names | None]] = {
    "llvm-symbolizer": llvm_symbolizer,
    "addr2line": addr2line,
    "gdb": gdb,
}
