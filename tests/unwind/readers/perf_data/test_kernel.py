"""Names of kernel functions: from vmlinux, modules, perf's copy of kallsyms, the kernel that runs, the recording."""

from __future__ import annotations

import gzip
import logging
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from zstandard import ZstdCompressor

from icf.elf.image import Image
from tests.support import perf_data as p
from tests.support.toolchain import lasting_folder, run, tool
from unwind.process.image_finder import ImageFinder
from unwind.readers.formats import reader_of
from unwind.readers.perf_data import kernel
from unwind.readers.perf_data.changes import Changes, Mapped
from unwind.readers.perf_data.header import KERNEL, Header
from unwind.readers.perf_data.kernel import KernelNames
from unwind.readers.perf_data.kernel_images import placed
from unwind.readers.source import Source

LINKED, MOVE = 0xFFFFFFFF81000000, 0x1E000000
MODULE = 0xFFFFFFFFC0A01000
CODE = """
__asm__(".globl _text\\n.text\\n_text:");
int sink;
__attribute__((noinline)) void first(void) { sink++; }
__attribute__((noinline)) void second(void) { sink += 2; first(); }
__attribute__((section(".text.other"))) void third(void) { sink += 3; }
__attribute__((section(".init.text"))) void once(void) { sink += 4; }
"""


@pytest.fixture(scope="module")
def built() -> Path:
    """Build a kernel and a module."""
    folder = lasting_folder()
    (folder / "k.c").write_text(CODE)
    run(
        tool("gcc"),
        "-c",
        "-O1",
        "-mcmodel=kernel",
        "-fno-pie",
        "-fcf-protection=none",
        folder / "k.c",
        "-o",
        folder / "k.o",
    )
    run(tool("ld"), "--build-id", f"-Ttext={LINKED:#x}", "-e", "_text", folder / "k.o", "-o", folder / "vmlinux")
    run(tool("ld"), "-r", "--build-id", folder / "k.o", "-o", folder / "k.ko")
    return folder


@pytest.fixture(autouse=True)
def no_kernel_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kernel, "running_build_id", lambda *_: b"")


def addresses(image: Image) -> dict[str, tuple[int, str]]:
    """Return the values of symbols in sections, and the names of those."""
    symbols = image.symbols
    return {
        symbols.name(row): (int(symbols.value[row]), image.sections[int(symbols.shndx[row])].name)
        for row in range(len(symbols))
        if 0 < int(symbols.shndx[row]) < len(image.sections)
    }


def names(build_ids: dict[str, bytes], finder: ImageFinder, *mapped: Mapped, release: str = "") -> KernelNames:
    header = Header("p", build_ids=build_ids, release=release)
    changes = Changes(header)
    changes.kernel += mapped
    return KernelNames(changes, header, finder)


def text(move: int = MOVE) -> Mapped:
    """Return the mapping of the kernel's text, `move` from where it is linked."""
    return Mapped(LINKED + move, LINKED + move + 0x10000, f"{KERNEL}_text", None, LINKED + move)


@pytest.mark.parametrize("where", ["boot/vmlinux-6.1", "lib/modules/6.1/vmlinux", ".build-id", "vmlinux"])
def test_vmlinux_of_the_build(where: str, built: Path, tmp_path: Path) -> None:
    with Image.open(built / "vmlinux") as image:
        build_id, symbols = image.build_id, addresses(image)
    path = tmp_path / where / build_id.hex()[:2] / build_id.hex()[2:] if where == ".build-id" else tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((built / "vmlinux").read_bytes())
    with ImageFinder((), [str(tmp_path)]) as finder:
        found = names({KERNEL: build_id}, finder, text(), release="6.1")
        for name in ("first", "second", "third"):
            frame = found.frame(symbols[name][0] + MOVE + 1, True)
            assert (frame.name, frame.is_certain) == (name, True)
        assert found.frame(symbols["second"][0] + MOVE, False).name == "first"  # a return address
        other = names({KERNEL: bytes(20)}, finder, text(), release="6.1").frame(symbols["first"][0] + MOVE, True)
        assert (other.name, other.is_certain) == ("[kernel]", False)


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".zst"])
def test_a_module_is_placed_as_the_kernel_does(suffix: str, built: Path, tmp_path: Path) -> None:
    content = (built / "k.ko").read_bytes()
    packers: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".xz": lzma.compress,
        ".gz": gzip.compress,
        ".zst": ZstdCompressor().compress,
    }
    path = tmp_path / f"lib/modules/6.1/kernel/k.ko{suffix}"
    path.parent.mkdir(parents=True)
    path.write_bytes(packers[suffix](content))
    recorded = f"/lib/modules/6.1/kernel/k.ko{suffix}"
    with Image.open(built / "k.ko", allow_rel=True) as image, ImageFinder([str(tmp_path)]) as finder:
        mapped = Mapped(MODULE, MODULE + 0x4000, recorded, None)
        found = names({recorded: image.build_id}, finder, mapped)
        places = {image.sections[idx].name: at for idx, at in placed(image, MODULE).items()}
        assert places[".text"] == MODULE < places[".text.other"] and ".init.text" not in places
        for name in ("first", "second", "third"):
            value, section = addresses(image)[name]
            frame = found.frame(places[section] + value + 1, True)
            assert (frame.name, frame.is_certain) == (name, True)
        assert found.frame(MODULE + 0x3FFF, True).name == "[k]"
        unknown = names({}, finder, mapped).frame(MODULE, True)
        assert (unknown.name, unknown.is_certain) == ("[k]", False)


