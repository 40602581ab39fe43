"""Stacks of lldb, as lldb 19 has printed them: a program at a fixed address, whose signal handler crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.recordings import read, recognizes
from unwind.process.lldb_images import parse_listed
from unwind.process.module_list import LoadedModule, read_modules
from unwind.readers import lldb
from unwind.readers.formats import READERS
from unwind.samples.recording import Base, Inlined, RecordedModule

LIST = b"""[  0] F895CEC1 0x0000000000200000 /src/run/sig \n\
[  1] E0251283-45CE-65B7-19DA-B776555F2B64-EE0204A1 0x00007ffff7fc8000 [vdso] (0x00007ffff7fc8000)
[  2] 93AC61EC-5A8E-B139-6F9F-BD350E3169A5-58528A40 0x00007ffff7a1e000 /lib/x86_64-linux-gnu/libc.so.6 \n\
      /usr/lib/debug/.build-id/93/ac61ec5a8eb1396f9fbd350e3169a558528a40.debug
"""
STOPPED = b"""Process 30274 launched: '/src/run/sig' (x86_64)
Process 30274 stopped and restarted: thread 1 received signal: SIGUSR1
Process 30274 stopped
(lldb) image list
"""
BT = b"""(lldb) bt all
* thread #1, name = 'sig', stop reason = signal SIGSEGV: address not mapped to object (fault address: 0x0)
  * frame #0: 0x0000000000201ba5 sig`List<Order>::grow(this=0x0000000000203ef8, n=11) at list.h:4:91
    frame #1: 0x0000000000201a61 sig`List<Order>::add(this=<unavailable>, item=0x00007fffffffd90c, n=11) at list.h:5:56
    frame #2: 0x0000000000201a7c sig`post(p=<unavailable>, n=<unavailable>) at sig.cpp:8:67 [artificial]
    frame #3: 0x0000000000201bc2 sig`(anonymous namespace)::handle(what="a) at b.c:3 [inlined] `x", n=1) at sig.cpp:9:95
    frame #4: 0x0000000000201b0f sig`int call<on(int)::$_0>(on(int)::$_0, int) [inlined] (anonymous namespace)::\
inner(n=11) at sig.cpp:10:72
    frame #5: 0x0000000000201aac sig`int call<on(int)::$_0>(on(int)::$_0, int) [inlined] (anonymous namespace)::\
outer(n=<unavailable>) at sig.cpp:11:72
    frame #6: 0x0000000000201aa9 sig`int call<on(int)::$_0>(on(int)::$_0, int) [inlined] on(int)::$_0::operator()\
(this=<unavailable>, k=<unavailable>) const at sig.cpp:13:42
    frame #7: 0x0000000000201aa9 sig`int call<on(int)::$_0>(f=<unavailable>, n=<unavailable>) at sig.cpp:12:77
    frame #8: 0x0000000000201a96 sig`on(s=<unavailable>) at sig.cpp:13:18 [opt]
    frame #9: 0x00007ffff7a5a050 libc.so.6`__restore_rt
    frame #10: 0x00007ffff7a5a267 libc.so.6`kill at syscall-template.S:120
    frame #11: 0x00007ffff7a4524a libc.so.6`__libc_start_call_main(main=(sig`main at sig.cpp:14), argc=1) at c.h:58:16
    frame #12: 0x0000000000201961 sig`_start + 33
  thread #2, name = 'sig'
    frame #0: 0x0000000000201ba5 sig`___lldb_unnamed_symbol28 + 5
    frame #1: 0x00007fffd0001234
