"""Response files are split as GNU does it, and input files found among the words of a command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icf.errors import FormatError, IcfError
from icf.linkinputs.commandline import input_words
from icf.linkinputs.responsefile import DEPTH_LIMIT, escaped, expand, split_words
from tests.support.toolchain import run, tool

CASES = [
    ("a.o b.o\n\tc.o\r\n", ["a.o", "b.o", "c.o"]),
    ("", []),
    (" \n ", []),
    ("'with blank.o' \"and this\"", ["with blank.o", "and this"]),
    ("with\\ blank.o a\\\\b", ["with blank.o", "a\\b"]),
    ("'it\\'s' \"a \\\" b\"", ["it's", 'a " b']),
    ("a'b c'd", ["ab cd"]),
    ("'' x \"\"", ["", "x", ""]),
    ("\"'\" '\"'", ["'", '"']),
    ('-DX=\\"1\\"', ['-DX="1"']),
    ("a\u00a0b c\u2003d", ["a\u00a0b", "c\u2003d"]),
]


@pytest.mark.parametrize(("text", "words"), CASES)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text, "x.rsp") == words


@pytest.mark.parametrize(("text", "words"), [case for case in CASES if "-D" not in case[0] and "''" not in case[0]])
def test_words_are_those_that_a_linker_sees(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.rsp").write_bytes(text.encode())
    result = run(tool("ld.bfd"), f"@{tmp_path}/x.rsp", "last.o", check=False)
    seen = re.findall(r"cannot find (.*): No such file", result.stderr)
    assert seen == [*words, "last.o"]


@pytest.mark.parametrize("word", ["a b", "it's", 'x"y', "back\\slash\\", " ", "new\nline", "plain", "@x"])
def test_an_escaped_word_is_read_as_it_was(word: str) -> None:
    assert split_words(f"{escaped(word)}\nlast", "x.rsp") == [word, "last"]


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(FormatError, match=r"x\.rsp: response file\+0x4: quote ' is not closed"):
        split_words("a.o 'b.o", "x.rsp")


def test_files_are_expanded_in_place(tmp_path: Path) -> None:
    (tmp_path / "outer.rsp").write_text("b.o @inner.rsp e.o @none.rsp")
    (tmp_path / "inner.rsp").write_text("c.o 'd d.o'")
    words = expand(["a.o", "@outer.rsp", "@", "z.o"], str(tmp_path))
    assert words == ["a.o", "b.o", "c.o", "d d.o", "e.o", "@none.rsp", "@", "z.o"]


def test_nesting_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "loop.rsp").write_text("a.o @loop.rsp")
    with pytest.raises(IcfError, match=rf"loop\.rsp: response files are nested more than {DEPTH_LIMIT} deep"):
        expand(["@loop.rsp"], str(tmp_path))
    for index in range(DEPTH_LIMIT - 1):
        (tmp_path / f"{index}.rsp").write_text(f"@{index + 1}.rsp @{index + 1}.rsp")
    (tmp_path / f"{DEPTH_LIMIT - 1}.rsp").write_text("a.o")
    with pytest.raises(IcfError, match="more than 2000 response files are read"):
        expand(["@0.rsp"], str(tmp_path))
    assert expand(["@27.rsp"], str(tmp_path)) == ["a.o"] * 16


def test_bytes_that_are_no_utf_8_name_files(tmp_path: Path) -> None:
    (tmp_path / "x.rsp").write_bytes(b"\xff.o")
    [word] = expand(["@x.rsp"], str(tmp_path))
    assert word.encode("utf-8", "surrogateescape") == b"\xff.o"


@pytest.mark.parametrize(
    ("line", "inputs", "libraries"),
    [
        ("a.o -o prog b.o", "a.o b.o", ""),
        ("-oprog -Ldir -L dir a.o -lm -l stdc++ --library z", "a.o", "-lm -lstdc++ -lz"),
        ("-Wl,--icf=all,-Map,x.map -Wl,--start-group,x.a,y.a,--end-group", "x.a y.a", ""),
        ("--icf=all --print-icf-sections -Map=x.map -Map x.map a.o --sysroot / -m elf_x86_64", "a.o", ""),
        ("-z now -pie -dynamic-linker /lib64/ld.so crt1.o --rpath x -rpath=y --as-needed", "crt1.o", ""),
        ("-Xlinker -Map -Xlinker x.map -Xlinker a.o -O2 -flto", "a.o", ""),
        ("-plugin p.so -plugin-opt=a -T s.ld --version-script v a.o - -o", "a.o", ""),
        ("-lto_library x", "x", ""),
    ],
)
def test_inputs_of_a_command_line(line: str, inputs: str, libraries: str) -> None:
    assert input_words(line.split()) == (inputs.split(), libraries.split())