def kallsyms(build_id: bytes, root: Path, anchor: int) -> None:
    path = root / ".build-id" / build_id.hex()[:2] / build_id.hex()[2:] / "kallsyms"
    path.parent.mkdir(parents=True)
    lines = [(0, "T _text"), (0, "t __weak"), (0x100, "t do_one"), (0x200, "T do_two"), (0x300, "T _etext")]
    modules = f"{MODULE:016x} t of_module\t[k]\n"
    path.write_text("".join(f"{anchor + at:016x} {line}\n" for at, line in lines) + modules + "damaged\n 12 T x\n")


def test_the_copy_of_kallsyms_that_perf_keeps(tmp_path: Path) -> None:
    kallsyms(bytes(range(20)), tmp_path / "home" / ".debug", LINKED)
    with ImageFinder() as finder:
        found = names({KERNEL: bytes(range(20))}, finder, text(), Mapped(MODULE, MODULE + 0x1000, "[k]", None))
        shown = [found.frame(LINKED + MOVE + at, True).name for at in (0x100, 0x1FF, 0x200, 0x300)]
        assert shown == ["do_one", "do_one", "do_two", "[kernel]"]
        assert found.frame(MODULE, True).name == "[k]"  # it may lie elsewhere
        no_text = Mapped(LINKED, LINKED + 0x1000, f"{KERNEL}_te\udcffxt", None, LINKED)
        assert names({KERNEL: bytes(range(20))}, finder, no_text).frame(LINKED, True).name == "[kernel]"
        unnamed = Mapped(LINKED, LINKED + 0x1000, KERNEL, None, LINKED)
        assert names({KERNEL: bytes(range(20))}, finder, unnamed).frame(LINKED, True).name == "[kernel]"


def test_the_kernel_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kallsyms(b"xy", tmp_path, LINKED)
    (path,) = tmp_path.glob(".build-id/*/*/kallsyms")
    (path.parent / "modules").write_text(f"k 4096 0 - Live {MODULE:#x}\n")
    monkeypatch.setattr(kernel, "running_build_id", lambda *_: b"xy")
    header = Header("p", build_ids={KERNEL: b"xy"})
    for move, of_module in ((0, "of_module"), (MOVE, "[k]")):
        changes = Changes(header)
        changes.kernel += [text(move), Mapped(MODULE, MODULE + 0x1000, "/lib/k.ko.xz", None)]
        changes.kernel_symbols += [Mapped(16, 32, "bpf_prog_1", None), Mapped(24, 40, "bpf_prog_2", None)]
        with ImageFinder() as finder:
            found = KernelNames(changes, header, finder, proc=str(path.parent))
            assert found.frame(LINKED + move + 0x150, True).name == "do_one"
            assert found.frame(MODULE + 1, True).name == of_module
            assert [found.frame(at, True).name for at in (16, 31, 39, 40)] == [
                "bpf_prog_1",
                "[kernel]",
                "bpf_prog_2",
                "[kernel]",
            ]


def test_what_is_missing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "icf"), ImageFinder() as finder:
        found = names({KERNEL: b"\1\2"}, finder, text(), Mapped(MODULE, MODULE + 0x1000, "[k]", None))
        for address in (LINKED + MOVE, LINKED + MOVE, LINKED + MOVE + 1, MODULE):
            found.frame(address, True)
        finder.report()
    assert [record.getMessage() for record in caplog.records] == [
        "[kernel.kallsyms]: neither vmlinux nor kallsyms of build id 0102: 2 distinct frames are unknown",
        "[k]: no such file: 1 distinct frame is unknown",
    ]


def test_records_of_symbols_and_of_the_kernels_build(tmp_path: Path) -> None:
    symbol = p.record(
        17, p.words(0xFFFFFFFFC0000000) + bytes([32, 0, 0, 0, 1, 0, 0, 0]) + p.text("bpf_prog_x") + p.end_of(0, 1)
    )
    sample = p.sample(7, 2, p.CONTEXT_KERNEL, 0xFFFFFFFFC0000010, misc=p.KERNEL)
    (tmp_path / "p").write_bytes(p.perf_data(symbol + sample))
    with Source.open(str(tmp_path / "p")) as source:
        ((frame,),) = (each.frames for each in reader_of("perf").read(source))
    assert (frame.name, frame.is_certain) == ("bpf_prog_x", True)


SYSCALLS = """
#include <unistd.h>
#include <sys/wait.h>
int main() { for (int i = 0; i < 3000; i++) { if (!fork()) _exit(0); wait(0); } }
"""


def test_names_are_those_that_perf_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s.c").write_text(SYSCALLS)
    program, data = tmp_path / "s", tmp_path / "perf.data"
    run(tool("gcc"), "-O1", tmp_path / "s.c", "-o", program)
    done = run(tool("perf"), "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", data, program, check=False)
    if done.returncode:
        pytest.skip("perf may not record here")
    text = run(tool("perf"), "script", "-i", data, "-F", "ip,sym,dso").stdout
    perfs = Counter(line.split()[1] for line in text.splitlines() if line.endswith("([kernel.kallsyms])"))
    if not perfs or perfs.most_common(1)[0][0] == "[unknown]":
        pytest.skip("perf has no names of kernel functions here")
    with Source.open(str(data)) as source:
        frames = [frame for sample in reader_of("perf").read(source) for frame in sample.frames]
    ours = Counter(frame.name for frame in frames if frame.address is not None and frame.address >> 63)
    assert sum(ours.values()) == sum(perfs.values())
    # of several symbols at one address perf may show another one
    assert (ours & perfs).total() > 0.97 * ours.total()