"""
SIG = RecordedModule("/src/run/sig", base=Base.LOWEST)
LIBC = RecordedModule(
    "/lib/x86_64-linux-gnu/libc.so.6", bytes.fromhex("93ac61ec5a8eb1396f9fbd350e3169a558528a40"), Base.LOWEST
)


def test_stacks_after_a_list_of_images() -> None:
    first, second = read("lldb", STOPPED + LIST + BT)
    assert [(frame.module, frame.address) for frame in first.frames] == [
        (SIG, 0x1BA5),
        (SIG, 0x1A61),
        (SIG, 0x1BC2),  # with post(), of which a tail call left nothing
        (SIG, 0x1B0F),  # not where the inlined code begins
        (SIG, 0x1A96),
        (LIBC, 0x3C050),
        (LIBC, 0x3C267),
        (LIBC, 0x2724A),
        (SIG, 0x1961),
    ]
    names = ["grow", "add", "handle", "call<on(int)::$_0>", "on", "__restore_rt", "kill", "main", "_start"]
    assert [frame.name.rpartition("::")[2] for frame in first.frames[:3]] == names[:3]
    assert [frame.name for frame in first.frames[3:7]] == names[3:7]
    assert [frame.is_exact for frame in first.frames] == [False] * 6 + [True, False, False]
    assert not any(frame.in_call for frame in first.frames) and not first.is_called
    inlined = first.frames[3].inlined
    assert [each.name.rpartition("::")[2] for each in inlined] == ["inner", "outer", "operator()"]
    assert first.frames[2].inlined == (Inlined("post", "sig.cpp", 8),)
    assert [(frame.file, frame.line) for frame in first.frames[2:4]] == [("sig.cpp", 9), ("sig.cpp", 12)]
    assert [(frame.module, frame.name) for frame in second.frames] == [(SIG, ""), (None, "")]


@pytest.mark.parametrize(
    "between", [b"Process 30275 launched: '/src/run/sig'\n", b"Core file 'c' (x86_64) was loaded.\n"]
)
def test_a_list_is_that_of_one_process(between: bytes) -> None:
    first, *_ = read("lldb", STOPPED + LIST + between + BT)
    assert {frame.module for frame in first.frames} == {None}
    again, *_ = read("lldb", STOPPED + LIST + STOPPED + BT)
    assert None not in {frame.module for frame in again.frames}


def test_a_later_list_replaces_the_one_before() -> None:
    moved = LIST.replace(b"0x0000000000200000", b"0x0000000000100000")
    first, *_ = read("lldb", LIST + moved + BT)
    assert first.frames[0].address == 0x101BA5


def test_a_frame_of_another_file_is_not_placed() -> None:
    """Every program that gdb or lldb starts lies at one address: the name tells it from another."""
    other = BT.replace(b" sig`", b" gis`")
    first, *_ = read("lldb", LIST + other)
    assert {frame.module for frame in first.frames} == {None, LIBC}
    link = BT.replace(b" libc.so.6`", b" libc.so`")
    first, *_ = read("lldb", LIST + link)
    assert {frame.module for frame in first.frames} == {SIG, LIBC}


def test_what_was_added_to_addresses_is_no_place() -> None:
    """`image list -o -f` has 0 for a program at a fixed address, and lines look like those of `image list -h -f`."""
    added = b"[  0] 0x0000000000001000 /src/run/sig\n"
    first, *_ = read("lldb", added + BT)
    assert {frame.module for frame in first.frames} == {None}


def test_a_function_inlined_in_itself_is_one_frame() -> None:
    lines = b"""frame #0: 0x0000000000201ba5 sig`f(int) [inlined] f(n=1) at a.c:3:5
frame #1: 0x0000000000201ba0 sig`f(n=1) at a.c:3:5
frame #2: 0x0000000000201bb5 sig`f(n=1) at a.c:3:5
"""
    (sample,) = read("lldb", lines)
    assert [frame.address for frame in sample.frames] == [0x201BA5, 0x201BB5]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"frame #1: 0x0000000000001136 a b`f at my at.c:7\r\n", ("f", "my at.c", 7, b"")),
        (b"12:00   * frame #1: 0x00001136 a`f(int) const + 12 [opt]\n", ("f(int) const", "", 0, b" [opt]")),
        (b"frame #1: 0x0000000000001136 a`main(argc=1) + 20 at a.c:3\n", ("main(argc=1)", "a.c", 3, b"")),
        (b'frame #1: 0x0000000000001136 a`int f<g(int)>(a=(b = "> + 3")) at a.c:3:4', ("f<g(int)>", "a.c", 3, b"")),
        (b"frame #1: 0x0000000000001136\n", ("", "", 0, b"")),
        (b"frame #1: 0x0000000000001136 a`::call<(lambda at a.cpp:13:23)>() + 3", None),
    ],
)
def test_lines_of_lldb(line: bytes, expected: tuple[str, str, int, bytes] | None) -> None:
    frame = lldb.parse(line)
    assert frame is not None and frame.address == 0x1136
    expected = expected or ("::call<(lambda at a.cpp:13:23)>()", "", 0, b"")
    assert (frame.name, frame.file, frame.line, frame.parts[7]) == expected
    assert b"".join((frame.parts[0], b"#1: ", *frame.parts[1:])) == line


@pytest.mark.parametrize(
    "line",
    [b"frame #1: 0x1136 a`f\n", b"#1: 0x0000000000001136 a`f\n", b"frame #1: 0x0000000000001136 a\n", b"frame #: 0x\n"],
)
def test_lines_that_are_none_of_lldb(line: bytes) -> None:
    assert not recognizes("lldb", line)


def test_the_format_is_known_by_its_content() -> None:
    assert next(each for each in READERS if recognizes(each, STOPPED + LIST + BT)) == "lldb"


def test_a_list_in_a_session_says_where_modules_lay(tmp_path: Path) -> None:
    """For stacks before the list, as it is mostly asked for after them."""
    session = tmp_path / "session"
    session.write_bytes(STOPPED + BT + LIST + LIST)
    assert read_modules(str(session)) == [
        LoadedModule(SIG.path, b"", load_address=0x200000),
        LoadedModule(LIBC.path, LIBC.build_id, load_address=0x7FFFF7A1E000),
    ]
    session.write_bytes(LIST + LIST.replace(b"7a1e000", b"7a1f000"))
    with pytest.raises(IcfError) as error:
        read_modules(str(session))
    places = "0x7ffff7a1e000 and 0x7ffff7a1f000"
    assert str(error.value) == f"{session}: lists {LIBC.path} at {places}, as modules of several processes are"


def test_what_was_added_to_the_addresses_of_a_fixed_program_is_no_place() -> None:
    """`image list -u -o -f` has that in the column in which others have the place."""
    assert parse_listed(b"[  0] F895CEC1 0x0000000000000000 /src/run/sig") is None
