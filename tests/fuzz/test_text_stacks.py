"""Ten thousand mutations of texts with stacks: each is read, soon; a line is a frame or is passed over."""

from __future__ import annotations

import random
import time

import pytest

from icf.errors import IcfError
from tests.fuzz.limits import many, peak_memory, reset_peak_memory
from tests.support.mutations import mutated_text
from tests.support.recordings import read, recognizes
from unwind.readers import (
    backtrace,
    eu_stack,
    gdb,
    glog,
    hs_err,
    lldb,
    llvm,
    rust,
    sanitizer,
    strace,
    systemd,
    tombstone,
    valgrind,
)

TEXTS = {
    "sanitizer": b"""==1==ERROR: AddressSanitizer: SEGV
    #0 0x55b480fdd984 in List<User>::last() /src/shop.cpp:7:49
    #1 0x55b480f06a60 in _start (/bin/shop+0x62a60) (BuildId: b13b462b)
    #2 f() <null> (shop+0x117c0e)
""",
    "hs-err": b"""# C  [libshop.so+0x19d9]  List<Order>::grow(int)+0x9
Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)
C  [libshop.so+0x19d9]  List<Order>::grow(int)+0x9
C  [libshop.so+0x19c1]  Java_Crash_crash+0x21  (shop.cpp:7)
J 1591 c1 Crash.main([Ljava/lang/String;)V (14 bytes) @ 0x00007f27945672a4 [0x00007f2794567200+0x00000000000000a4]
V  [libjvm.so+0xa23840]

Dynamic libraries:
7f0eea42c000-7f0eea42d000 r-xp 00001000 fe:00 2254945                    /opt/libshop.so
""",
    "lldb": b"""[  0] F23CFCE4-A613-6B83-5D30-A5DD07C4FDCD-1133A5C5 0x0000000000200000 /bin/shop
  * frame #0: 0x0000000000201ba5 shop`List<Order>::grow(this=0x0000000000203ef8, s="a") at list.h:4:91
    frame #1: 0x0000000000201a7c shop`post(p=<unavailable>) at shop.cpp:8:67 [opt] [artificial]
    frame #2: 0x0000000000201b0f shop`int call<int>(int, int) [inlined] (anonymous namespace)::inner(n=1) at a.cpp:10
    frame #3: 0x0000000000201aa9 shop`int call<int>(int, int) + 33
""",
    "llvm": b""" #0 0x000055b480fdd984 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) /src/Signals.inc:727:11
 #1 0x000055b480f06a60 main (/bin/shop+0x62a60)
 #2 0x00007f86a82b4d24 (/usr/lib/libLLVM.so.19.1+0xeb4d24)
""",
    "systemd": b"""Found module shop with build-id: 18b9a9a8c523e5cf
#0  0x00007f9eb4611dd0 __libc_pause (libc.so.6 + 0xd3dd0)
#1  0x00007f8002b85a90 __restore_rt (/lib/libpthread.so.0)
#10 0x0000561a7455f930 n/a (n/a)
""",
    "eu-stack": b"""TID 12:
#0  0x00007f9eb4611dd0     __libc_pause - /lib/libc.so.6
    ../sysdeps/unix/sysv/linux/pause.c:29:10
#1  0x00007f8002b85a90 - 1 List<User>::grow(int) - [vdso: 12]
#2  0x0000561a7455f930
""",
    "valgrind": b"""==12== HEAP SUMMARY:
==12==    at 0x48417B4: malloc (in /usr/lib/vgpreload_memcheck-amd64-linux.so)
==12==    by 0x10AB5D: List<User>::grow(int) [clone .isra.0] (list.h:12)
==12==    by 0x4009: ??? (in /usr/bin/shop)
""",
    "glog": b"""*** Check failure stack trace: ***
    @     0x56452b5e4b98  List<User>::push()
    @     0x56452b5e4c09         16  List<User>::add()
    @     0x56452b5e46b9  (unknown)  (unknown)
""",
    "strace": b"""pause() = 0
 > /lib/libc.so.6(pause+0x10) [0xd3dd0]
 > /bin/shop(List<User>::grow(int) [clone .isra.0]+0x1e) [0x1b5e]
 > /bin/shop() [0x4009]
 > unexpected_backtracing_error [0x7f8002b85a90]
""",
    "gdb": b"""#0  show () at bt.cpp:5
        n = <optimized out>
#1  0x00005555555558d8 in List<Order>::grow (this=this@entry=0x7ffe) at bt.cpp:6
#2  std::function<int (int)>::operator() (n=1) from /lib/a.so
""",
    "backtrace": b"[1] /bin/shop(+0x1858) [0x557279ac7858]\n/bin/shop(_Z4growv+0x8)[0x557279ac7b18]\n./a[0x2017fd]\n",
    "rust": b"""stack backtrace:
   0:     0x55f7f1be29cb - shop::grow::h583d3dabbdfdb0fe
                               at /src/shop.rs:4:67
   1:     0x55f7f1be29cb - <shop::List<T> as shop::Add>::add
                               at ./shop.rs:2:68
  10:                0x0 - <unknown>
""",
    "tombstone": b"#00 pc 0000000000089908  /lib/a.so!b.so (offset 0x10) (f(int)+164) (BuildId: 2d6dd1d9)\n" * 3,
}
PIECES = (
    b"#1 ",
    b"0x",
    b" in ",
    b"(",
    b")",
    b"<",
    b" (/",
    b"+0x1",
    b"\n",
    b"\x00",
    b"\xff",
    b"9" * 40,
    b"[0x",
    b" pc ",
    b": 0x1 - ",
    b" [inlined] ",
    b"frame #1: ",
)
MUTATION_COUNT, TIME_LIMIT_S, MEMORY_LIMIT_BYTES = many(10_000), 60, 100 << 20


