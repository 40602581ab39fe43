"""Archives of both kinds, as four tools write them and written out by hand."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from icf.elf.archive import Archive, MissingFileError, is_archive, map_file, members
from icf.errors import FormatError, IcfError
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

LONG = "a_member_with_a_name_that_fills_no_header.o"


def header(name: str, size_bytes: int | str) -> bytes:
    return f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{size_bytes:<10}`\n".encode()


def read(content: bytes, path: str = "lib.a") -> list[tuple[str, bytes]]:
    archive = Archive(memoryview(content), path)
    return [(archive.name(member), bytes(archive.contents(member))) for member in archive]


GNU = (
    b"!<arch>\n"
    + header("/", 4) + b"\0\0\0\0"  # the symbol table
    + header("//", 18) + b"long.name.of.x.o/\n"
    + header("odd.o/", 3) + b"abc\n"  # with its padding
    + header("/0", 4) + b"long"
    + header("with blank.o/", 0)
)  # fmt: skip
BSD = (
    b"!<arch>\n"
    + header("__.SYMDEF", 4) + b"\0\0\0\0"
    + header("#1/12", 16) + b"bsd.name.o\0\0long"
    + header("#1/20", 20) + b"__.SYMDEF SORTED\0\0\0\0"
    + header("short.o", 2) + b"ab"
)  # fmt: skip


def test_gnu_names() -> None:
    assert read(GNU) == [("odd.o", b"abc"), ("long.name.of.x.o", b"long"), ("with blank.o", b"")]


def test_bsd_names() -> None:
    assert read(BSD) == [("bsd.name.o", b"long"), ("short.o", b"ab")]


def test_an_archive_may_be_empty() -> None:
    assert read(b"!<arch>\n") == read(b"!<thin>\n") == []


def test_wide_symbol_tables_are_no_members() -> None:
    assert read(b"!<arch>\n" + header("/SYM64/", 8) + bytes(8) + header("a.o/", 1) + b"x\n") == [("a.o", b"x")]


@pytest.mark.parametrize("content", [GNU, BSD])
def test_every_truncation_is_refused_or_ends_between_members(content: bytes) -> None:
    whole = read(content)
    for size_bytes in range(len(content)):
        try:
            part = read(content[:size_bytes])
        except FormatError as error:
            assert str(error).startswith("lib.a: archive+0x")
        else:
            assert part == whole[: len(part)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF1234", r"archive\+0x0: not an archive: starts with 7f454c4631323334"),
        (b"!<arch>\n" + header("a.o/", 1)[:-1] + b"!", r"archive\+0x8: member header ends in 6021, must be 600a"),
        (b"!<arch>\n" + header("a.o/", "-1"), r"member size is b'-1', must be a decimal number"),
        (b"!<arch>\n" + header("a.o/", ""), r"member size is b'', must be a decimal number"),
        (b"!<arch>\n" + header("a.o/", 2) + b"x", r"member of 2 bytes, 1 are left in the archive"),
        (b"!<arch>\n" + header("/7", 0), r"member name b'/7' is not an offset in the 0 bytes of names"),
        (b"!<arch>\n" + header("/x", 0), r"member name b'/x' is not an offset in the 0 bytes of names"),
        (b"!<arch>\n" + header("//", 2) + b"ab" + header("/0", 0), r"member name at 0 of the long names has no end"),
        (b"!<arch>\n" + header("#1/3", 2) + b"ab", r"member name b'#1/3' does not fit 2 bytes"),
        (b"!<thin>\n" + header("//", 2) + b"a\n" + header("/0:x", 0), r"has b'x' as its offset in another archive"),
        (b"!<thin>\n" + header("/", 0) + header("", 0), r"member of a thin archive has b'' as its path"),
        (b"!<thin>\n" + header("a\0b/", 0), r"member of a thin archive has b'a\\x00b' as its path"),
    ],
)
def test_damage_is_refused_with_its_place(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=r"lib\.a: .*" + message):
        read(content)


def files(directory: Path) -> list[str]:
    """Three members, one in a directory below."""
    (directory / "sub").mkdir(parents=True)
    for name, content in (("a.o", b"first"), (LONG, b"second!"), ("sub/b.o", b"")):
        (directory / name).write_bytes(content)
    return ["a.o", LONG, "sub/b.o"]


@pytest.mark.parametrize("archiver", ["ar", "llvm-ar"])
@pytest.mark.parametrize("flags", ["rcs", "rcsT"])
def test_archives_of_both_archivers(archiver: str, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = files(tmp_path / "lib")
    monkeypatch.chdir(tmp_path / "lib")
    if archiver == "llvm-ar" and flags == "rcsT":
        flags = "rcs --thin".split()[0] + "T"
    run(tool(archiver), flags, "libx.a", *names)
    monkeypatch.chdir(tmp_path)
    is_thin = Path("lib/libx.a").read_bytes().startswith(b"!<thin>")
    expected = [("a.o", b"first"), (LONG, b"second!"), ("sub/b.o" if is_thin else "b.o", b"")]
    assert [(name, bytes(content)) for name, content in members("lib/libx.a")] == expected
    assert is_archive(map_file("lib/libx.a"))


def test_names_may_repeat(tmp_path: Path) -> None:
    for index in range(2):
        (tmp_path / "a.o").write_bytes(bytes([index]))
        run(tool("ar"), "qc", tmp_path / "libx.a", tmp_path / "a.o")
    assert [(name, bytes(content)) for name, content in members(tmp_path / "libx.a")] == [
        ("a.o", b"\0"),
        ("a.o", b"\1"),
    ]


def test_a_thin_archive_that_took_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = files(tmp_path / "lib")
    monkeypatch.chdir(tmp_path / "lib")
    run(tool("ar"), "rcs", "inner.a", *names[1:])
    run(tool("ar"), "rcsT", "outer.a", names[0], "inner.a")
    if b"inner.a" not in Path("outer.a").read_bytes():
        pytest.skip("this ar adds the members, not the archive")
    monkeypatch.chdir(tmp_path)
    expected = [("a.o", b"first"), (LONG, b"second!"), ("b.o", b"")]
    assert [(name, bytes(content)) for name, content in members("lib/outer.a")] == expected
    inner = Path("lib/inner.a").read_bytes()
    Path("lib/inner.a").write_bytes(inner[:8])
    with pytest.raises(FormatError, match=r"lib/outer\.a: archive\+0x\w+: lib/inner\.a has no member at offset \d+"):
        list(members("lib/outer.a"))
    Path("lib/inner.a").write_bytes(b"!<thin>\n" + inner[8:])
    with pytest.raises(FormatError, match=r"lib/inner\.a: archive\+0x0: not a regular archive, though"):
        list(members("lib/outer.a"))


def test_a_pipe_or_device_that_an_archive_names_is_refused(tmp_path: Path) -> None:
    """A pipe that nothing writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe.o")
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n" + header("pipe.o/", 5))
    with pytest.raises(IcfError, match=rf"^{tmp_path}/pipe.o: cannot be read: is not a regular file$"):
        list(members(tmp_path / "thin.a"))
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n" + header("//", 14) + b"/dev/zero/\n\n\n\n" + header("/0", 5))
    with pytest.raises(IcfError, match="^/dev/zero: cannot be read: is not a regular file$"):
        list(members(tmp_path / "thin.a"))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty"])
