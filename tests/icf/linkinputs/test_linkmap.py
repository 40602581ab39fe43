"""Link maps of the four linkers name the inputs of the link, and these can be opened."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from icf.errors import FormatError
from icf.linkinputs.inputs import open_inputs
from icf.linkinputs.linkmap import parse_link_map
from tests.support.toolchain import LINKERS, compile_object, link, run, tool

MAIN = "extern int first(int), second(int); int main() { return first(1) + second(2); }"
CALL = "struct S { int operator()(int); }; int S::operator()(int x) { return x; } "
FIRST = CALL + "int first(int x) { return x * 5 + 1; }"
SECOND = "int second(int x) { return x * 5 + 1; }"
UNUSED = "int unused(int x) { return x; }"
FLAGS = ("-O1", "-ffunction-sections", "-g")


@pytest.mark.parametrize("kind", ["regular", "thin"])
@pytest.mark.parametrize("linker", LINKERS)
def test_inputs_of_a_link(linker: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("obj").mkdir()
    sources = {"main.o": MAIN, "a_rather_long_name_for_first.o": FIRST, "second.o": SECOND, "unused.o": UNUSED}
    for name, source in sources.items():
        Path("obj", name).write_bytes(compile_object(source, *FLAGS).read_bytes())
    monkeypatch.chdir("obj")
    run(tool("ar"), "rcsT" if kind == "thin" else "rcs", "libx.a", *list(sources)[1:])
    monkeypatch.chdir("..")
    icf = () if linker == "bfd" else ("-Wl,--icf=all",)
    link(Path("prog"), linker, "obj/main.o", "obj/libx.a", "-Wl,-Map=prog.map", *icf)
    names = parse_link_map("prog.map")
    assert len(names) == len(set(names)) and all(Path(name.partition(".a(")[0]).suffix != ".so" for name in names)
    # mold drops "./"; gold and mold name a thin archive's member with the directory of the archive
    ours = [re.sub(r"\(.*/", "(", os.path.normpath(name)) for name in names if not name.startswith("/")]
    members = ["a_rather_long_name_for_first.o", "second.o"]
    if (linker, kind) == ("bfd", "thin"):
        assert sorted(ours) == sorted(["obj/main.o", *(f"obj/{member}" for member in members)])
    else:
        assert sorted(ours) == sorted(["obj/main.o", *(f"obj/libx.a({member})" for member in members)])
    inputs = open_inputs(names)
    functions = {obj.symbol_name(row): obj.name for obj in inputs for row in obj.functions}
    assert {"main", "_Z5firsti", "_Z6secondi"} <= set(functions) and "_Z6unusedi" not in functions
    assert not inputs.missing and not inputs.skipped


@pytest.mark.parametrize("linker", LINKERS[1:])
def test_objects_made_from_bitcode_are_listed(linker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bitcode = compile_object("int main() { return 0; }", "-flto")
    link(Path("prog"), linker, bitcode, "-flto", "-Wl,-Map=prog.map")
    names = parse_link_map("prog.map")
    assert str(bitcode) not in names
    inputs = open_inputs(names, missing_ok=True)
    assert len(list(inputs)) >= 3 and len(inputs.missing) == 1  # the start files; the temporary


GNU = """\
Archive member included because of file (symbol)

libx.a(a.o)                   main.o (f)

Discarded input sections

 .text.g        0x0000000000000000        0xf libx.a(gone and folded.o)

Memory map

 ** segment headers
                0x0000000000000040      0x230
LOAD libc.so.6
 *(.rela.plt)
                0x0000000000000290       0x20 not_a_file.o

.text           0x0000000000001000       0x40
 .text.f        0x0000000000001000       0x20 main.o
                0x0000000000001000                operator()(int)
                0x0000000000001008                PROVIDE (x = .)
 .text._Zsomething_long_enough
                0x0000000000001020       0x20 libx.a(a.o)
                                         0x30 (size before relaxing)
                0x0000000000001040        0x4 LONG 0x10
 *fill*         0x0000000000001044        0xc 90
 .text.h        0x0000000000001050        0x4 main.o
 .iplt          0x0000000000001060        0x0 linker stubs
"""
LLD = """\
             VMA              LMA     Size Align Out     In      Symbol
            1610             1610      11f    16 .text
            1610             1610       22    16         main.o:(.text)
            1610             1610       22     1                 main
            1632             1632        0     1                 odd.o:(.text)
            1640             1640       b9    16         lib x.a(a:(b).o):(.text.f)
            1650             1650       b9    16         <internal>:(.plt)
            1660             1660        0     1         . = ALIGN(8)
"""
MOLD = """\
               VMA       Size Align Out     In      Symbol
                 0         64     8 EHDR
            0x1669          0     1         main.o:(.text)
            0x1669         39     1         libx.a(a.o):(.text.main)
            0x1669          0     0                 odd.o:(.text)
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (GNU, ["libx.a(gone and folded.o)", "main.o", "libx.a(a.o)"]),
        (LLD, ["main.o", "lib x.a(a:(b).o)"]),
        (MOLD, ["main.o", "libx.a(a.o)"]),
        (LLD.partition("\n")[0], []),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_that_look_alike(text: str, names: list[str], line_end: str, tmp_path: Path) -> None:
    (tmp_path / "x.map").write_text(text, newline=line_end)
    assert parse_link_map(tmp_path / "x.map") == names


@pytest.mark.parametrize("content", ["", "main.o\n", "\x7fELF"])
def test_what_is_no_map_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.map").write_text(content)
    with pytest.raises(FormatError, match=r"x\.map: link map\+0x0: no line names an input section"):
        parse_link_map(tmp_path / "x.map")