@pytest.mark.parametrize("name", TEXTS)
def test_mutations_are_read(name: str) -> None:
    chance = random.Random(1)
    outcomes = [0, 0]
    start = time.process_time()
    reset_peak_memory()
    before = peak_memory()
    for _ in range(MUTATION_COUNT):
        data = mutated_text(TEXTS[name], PIECES, chance)
        outcomes[recognizes(name, data)] += 1
        try:
            recording = read(name, data)
        except IcfError as error:
            assert str(error) == "f: the backtraces have no addresses"
            continue
        for sample in recording:
            assert sample.frames
            assert all(frame.address is None or 0 <= frame.address < 1 << 64 for frame in sample.frames)
    assert time.process_time() - start < TIME_LIMIT_S * many(1)
    assert peak_memory() - before < MEMORY_LIMIT_BYTES
    assert outcomes[True] > MUTATION_COUNT // 20


@pytest.mark.parametrize(
    "piece", [b"#1 ", b"#1 0x", b"(", b"<", b" in ", b"+0x1)", b" (/", b"[0x1]", b"operator<", b":1", b"1: 0x1 - "]
)
def test_the_time_for_a_line_grows_with_its_length_alone(piece: bytes) -> None:
    """Lines of 128 KiB of what expressions might try over and over."""
    for start in (
        b"#1 0x0000000000001136 in f",
        b"#1 0x1136 in ",
        b"#1 0x0000000000001136 f ",
        b"#1  0x0000000000001136 f (",
        b" > a(",
        b"==1==    by 0x12: ",
        b"    @ 0x12 ",
        b"#01 pc 0000000000089908 ",
        b"frame #1: 0x0000000000001136 a`f",
        b"C  [a+0x1136]  ",
        b"J 1591 c1 ",
        b"/a",
        b"",
    ):
        for end in (b"\n", b" (a+0x1)\n", b")[0x1136]\n", b") at a.c:1\n", b" (f+1)\n", b"+0x1) [0x12]\n"):
            line = start + piece * ((1 << 17) // len(piece)) + end
            begin = time.thread_time()
            for reader in (
                lldb,
                hs_err,
                sanitizer,
                systemd,
                eu_stack,
                valgrind,
                glog,
                strace,
                llvm,
                gdb,
                backtrace,
                tombstone,
                rust,
            ):
                reader.parse(line)
            assert time.thread_time() - begin < 1, (start, end)