def test_a_device_is_not_opened(path: str) -> None:
    with pytest.raises(IcfError, match=f"^{path}: cannot be read: neither a regular file nor a pipe$"):
        map_file(path, may_be_pipe=True)


def test_a_pipe_that_the_user_names_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"content",))
    writer.start()
    assert bytes(map_file(str(pipe), may_be_pipe=True)) == b"content"
    writer.join()


def test_what_is_not_there_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n" + header("gone.o/", 5))
    with pytest.raises(MissingFileError, match=r"gone\.o: no such file"):
        list(members(tmp_path / "thin.a"))
    with pytest.raises(MissingFileError, match=r"none\.a: no such file"):
        list(members(tmp_path / "none.a"))
    with pytest.raises(MissingFileError, match="no such file"):
        map_file(str(tmp_path / "thin.a" / "x"))
    with pytest.raises(IcfError, match="cannot be read") as error:
        map_file(str(tmp_path))
    assert not isinstance(error.value, MissingFileError)


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    """All of them may be held at once."""
    for index in range(150):
        (tmp_path / f"{index}.o").write_bytes(f"{index}".encode())
    limit = min(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
from icf.elf.archive import map_file
held = [map_file(r"{tmp_path}/%d.o" % index) for index in range(150)]
print(*(int(bytes(view)) for view in held))
print(*sorted({{type(view.obj).__name__ for view in held}}))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout.splitlines() == [" ".join(map(str, range(150))), "bytes mmap"], done.stderr
