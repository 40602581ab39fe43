"""Inputs named in every way come once, in order, under the names that linkers print."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.errors import FormatError, IcfError
from icf.linkinputs.inputs import Skipped, open_inputs
from tests.support.toolchain import compile_object, link, run, tool


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Objects a.o, b.o, sub/c.o; libx.a of the last two, thin.a of all; sub/in.a of the last.

    Each defines the function of its name.
    """
    monkeypatch.chdir(tmp_path)
    os.mkdir("sub")
    for name in ("a", "b", "sub/c"):
        Path(f"{name}.o").write_bytes(compile_object(f"int {name[-1]}() {{ return 1; }}").read_bytes())
    run(tool("ar"), "rcs", "libx.a", "b.o", "sub/c.o")
    run(tool("ar"), "rcsT", "thin.a", "a.o", "b.o", "sub/c.o")
    run(tool("ar"), "rcsT", "sub/in.a", "sub/c.o")
    yield tmp_path


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.o", "./b.o", "sub/c.o"], ["a.o", "./b.o", "sub/c.o"]),
        (["a.o", "b.o", "./a.o", "sub/../a.o", "a.o"], ["a.o", "b.o"]),
        (["libx.a"], ["libx.a(b.o)", "libx.a(c.o)"]),
        (["thin.a"], ["thin.a(a.o)", "thin.a(b.o)", "thin.a(sub/c.o)"]),
        (["libx.a(c.o)"], ["libx.a(c.o)"]),
        (["libx.a(c.o)", "./libx.a(c.o)", "libx.a", "libx.a(b.o)"], ["libx.a(c.o)", "libx.a(b.o)"]),
        (["thin.a(./sub/c.o)", "thin.a(sub/c.o)"], ["thin.a(./sub/c.o)"]),
        (["sub/in.a(sub/c.o)", "sub/in.a(c.o)", "./sub/in.a(./sub/c.o)", "sub/in.a"], ["sub/in.a(sub/c.o)"]),
        (["@in.rsp", "b.o"], ["a.o", "libx.a(c.o)", "b.o"]),
        ([], []),
    ],
)
def test_names(paths: list[str], names: list[str], directory: Path) -> None:
    Path("in.rsp").write_text("-o prog a.o -Wl,--icf=all 'libx.a(c.o)'")
    objects = list(open_inputs(paths))
    assert [obj.name for obj in objects] == names
    for obj in objects:
        letter = obj.name.rstrip(")")[-3]
        assert [obj.symbol_name(row) for row in obj.functions] == [f"_Z1{letter}v"]


def test_names_stay_relative_to_the_directory_of_the_link(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("in.rsp").write_text("b.o thin.a(sub/c.o)")
    monkeypatch.chdir("/")
    names = [obj.name for obj in open_inputs(["a.o", "@in.rsp"], directory=str(directory))]
    assert names == ["a.o", "b.o", "thin.a(sub/c.o)"]


def test_members_of_one_name_all_come(directory: Path) -> None:
    for source in ("int one() { return 1; }", "int two() { return 2; }"):
        Path("same.o").write_bytes(compile_object(source).read_bytes())
        run(tool("ar"), "qc", "twice.a", "same.o")
    for paths in (["twice.a"], ["twice.a(same.o)"]):
        objects = list(open_inputs(paths))
        assert [obj.name for obj in objects] == ["twice.a(same.o)"] * 2
        assert {obj.symbol_name(row) for obj in objects for row in obj.functions} == {"_Z3onev", "_Z3twov"}


def test_missing_files_are_one_error(directory: Path) -> None:
    paths = ["a.o", "x1.o", "libx.a(b.o)", "gone.a(b.o)", "@none.rsp", "x2.o", "x3.o", "x4.o", ""]
    with pytest.raises(IcfError) as error:
        open_inputs(paths)
    assert str(error.value) == (
        "7 inputs of the link do not exist: x1.o, gone.a(b.o), @none.rsp, x2.o, x3.o and 2 more"
    )
    assert error.value.hint == "paths are relative to the directory that the link ran in"
    inputs = open_inputs(paths, missing_ok=True)
    assert [obj.name for obj in inputs] == ["a.o", "libx.a(b.o)"]
    assert inputs.missing == ["x1.o", "gone.a(b.o)", "@none.rsp", "x2.o", "x3.o", "x4.o", ""]


def test_missing_members(directory: Path) -> None:
    inputs = open_inputs(["libx.a(none.o)", "a.o"])
    with pytest.raises(IcfError, match=r"^1 inputs of the link do not exist: libx\.a\(none\.o\)$"):
        list(inputs)
    os.unlink("b.o")
    inputs = open_inputs(["thin.a", "thin.a(b.o)"], missing_ok=True)
    assert [obj.name for obj in inputs] == ["thin.a(a.o)", "thin.a(sub/c.o)"] and inputs.missing == ["thin.a(b.o)"]


def test_what_is_no_object_is_skipped(directory: Path) -> None:
    link(Path("lib.so"), "lld", "a.o", "-shared")
    link(Path("prog"), "lld", "a.o", "-nostdlib", "-no-pie", "-Wl,-e,0")
    Path("bit.o").write_bytes(compile_object("int f();", "-flto").read_bytes())
    Path("script.so").write_text("GROUP ( libc.so.6 )")
    Path("empty.o").touch()
    run(tool("ar"), "rcs", "mixed.a", "bit.o", "a.o", "script.so")
    Path("in.rsp").write_text("-lm")
    inputs = open_inputs(["lib.so", "prog", "bit.o", "script.so", "empty.o", "mixed.a", "@in.rsp"])
    assert [obj.name for obj in inputs] == ["mixed.a(a.o)"]
    assert inputs.skipped == [
        Skipped("-lm", "a library by its option; name the file"),
        Skipped("lib.so", "a shared object"),
        Skipped("prog", "an executable"),
        Skipped("bit.o", "LLVM bitcode, compiled during the link"),
        Skipped("script.so", "not an ELF file"),
        Skipped("empty.o", "an empty file"),
        Skipped("mixed.a(bit.o)", "LLVM bitcode, compiled during the link"),
        Skipped("mixed.a(script.so)", "not an ELF file"),
    ]


def test_a_corrupt_object_is_an_error(directory: Path) -> None:
    Path("cut.o").write_bytes(Path("a.o").read_bytes()[:100])
    with pytest.raises(FormatError, match=r"cut\.o: section headers"):
        list(open_inputs(["a.o", "cut.o"]))
    Path("libx.a").write_bytes(Path("libx.a").read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"libx\.a: archive\+0x"):
        list(open_inputs(["libx.a"]))
    with pytest.raises(FormatError, match=r"a\.o: archive\+0x0: not an archive"):
        list(open_inputs(["a.o(b.o)"]))


def test_a_file_with_brackets_in_its_name_is_a_file(directory: Path) -> None:
    Path("a(b).o").write_bytes(Path("a.o").read_bytes())
    Path("libx.a(zz)").write_bytes(Path("a.o").read_bytes())
    assert [obj.name for obj in open_inputs(["a(b).o", "libx.a(zz)"])] == ["a(b).o", "libx.a(zz)"]


def test_a_pipe_that_a_file_names_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.o")
    (tmp_path / "in.rsp").write_text("pipe.o")
    for paths in (["@in.rsp"], ["pipe.o"]):  # the second as a link map would have it
        with pytest.raises(IcfError, match=rf"^{tmp_path}/pipe.o: cannot be read: is not a regular file$"):
            list(open_inputs(paths, directory=str(tmp_path)))
