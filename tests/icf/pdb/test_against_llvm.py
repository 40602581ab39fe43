"""The reader of PDBs against llvm-pdbutil: procedures, publics, lines, inlined functions; of lld-link and Microsoft."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from icf.pdb import columns as col
from icf.pdb.file import Pdb
from tests.support.microsoft import IMAGES, microsoft
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import RUNTIME, SHOP, compile_windows, link_windows, shop

NESTED = """
extern "C" int printf(const char*, ...);
volatile int total;
static inline int inner(int v) {
    total += v;
    return v + total;
}
static inline int middle(int v) {
    int x = inner(v);
    if (x > 3)
        x += inner(x);
    return x;
}
static __attribute__((noinline)) int outer(int v) { return middle(v) + inner(v); }
struct Shape { struct Side { int length() const { return inner(7); } }; };
extern "C" int other(int);
extern "C" int mainCRTStartup() { return outer(3) + Shape::Side().length() + other(2); }
"""
OTHER = """
int seen;
static int twice(int v) { seen += v; return 2 * v; }
int other(int v) { return twice(v) + twice(v + 1); }
"""
# lines of code that debuggers step into always, or never
_STEPS = {0xFEEFEE: "ASI", 0xF00F00: "NSI"}


def build(name: str) -> Path:
    if name in IMAGES:
        return microsoft(name)
    if name == "shop":
        return shop()
    if name == "columns":
        objects = [compile_windows(SHOP, "-O2", "-gcolumn-info")]
    else:
        c_object = compile_windows(OTHER, "-O1", "-xc", suffix=".c", name="other")
        objects = [compile_windows(RUNTIME + NESTED, "-O2"), c_object]
    return link_windows(lasting_folder(), *objects)


@pytest.mark.parametrize("name", ["shop", "columns", "nested", *IMAGES])
def test_all_records_are_those_of_llvm_pdbutil(name: str) -> None:
    path = build(name).with_suffix(".pdb")
    said = run(tool("llvm-pdbutil"), "dump", "-symbols", "-publics", "-l", "-il", path).stdout
    found: Counter[str] = Counter()
    with Pdb.open(str(path)) as pdb:
        for module in pdb.dbi.modules:
            symbols = pdb.symbols_of(module)
            lines = pdb.lines_of(module, symbols)
            for row in symbols.procedures.tolist():
                kind = {col.LOCAL: "LPROC", col.GLOBAL: "GPROC", col.THUNK: "THUNK"}[row[col.P_KIND]]
                text = pdb.text(module.stream, row[col.P_NAME], row[col.P_NAME_BYTES])
                place = f"{row[col.P_SEGMENT]:04}:{row[col.P_ADDRESS]:04}"
                found[f"{row[col.P_RECORD]} S_{kind}32 {text} {place} {row[col.P_SIZE]}"] += 1
            for row in symbols.sites.tolist():
                found[f"site {row[col.S_INLINEE]:#x}"] += 1
            for row in lines.runs.tolist():
                file = pdb.file_name(lines.files, row[col.F_FILE])
                for line in lines.rows[row[col.F_FIRST_ROW] : row[col.F_LAST_ROW]].tolist():
                    place = f"{file} {row[col.F_SEGMENT]}:{line[col.L_ADDRESS]:08X}"
                    found[f"{place} {_STEPS.get(line[col.L_LINE], line[col.L_LINE])}"] += 1
            for row in lines.inlinees.tolist():
                if row[col.I_FUNCTION] >> 31:  # of another module; llvm-pdbutil leaves these out
                    continue
                file = pdb.file_name(lines.files, row[col.I_FILE])
                found[f"inlined {row[col.I_FUNCTION]:#x} {row[col.I_LINE]} {file}"] += 1
        for row, text in zip(pdb.publics.tolist(), pdb.public_names(slice(None)), strict=True):
            found[f"{row[col.U_RECORD]} S_PUB32 {text} {row[col.U_SEGMENT]:04}:{row[col.U_ADDRESS]:04}"] += 1
    assert found == expected(said) and found


def expected(said: str) -> Counter[str]:
    """Return the same lines from what llvm-pdbutil printed."""
    found: Counter[str] = Counter()
    file, segment, has_lines = "", "", False
    named: re.Match[str] | None = None
    for before, line in zip(["", *said.splitlines()], said.splitlines(), strict=False):
        head = re.match(r" *(\d+) \| (S_[GL]PROC32|S_PUB32) \[size = \d+\] `(.*)`", before)
        place = re.search(r"addr = (\d+:\d+)(?:, code size = (\d+))?", line)
        named = re.match(r" *(\d+) \| S_THUNK32 \[size = \d+\] `(.*)`", line) or named
        if (thunk := re.search(r"kind = .*size = (\d+), addr = (\d+:\d+)", line)) and named:
            found[f"{named[1]} S_THUNK32 {named[2]} {thunk[2]} {thunk[1]}"] += 1
        if head and place:
            found[" ".join((*head.groups(), *(each for each in place.groups() if each)))] += 1
        site = re.search(r"S_INLINESITE .*", before)
        if site and (inlinee := re.search(r"inlinee = (?:.*\()?(0x[0-9A-F]+)", line)):
            found[f"site {inlinee[1].lower()}"] += 1
        if of_file := re.match(r"(\S.*) \((?:MD5|SHA|no checksum)", line):
            file = of_file[1]
        if run_of := re.match(r"  (\d{4}):[0-9A-F]{8}-[0-9A-F]{8}, line", line):
            segment, has_lines = str(int(run_of[1])), True
        elif has_lines:
            rows = re.findall(r"(\d+|[AN]SI)(?::\d+)?(?:-\d+(?::\d+)?)? ([0-9A-F]{8})", line)
            for number, address in rows:
                found[f"{file} {segment}:{address} {number}"] += 1
            has_lines = bool(rows)
        if inlined := re.match(r" +(0x[0-9A-F]+) \| +(\d+) \| (.*) \((?:MD5|SHA|no checksum)", line):
            found[f"inlined {inlined[1].lower()} {inlined[2]} {inlined[3]}"] += 1
    return found
