"""`icf stacks` on the core file of an AArch64 program: unwound with its call frame information, threads included.

The emulator's core file has registers and memory, but lists no files; the kernel's would. They are added from what the
program has printed of itself.
"""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path

from icf.elf.types import PF_X, Machine
from icf.filebytes import FileBytes
from tests.e2e.program import icf
from tests.support.cores import MadeCore, MadeThread
from tests.support.toolchain import TIMEOUT_S, run, tool
from unwind.dumps.core import read_core
from unwind.process.maps import parse_maps

SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>
static volatile int sum;
__attribute__((noinline)) void show() {
  char text[4096];
  int fd = open("/proc/self/maps", O_RDONLY);
  for (long count; (count = read(fd, text, sizeof text)) > 0;) if (write(1, text, count) != count) exit(1);
}
__attribute__((noinline)) int inner(int n) { show(); if (n) abort(); return sum; }
__attribute__((noinline)) int outer(int n) { char room[n * 64]; room[n] = 1; sum = inner(n) + room[n]; return sum; }
int main(int argc, char **) { sum = outer(argc) + 1; return sum; }
"""
PAGE_BYTES = 4096


def test_frames_of_aarch64(tmp_path: Path) -> None:
    emulator, compiler = tool("qemu-aarch64"), tool("aarch64-linux-gnu-g++")
    (tmp_path / "shop.cpp").write_text(SOURCE)
    run(compiler, "-O2", "-g", "-static", "shop.cpp", "-o", "shop", folder=tmp_path)
    done = subprocess.run(
        [emulator, tmp_path / "shop"],
        cwd=tmp_path,
        capture_output=True,
        timeout=TIMEOUT_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2),
    )
    (emulated,) = tmp_path.glob("qemu_shop_*.core")
    path = tmp_path / "shop.core"
    path.write_bytes(with_files(emulated, done.stdout).build())
    (thread,) = [json.loads(line) for line in icf("stacks", "--core", path, "--json").splitlines()]
    names = [frame["name"] for frame in thread["frames"]]
    at = names.index("inner(int)")
    assert names[at : at + 3] == ["inner(int)", "outer(int)", "main"] and names[-1] == "_start"
    assert "end" not in thread["labels"] and thread["labels"]["signal"] == "SIGABRT"


def with_files(emulated: Path, maps: bytes) -> MadeCore:
    """The core file as the kernel would have written it."""
    dump = read_core(FileBytes.open(str(emulated)))
    core = MadeCore(Machine.AARCH64)
    for thread in dump.threads:
        core.threads.append(MadeThread(thread.tid, [*(thread.registers[number] for number in range(33)), 0], 6))
    for mapping in parse_maps(maps, "maps"):
        extent = dump.memory.extent(mapping.start)
        content = b""
        if extent is not None:
            content = bytes(dump.memory.view(mapping.start, min(mapping.end, extent[1])))
        elif mapping.is_of_file and mapping.offset == 0:
            content = Path(mapping.path).read_bytes()[:PAGE_BYTES]
        flags = PF_X if mapping.is_executable else 0
        core.memory.append((mapping.start, content, mapping.end - mapping.start, flags))
        if mapping.is_of_file:
            core.files.append((mapping.start, mapping.end, mapping.offset // PAGE_BYTES, mapping.path.encode()))
    return core
