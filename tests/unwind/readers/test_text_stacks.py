"""Stacks in text: which lines make a stack, which lines a frame, and where run-time addresses lie."""

from __future__ import annotations

import pytest

from tests.support.recordings import read, recognizes
from unwind.readers import gdb, sanitizer
from unwind.readers.formats import READERS
from unwind.readers.text_stacks import STACK_LIMIT
from unwind.samples.recording import Base, Inlined, RecordedModule, Sample

SHOP = RecordedModule("/bin/shop")
NAMED = b"""==17==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x504000000080 at pc 0x55b480fdd985
    #0 0x55b480fdd984 in List<User>::last() /src/shop.cpp:7:49
    #1 0x55b480fdd8c5 in List<Order>::peek() /src/my shop.cpp:8:83
    #2 0x55b480fdd8c5 in List<User>::sum() ../shop.cpp:9
    #3 0x55b480f06a60 in _start (/bin/shop+0x62a60)

allocated by thread T0 here:
    #0 0x55b480fdd83c in int run<User>(int) /src/shop.cpp:12:27
    #1 0x7f71db245249  (/lib/libc.so.6+0x27249) (BuildId: 93ac61ec)
"""


def addresses(sample: Sample) -> list[tuple[str, int | None]]:
    return [(frame.module.path if frame.module else "", frame.address) for frame in sample.frames]


def test_frames_of_two_stacks_with_what_is_inlined() -> None:
    first, second = read("sanitizer", NAMED)
    assert addresses(first) == [("/bin/shop", 0x139984), ("/bin/shop", 0x1398C5), ("/bin/shop", 0x62A60)]
    assert [frame.name for frame in first.frames] == ["List<User>::last()", "List<User>::sum()", "_start"]
    assert first.frames[1].inlined == (Inlined("List<Order>::peek()", "/src/my shop.cpp", 8),)
    assert (first.frames[1].file, first.frames[1].line) == ("../shop.cpp", 9)
    assert [frame.in_call for frame in first.frames] == [False, True, True]
    assert not first.is_called and first.process.modules == [SHOP]
    assert addresses(second) == [("/bin/shop", 0x13983C), ("/lib/libc.so.6", 0x27249)]
    assert second.frames[1].module == RecordedModule("/lib/libc.so.6", bytes.fromhex("93ac61ec"))


def test_a_place_is_that_of_one_process() -> None:
    other = b"==18==ERROR: LeakSanitizer\n    #0 0x55b480fdd984 in f() /src/shop.cpp:7:49\n"
    *_, last = read("sanitizer", NAMED + other)
    assert addresses(last) == [("", 0x55B480FDD984)]
    same = NAMED + other.replace(b"==18==", b"==17==")
    assert addresses(list(read("sanitizer", same))[-1]) == [("/bin/shop", 0x139984)]


def test_an_address_far_from_all_modules_is_of_another() -> None:
    far = NAMED.replace(b"#2 0x55b480fdd8c5", b"#2 0x7f71db245304")
    first, _ = read("sanitizer", far)
    assert addresses(first)[1:3] == [("/bin/shop", 0x1398C5), ("", 0x7F71DB245304)]


def test_a_report_that_has_ended_says_nothing_of_the_next() -> None:
    frame = b"    #0 0x55b480fdd984 in f() /src/shop.cpp:7:49\n"
    *_, last = read("sanitizer", NAMED + b"SUMMARY: AddressSanitizer: x\n" + frame)
    assert addresses(last) == [("", 0x55B480FDD984)]


def test_a_function_that_calls_itself_is_a_frame_for_each_call() -> None:
    line = "    #{} 0x55b480fdd984 in f(int) /src/a.c:7:49\n    #{} 0x55b480fdd984 in g(int) /src/a.c:9:5\n"
    (sample,) = read("sanitizer", "".join(line.format(at, at + 1) for at in (0, 2, 4)).encode())
    assert [(frame.name, len(frame.inlined)) for frame in sample.frames] == [("g(int)", 1)] * 3


def test_frames_without_names_are_not_inlined_in_each_other() -> None:
    (sample,) = read("sanitizer", b"#0 0x1136  (/bin/shop+0x1136)\n#1 0x1136  (/bin/shop+0x1136)\n")
    assert addresses(sample) == [("/bin/shop", 0x1136)] * 2


def test_a_stack_whose_begin_is_missing_waits_for_a_callee() -> None:
    first, second = read("sanitizer", b"#3 0x1136  (/a+0x1136)\n#4 0x1137  (/a+0x1137)\n#6 0x1  (/a+0x1)\n")
    assert [first.is_called, second.is_called] == [True, True]
    assert [frame.in_call for frame in first.frames] == [True, True]


