"""Logs of Java VMs that have crashed, as OpenJDK 17 and 25 have written them, shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.recordings import read, recognizes
from unwind.process.module_list import read_modules
from unwind.readers import hs_err
from unwind.readers.formats import READERS
from unwind.samples.recording import Base, Losses, RecordedModule, Sample

TOP = b"""#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f0eea42c175, pid=968, tid=969
#
# Problematic frame:
# C  [libshopjni.so+0x19d9]  List<Order>::grow(int)+0x9
#

---------------  T H R E A D  ---------------

Stack: [0x00007f27b2c20000,0x00007f27b2d20000],  sp=0x00007f27b2d1e890,  free space=1018k
"""
NATIVE = b"""Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)
C  [libshopjni.so+0x19d9]  List<Order>::grow(int)+0x9
C  [libshopjni.so+0x1994]  List<Payment>::add(Payment*, int)+0x14
C  [libshopjni.so+0x19c1]  Java_Crash_crash+0x21  (shop.cpp:8)
J 1620  Crash.crash(I)I (0 bytes) @ 0x00007f279bf68102 [0x00007f279bf68080+0x0000000000000082]
J 1299 c1 Crash.main([Ljava/lang/String;)V (14 bytes) @ 0x00007f27945672a4 [0x00007f2794567200+0x00000000000000a4]
j  Crash.main([Ljava/lang/String;)V+7
v  ~StubRoutines::call_stub 0x00007f279b938fa6
V  [libjvm.so+0xaedd96]  jni_invoke_static(JNIEnv_*, JavaValue*, _jobject*) [clone .constprop.1]+0x396
C  [libjli.so+0xed89]
C  0x0000000000000000
"""
JAVA = b"""Java frames: (J=compiled Java code, j=interpreted, Vv=VM code)
J 1330  Crash.crash(I)I (0 bytes) @ 0x00007f279bf680c9 [0x00007f279bf68080+0x0000000000000049]
v  ~StubRoutines::call_stub 0x00007f279b938fa6

siginfo: si_signo: 11 (SIGSEGV), si_code: 1 (SEGV_MAPERR), si_addr: 0x0000000000000000
"""
MAPS = b"""
Dynamic libraries:
5631d3e4d000-5631d3e4e000 r-xp 00001000 fe:00 327901                     /usr/lib/jvm/17/bin/java
7f0eea42b000-7f0eea42c000 r--p 00000000 fe:00 2254945                    /opt/my app/libshopjni.so
7f0eea42c000-7f0eea42d000 r-xp 00001000 fe:00 2254945                    /opt/my app/libshopjni.so
7f0eea600000-7f0eea851000 r--p 00000000 fe:00 328261                     /usr/lib/jvm/17/lib/server/libjvm.so
7f0eea851000-7f0eeb5a4000 r-xp 00251000 fe:00 328261                     /usr/lib/jvm/17/lib/server/libjvm.so
7ffd98623000-7ffd98644000 rw-p 00000000 00:00 0                          [stack]

VM Arguments:
"""
SHOP = RecordedModule("/opt/my app/libshopjni.so", base=Base.LOWEST)


def places(sample: Sample) -> list[tuple[str, int | None]]:
    return [(frame.module.path if frame.module else "", frame.address) for frame in sample.frames]


def test_native_frames_with_the_paths_that_stand_further_down() -> None:
    recording = read("hs-err", TOP + NATIVE + JAVA + MAPS)
    assert recording.losses is Losses.FRAME_POINTERS
    (sample,) = recording
    jvm = "/usr/lib/jvm/17/lib/server/libjvm.so"
    assert places(sample) == [
        *[(SHOP.path, address) for address in (0x19D9, 0x1994, 0x19C1)],
        *[("", None)] * 4,
        (jvm, 0xAEDD96),
        ("libjli.so", 0xED89),
        ("", None),
    ]
    assert sample.frames[0].module == SHOP and not sample.is_called
    assert [frame.name for frame in sample.frames[:2]] == [
        "List<Order>::grow(int)",
        "List<Payment>::add(Payment*, int)",
    ]
    assert (sample.frames[2].name, sample.frames[2].file, sample.frames[2].line) == ("Java_Crash_crash", "shop.cpp", 8)
    names = ["Crash.crash(I)I", "Crash.main([Ljava/lang/String;)V", "Crash.main([Ljava/lang/String;)V"]
    assert [frame.name for frame in sample.frames[3:7]] == [*names, "~StubRoutines::call_stub"]
    assert [frame.name for frame in sample.frames[8:]] == ["", ""]


def test_the_first_native_frame_after_one_of_java_is_a_return_address() -> None:
    title, *lines = NATIVE.splitlines(True)
    (sample,) = read("hs-err", title + b"".join(lines[6:]))
    assert places(sample)[:2] == [("", None), ("libjvm.so", 0xAEDD96)] and not sample.is_called
    (cut,) = read("hs-err", b"".join(lines[7:]))
    assert places(cut)[0] == ("libjvm.so", 0xAEDD96) and cut.is_called


def test_a_name_that_two_files_have_is_no_path() -> None:
    other = MAPS.replace(b"/usr/lib/jvm/17/bin/java", b"/opt/other/libshopjni.so")
    (sample,) = read("hs-err", NATIVE + other)
    assert places(sample)[0] == ("libshopjni.so", 0x19D9)


@pytest.mark.parametrize(
    "line",
    [
        b"C  [libshop.so]  f+0x1\n",
        b"C [libshop.so+0x12]  f+0x1\n",
        b"#C  [libshop.so+0x12]  f+0x1\n",
        b"ABC  [libshop.so+0x12]  f+0x1\n",
        b"V  [libjvm.so+0x12]x\n",
        b"Native frames: (J=compiled Java code)\n",
        b"j  Crash.main([Ljava/lang/String;)V+7\n",
    ],
)
def test_lines_that_say_no_place(line: bytes) -> None:
    assert not recognizes("hs-err", line)


def test_the_parts_of_a_line_are_the_whole() -> None:
    for line in NATIVE.splitlines(True)[1:]:
        frame = hs_err.parse(line)
        assert frame is not None
        before, name, *rest = frame.parts
        assert b"".join((before, b"  " if name else b"", name, *rest)) == line


def test_the_format_is_known_by_its_content() -> None:
    for text in (TOP + NATIVE + JAVA + MAPS, TOP, NATIVE):
        assert next(each for each in READERS if recognizes(each, text)) == "hs-err"


def test_the_log_says_where_modules_lay(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes((TOP + NATIVE + JAVA + MAPS).replace(b"\n", b"\r\n"))
    modules = read_modules(str(log))
    assert [module.path for module in modules] == [
        "/usr/lib/jvm/17/bin/java",
        SHOP.path,
        "/usr/lib/jvm/17/lib/server/libjvm.so",
    ]
    assert [(each.start, each.offset) for each in modules[1].mappings] == [
        (0x7F0EEA42B000, 0),
        (0x7F0EEA42C000, 0x1000),
    ]
    log.write_bytes(TOP + MAPS.replace(b"r-xp", b"r?xp"))
    with pytest.raises(IcfError, match="is not a mapping above those before it"):
        read_modules(str(log))
