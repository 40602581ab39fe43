"""Truth on PE images: the same objects linked with /OPT:ICF and with /OPT:NOICF, call sites compared.

Without folding each function has an address of its own, so the code names every callee: llvm-objdump decodes it, and
the map file of the linker has the names. Both are other readers than those of this project.

    python -m tests.truth.pe [--dwarf] FOLDER OBJECT...      links the objects twice, prints the counts
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from icf.microsoft_names import declared_by, spelled_alike
from tests.support.icf_command import icf_command
from tests.support.toolchain import run, tool
from tests.support.windows import link_dwarf, link_windows

_SYMBOL = re.compile(r"^ 000\d:[0-9a-f]{8} +(\S+) +([0-9a-f]{16}) +(\S.*)$")
_CALL = re.compile(r"^ *([0-9a-f]+):.*\t(?:call\w*|bl)\s+0x([0-9a-f]+)")
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):")


class Counts(NamedTuple):
    """Pairs of a calling function and one of its direct calls of a function that is merged with ICF."""

    sites: int
    named: int  # with a record
    wrong: list[str]  # with a record of another function
    merged: int  # merged functions
    summary: dict[str, object]  # of the pass


class Listing(NamedTuple):
    """What map file and disassembly say of one image."""

    address: dict[str, int]  # by name; a name that is there twice is left out
    names: dict[int, set[str]]
    calls: list[tuple[int, int]]  # return address, target


def read_listing(image: Path) -> Listing:
    """Read the map file and the disassembly of an image."""
    names: dict[int, set[str]] = {}
    places: dict[str, set[int]] = {}
    for line in image.with_suffix(".map").read_text(errors="replace").splitlines():
        if found := _SYMBOL.match(line):
            vaddr = int(found[2], 16)
            names.setdefault(vaddr, set()).add(found[1])
            places.setdefault(found[1], set()).add(vaddr)
    calls: list[tuple[int, int]] = []
    pending: int | None = None
    text = run(tool("llvm-objdump"), "-d", "--no-show-raw-insn", "-j", ".text", image).stdout
    for line in text.splitlines():
        at = _INSTRUCTION.match(line)
        if at and pending is not None:
            calls.append((int(at[1], 16), pending))
            pending = None
        if found := _CALL.match(line):
            pending = int(found[2], 16)
    return Listing({name: min(vaddrs) for name, vaddrs in places.items() if len(vaddrs) == 1}, names, calls)


def link_twice(folder: Path, objects: Sequence[Path | str], *, dwarf: bool = False) -> tuple[Path, Path]:
    """Link objects with and without ICF, with PDBs or with DWARF."""
    found, link = [], link_dwarf if dwarf else link_windows
    for icf in (True, False):
        name = "folded" if icf else "apart"
        found.append(link(folder, *objects, f"/map:{folder / name}.map", icf=icf, name=name))
    return found[0], found[1]


def measure(folder: Path, objects: Sequence[Path | str], *, dwarf: bool = False) -> Counts:
    """Link objects twice, run the pass, and compare its records with the code that was not folded."""
    folded_image, apart_image = link_twice(folder, objects, dwarf=dwarf)
    inputs = [str(each) for each in objects if not str(each).startswith("/opt")]
    summary = json.loads(_icf("pass", folded_image, "--json", "--objects", *inputs))
    records = json.loads(_icf("dump", "--dcall", "--folds", "--json", folded_image))
    folded, apart = read_listing(folded_image), read_listing(apart_image)
    merged = {int(each["address"], 16) for each in records["classes"] if len(each["members"]) > 1}
    said: dict[tuple[int, str], dict[str, set[str]]] = {}  # callees by caller, and by number of the caller's record
    for each in records["direct_calls"]:
        key = int(each["call_site"], 16), _alike(each["caller"])
        said.setdefault(key, {}).setdefault(each["caller_die"], set()).add(_alike(each["callee"]))
    starts = sorted(apart.names)
    truth: dict[tuple[int, str], list[set[str]]] = {}  # spellings of the callee, of each caller of that name
    for site, target in apart.calls:
        start = starts[bisect_left(starts, site) - 1]
        for caller in apart.names.get(start, set()):
            for callee in apart.names.get(target, set()):
                if caller in folded.address and folded.address.get(callee) in merged:
                    key = folded.address[caller] + site - start, _alike(caller)
                    if key not in said:  # the record of a static function has no parameters
                        key = key[0], key[1].partition("(")[0]
                    truth.setdefault(key, []).append({_alike(callee), _alike(callee).partition("(")[0]})
    sites = named = 0
    wrong = []
    for key, callees in truth.items():
        found = list(said.get(key, {}).values())
        sites += len(callees)
        named += min(len(found), len(callees))
        spellings = set().union(*callees)
        if any(len(each) != 1 or not each <= spellings for each in found):
            wrong.append(f"{key[0]:#x}: {key[1]} calls {callees}, recorded: {found}")
        if len(found) == len(callees) and any(all(each.isdisjoint(one) for one in found) for each in callees):
            wrong.append(f"{key[0]:#x}: {key[1]} calls {callees}, recorded: {found}")
    return Counts(sites, named, wrong, summary["members"], summary)


def _alike(name: str) -> str:
    """Return a name as the record of a static function has it, and others as they are."""
    declared = declared_by(name) if name.startswith("?") else None
    return f"{spelled_alike(declared.name)}({declared.parameters})" if declared else name


def _icf(*words: str | Path) -> str:
    done = subprocess.run([*icf_command(), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--dwarf"]
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    counts = measure(folder, words[1:], dwarf="--dwarf" in sys.argv)
    of = f"{counts.sites} call sites of {counts.merged} merged functions"
    print(f"{of}: {counts.named} named, {len(counts.wrong)} wrong")
    print("\n".join(counts.wrong[:20]))