def test_a_stack_of_any_length_is_cut() -> None:
    lines = b"".join(b"#%d 0x1136  (/bin/shop+0x1136)\n" % number for number in range(2 * STACK_LIMIT + 1))
    assert [len(sample.frames) for sample in read("sanitizer", lines)] == [STACK_LIMIT, STACK_LIMIT, 1]


THREAD_SANITIZER = b"""WARNING: ThreadSanitizer: data race (pid=20725)
  Write of size 4 at 0x55a75bbee6e8 by thread T2:
    #0 List<Order>::inl() /src/shop.cpp:5:156 (shop+0x117c0e) (BuildId: b45748b4)
    #1 List<Payment>::grow() /src/shop.cpp:5:73 (shop+0x117c0e)
    #2 <null> <null> (libstdc++.so.6+0xd44a2)
"""


def test_lines_of_tsan_have_no_address() -> None:
    (sample,) = read("sanitizer", THREAD_SANITIZER)
    assert addresses(sample) == [("shop", 0x117C0E), ("libstdc++.so.6", 0xD44A2)]
    assert sample.frames[0].module == RecordedModule("shop", bytes.fromhex("b45748b4"))
    assert sample.frames[0].name == "List<Payment>::grow()" and sample.frames[1].name == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2026-01-01 [1] #7 0x1136 in f() (/opt/my app (2)/shop+0x36)\r\n", ("/opt/my app (2)/shop", 0x36, "f()")),
        (b"build #12 |   #0 0x1136 (/bin/shop+0x36) (BuildId: ab)", ("/bin/shop", 0x36, "")),
        (b"#0 0x1136 in operator new(unsigned long) (a.out+0x36)", ("a.out", 0x36, "operator new(unsigned long)")),
        (b"#0 0x1136 in f() /src/a (x).c:3:4\n", (None, None, "f()")),
        (b"#0 0x1136 in f()+0x12 (/bin/shop+0x36)\n", ("/bin/shop", 0x36, "f()+0x12")),
    ],
)
def test_lines_of_sanitizers(line: bytes, expected: tuple[str | None, int | None, str]) -> None:
    frame = sanitizer.parse(line)
    assert frame is not None
    assert (frame.module.path if frame.module else None, frame.vaddr, frame.name) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"see #12 and #13\n",
        b"#1 0x1136\n",
        b"#1 0x1136 (+0x36)\n",
        b"#0 0x55b480fdd984zz in f() a.c:1\n",
        b"#0 f() a.c:1\n",
        b"# 0x1136 in f() (/bin/shop+0x36)\n",
    ],
)
def test_lines_that_are_none_of_a_sanitizer(line: bytes) -> None:
    assert sanitizer.parse(line) is None


GDB = b"""#0  show () at bt.cpp:5
        n = <optimized out>
#1  0x00005555555558d8 in List<Order>::grow (this=this@entry=0x7fffffffe6c7, name="a) at b") at bt.cpp:6
No locals.
#2  std::function<int (int)>::operator() (n=1) at bt.cpp:7
#3  <signal handler called>
#4  0x000055555555587a in ?? () from /lib/libx.so

Thread 1 (Thread 0x7ffff7eb5440 (LWP 20832)):
#0  0x0000555555555136 in main (c=1, v=0x1) at bt.cpp:8
"""


def test_stacks_of_gdb() -> None:
    first, second = read("gdb", GDB)
    assert [frame.address for frame in first.frames] == [None, 0x5555555558D8, None, 0x55555555587A]
    assert [frame.is_exact for frame in first.frames] == [False, False, False, True]
    inlined = Inlined("List<Order>::grow", "bt.cpp", 6)
    assert (first.frames[1].name, first.frames[1].inlined) == ("std::function<int (int)>::operator()", (inlined,))
    assert (first.frames[3].name, first.frames[0].line) == ("", 5)
    assert [frame.address for frame in second.frames] == [0x555555555136]


def test_an_argument_of_gdb_that_goes_on_in_the_next_line() -> None:
    frame = gdb.parse(b'#1  0x0000000000001136 in f (a=1, b="')
    assert frame is not None and (frame.name, frame.file, frame.parts[3]) == ("f", "", b' (a=1, b="')
    assert gdb.parse(b"#1 is fixed\n") is None and gdb.parse(b"#1\n") is None


BACKTRACE = b"""[12:00:01] /bin/shop(+0x1858) [0x557279ac7858]
/bin/shop(_ZN4ListI4UserE4growEi+0x8) [0x557279ac7b18]
/bin/fixed() [0x201798]
done
/bin/shop(+0x1858)[0x557279ac7858]
./shop[0x2017fd]
/bin/shop(+0x1858)[0x557279ac7858]
"""


def test_stacks_of_glibc() -> None:
    first, second, third = read("backtrace", BACKTRACE)
    assert first.is_called and second.is_called
    # the symbol's address is not known, but where the module lies
    assert addresses(first) == [("/bin/shop", 0x1858), ("/bin/shop", 0x1B18), ("/bin/fixed", 0x201798)]
    assert first.frames[1].name == "_ZN4ListI4UserE4growEi"
    assert addresses(second) == [("/bin/shop", 0x1858), ("./shop", 0x2017FD)]
    assert addresses(third) == [("/bin/shop", 0x1858)]  # the same call again begins another stack


@pytest.mark.parametrize(
    "line", [b"a [0x1]\n", b"f(x) [0x12]\n", b"[0x1136]\n", b"(+0x1) [0x1]\n", b"/a(b c+0x1) [0x1]\n", b"/a [0x12]\n"]
)
def test_lines_that_are_none_of_glibc(line: bytes) -> None:
    assert not recognizes("backtrace", line)


TOMBSTONE = b"""backtrace:
      #00 pc 0000000000089908  /system/lib64/libc.so (abort+164) (BuildId: 2d6dd1d9)
      #01 pc 0x0000000000001398  /data/app/base.apk!libshop.so (offset 0x1000) (List<User>::grow(int) const+28)
      #02 pc 0000000000001400  /system/bin/app_process64
"""


def test_tombstones() -> None:
    (sample,) = read("tombstone", TOMBSTONE)
    assert addresses(sample) == [
        ("/system/lib64/libc.so", 0x89908),
        ("libshop.so", 0x1398),
        ("/system/bin/app_process64", 0x1400),
    ]
    assert [frame.name for frame in sample.frames] == ["abort", "List<User>::grow(int) const", ""]
    assert sample.frames[0].module == RecordedModule("/system/lib64/libc.so", bytes.fromhex("2d6dd1d9"))


SYSTEMD = b"""Stack trace of thread 4711:
#0  0x00007f9eb4611dd0 __libc_pause (libc.so.6 + 0xd3dd0)
#1  0x00007f8002b85a90 __restore_rt (libpthread.so.0 + 0x14a90)
#2  0x0000561a7455f8ff std::map<int, long>::at(int const&) const (/opt/my shop + 0x18ff)
#3  0x0000561a7455f8e9 n/a (shop)
#4  0x0000561a7455f8e0 n/a (n/a + 0x0)
#10 0x0000561a7455f761 std::visit(void (*)(std::string const&)) (shop + 0x1761)
"""


def test_stacks_of_systemd() -> None:
    first, cut = read("systemd", SYSTEMD)
    assert addresses(first) == [
        ("libc.so.6", 0xD3DD0),
        ("libpthread.so.0", 0x14A90),
        ("/opt/my shop", 0x18FF),
        ("/opt/my shop", 0x18E9),  # it lay where the frame above has shown
        ("/opt/my shop", 0x18E0),
    ]
    assert [frame.is_exact for frame in first.frames] == [False, False, True, False, False]
    assert not first.is_called
    assert [frame.name for frame in first.frames[2:]] == ["std::map<int, long>::at(int const&) const", "", ""]
    assert addresses(cut) == [("shop", 0x1761)]
    assert {frame.module.base for frame in first.frames if frame.module} == {Base.LOWEST}


STRACE = b"""write(1, "a", 1) = 1
 > /lib/libc.so.6(write+0x10) [0xd3dd0]
 > /bin/shop(List<User>::grow(int) [clone .isra.0]+0x1e) [0x1b5e]
 > unexpected_backtracing_error [0x7f8002b85a90]
 > /bin/my (shop)() [0x4009]
--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=30624, si_uid=0} ---
 > /lib/libc.so.6(write+0x10) [0xd3dd0]
"""


def test_stacks_of_strace() -> None:
    first, second = read("strace", STRACE)
    assert addresses(first) == [
        ("/lib/libc.so.6", 0xD3DD0),
        ("/bin/shop", 0x1B5E),
        ("", None),
        ("/bin/my (shop)", 0x4009),
    ]
    assert [frame.name for frame in first.frames] == ["write", "List<User>::grow(int) [clone .isra.0]", "", ""]
    assert {frame.module.base for frame in first.frames if frame.module} == {Base.OFFSET}
    assert addresses(second) == addresses(first)[:1] and not second.is_called


EU_STACK = b"""TID 23908:
#0  0x00007f3d0d8f1dd0     pause - /usr/lib/libc.so.6
    ../sysdeps/unix/sysv/linux/pause.c:29:10
#1  0x000055e97535d6b9 - 1 User::peek(int) - /usr/bin/shop
    /src/shop.cpp:36:57
#2  0x000055e97535d6b9 - 1 each<User(int)::<lambda(int)> > - /usr/bin/shop
    /src/shop.cpp:34:54
#3  0x000055e97535d591 - 1 - [vdso: 12]
"""
VALGRIND = b"""==47== Process terminating with default action of signal 11 (SIGSEGV)
==47==    at 0x10AB65: List<User>::grow(int) [clone .isra.0] (mart.h:12)
==47==    by 0x10A6B8: operator() (main.cpp:36)
==47==    by 0x10A6B8: void each<User>(User(*)(int)) (main.cpp:34)
==47==    by 0x10A6B8: ??? (in /usr/bin/shop)
==47==
==47==    at 0x10AB65: f() (in /usr/bin/shop)
==47==    at 0x10AB65: f() (in /usr/bin/shop)
"""
GLOG = b"""*** SIGSEGV received at time=1700000000 on cpu 1 ***
PC: @     0x56452b5e4b65  (unknown)  List<User>::grow()
    @     0x7f76e285afd0       1120  (unknown)
    @     0x56452b5e4c09         16  List<User>::add(int)
    @     0x56452b5e4c20 main
"""


def test_stacks_of_eu_stack() -> None:
    (sample,) = read("eu-stack", EU_STACK)
    assert [frame.address for frame in sample.frames] == [0x7F3D0D8F1DD0, 0x55E97535D6B9, 0x55E97535D591]
    assert [frame.name for frame in sample.frames] == ["pause", "each<User(int)::<lambda(int)> >", ""]
    assert [inlined.name for inlined in sample.frames[1].inlined] == ["User::peek(int)"]


def test_stacks_of_valgrind() -> None:
    first, *others = read("valgrind", VALGRIND)
    assert [frame.address for frame in first.frames] == [0x10AB65, 0x10A6B8, 0x10A6B8]
    names = ["List<User>::grow(int) [clone .isra.0]", "void each<User>(User(*)(int))", ""]
    assert [frame.name for frame in first.frames] == names
    assert [(frame.file, frame.line) for frame in first.frames] == [("mart.h", 12), ("main.cpp", 34), ("", 0)]
    assert [inlined.name for inlined in first.frames[1].inlined] == ["operator()"]
    assert [frame.in_call for frame in first.frames] == [False, True, True] and not first.is_called
    assert [len(sample.frames) for sample in others] == [1, 1]


def test_stacks_of_glog_and_abseil() -> None:
    (sample,) = read("glog", GLOG)
    assert [frame.address for frame in sample.frames] == [0x7F76E285AFD0, 0x56452B5E4C09, 0x56452B5E4C20]
    assert [frame.name for frame in sample.frames] == ["", "List<User>::add(int)", "main"]
    assert sample.is_called


@pytest.mark.parametrize(
    "line",
    [
        b" #1 0x0000555500002afc f() (/usr/bin/shop+0x2afc)\n",  # LLVM
        b"#10 0x0000555500002afc f() (/usr/bin/shop+0x2afc)\n",
        b"#10 0x0000555500002afc in f (this=0x1)\n",  # gdb
        b"#1  0x0000555500002afc in f (this=0x1)\n",
        b"#1  0x0000555500002afc f()\n",  # eu-stack
    ],
)
def test_lines_that_are_none_of_systemd(line: bytes) -> None:
    assert not recognizes("systemd", line)


@pytest.mark.parametrize(
    ("name", "content"),
    [("sanitizer", NAMED), ("sanitizer", THREAD_SANITIZER), ("gdb", GDB), ("backtrace", BACKTRACE)]
    + [
        ("tombstone", TOMBSTONE),
        ("systemd", SYSTEMD),
        ("strace", STRACE),
        ("eu-stack", EU_STACK),
        ("valgrind", VALGRIND),
        ("glog", GLOG),
    ],
)
def test_each_format_is_known_by_its_content(name: str, content: bytes) -> None:
    assert next(each for each in READERS if recognizes(each, content)) == name
