"""Addresses as people have them: interrupted functions, return addresses less one; real stacks.

A program steps through itself: the trap flag makes the processor raise SIGTRAP after every instruction, and the handler
writes the stack when a certain function is about to run its first one. That function follows one that ends in a call of
a function that does not return, without padding between them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from icf.cli import main
from icf.elf.image import Image
from icf.elf.types import PF_X
from tests.support.toolchain import linker_options, run, tool

SOURCE = r"""
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline))
volatile int sink;
static int seen;
NOINLINE __attribute__((noreturn)) void fail(int value) { printf("%d\n", value); exit(3); }
NOINLINE __attribute__((noreturn)) void before(int value) { sink += value; fail(value); }
NOINLINE void target(int value) { sink -= value; }
NOINLINE void caller(int value) { target(value); sink++; }
static void handler(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  if (seen || ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != (long)target) return;
  seen = 1;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
  void *found[32];
  int count = backtrace(found, 32);
  for (int i = 0; i < count; i++) printf("%p ", found[i]);
  printf("\n");
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = getc(maps)) != EOF;) putchar(c);
}
int main(int count, char **names) {
  (void)names;
  void *found[4];
  backtrace(found, 4);  /* loads what it needs */
  struct sigaction action = {0};
  action.sa_sigaction = handler, action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, 0);
  if (count > 5) before(count);
  __asm__ volatile("pushfq; orq $0x100, (%rsp); popfq");
  caller(count);
  __asm__ volatile("pushfq; andq $~0x100, (%rsp); popfq");
  return 0;
}
"""


class Stepped:
    """A program and the stack of its signal handler: run-time addresses, and the mappings of that moment."""

    def __init__(self, folder: Path, *options: str, compiler: str = "gcc") -> None:
        source, self.image = folder / "a.c", folder / "a.out"
        source.write_text(SOURCE)
        command = [tool(compiler), "-falign-functions=1", "-g"]
        if compiler == "gcc":
            command += ["-fno-reorder-functions", "-fno-toplevel-reorder"]
        run(*command, *options, "-o", self.image, source)
        text = subprocess.check_output([self.image], text=True, timeout=60)
        stack, _, self.maps = text.partition("\n")
        self.addresses = stack.split()
        symbols = subprocess.check_output([tool("nm"), "-n", self.image], text=True).split()
        assert symbols[symbols.index("target") - 3] == "before"


@pytest.fixture(params=["-O0", "-O2"])
def optimization(request: pytest.FixtureRequest) -> str:
    level: str = request.param
    return level


def resolve(capsys: pytest.CaptureFixture[str], folder: Path, stack: str, *options: object) -> list[str | None]:
    (folder / "stacks").write_text(stack + "\n")
    arguments = ["--out", "json", "--cache-dir", folder / "cache", *options, folder / "stacks"]
    capsys.readouterr()
    assert main(["resolve", *map(str, arguments)]) == 0
    return [frame["name"] for frame in json.loads(capsys.readouterr().out)["frames"]]


def less_one(addresses: list[str], exact: int) -> list[str]:
    """As libdw has them: all but the first and those that a signal interrupted."""
    return [each if idx in (0, exact) else f"{int(each, 16) - 1:#x}" for idx, each in enumerate(addresses)]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_static_program_says_itself_which_frame_a_signal_interrupted(
    compiler: str, optimization: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Stepped(tmp_path, optimization, "-static", compiler=compiler)
    at = resolve(capsys, tmp_path, " ".join(program.addresses), "-e", program.image).index("target")
    for addresses in (program.addresses, less_one(program.addresses, at)):
        names = resolve(capsys, tmp_path, " ".join(addresses), "-e", program.image)
        assert names[0] == "handler" and names[at : at + 3] == ["target", "caller", "main"]


def test_the_trampoline_of_another_module_says_which_frame_a_signal_interrupted(
    optimization: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Stepped(tmp_path, optimization)
    (tmp_path / "maps").write_text(program.maps)
    names = resolve(capsys, tmp_path, " ".join(program.addresses), "--modules", tmp_path / "maps")
    assert names[0] == "handler" and names[2:5] == ["target", "caller", "main"]


def test_a_marked_address_is_exact(optimization: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Stepped(tmp_path, optimization, "-static", "-no-pie")
    at = resolve(capsys, tmp_path, " ".join(program.addresses), "-e", program.image).index("target")
    plain = ["?" if idx == at - 1 else each for idx, each in enumerate(program.addresses)]
    assert resolve(capsys, tmp_path, " ".join(plain), "-e", program.image)[at] == "before"
    plain[at] += "!"
    names = resolve(capsys, tmp_path, " ".join(plain), "-e", program.image)
    assert names[at : at + 3] == ["target", "caller", "main"]


def chain(depth: int) -> str:
    functions = ["static NOINLINE int f0(int value) { write_stack(); return value + sink; }"]
    functions += [
        f"static NOINLINE int f{each}(int value) {{ sink += f{each - 1}(value + {each}); return sink * {each}; }}"
        for each in range(1, depth)
    ]
    return "\n".join(functions)


DEEP = (
    """
#include <execinfo.h>
#include <stdio.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
volatile int sink;
static NOINLINE void write_stack(void) {
  void *found[64];
  int count = backtrace(found, 64);
  for (int i = 0; i < count; i++) printf("%p ", found[i]);
  printf("\\n");
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = getc(maps)) != EOF;) putchar(c);
}
"""
    + chain(12)
    + "\nint main(void) { return f11(1) == 7; }\n"
)
NAMES = ["write_stack", *(f"f{each}" for each in range(12)), "main"]


class Deep:
    """A position-independent program whose code lies at addresses other than its offsets (lld); a stack of it."""

    def __init__(self, folder: Path) -> None:
        source, self.image = folder / "deep.c", folder / "deep"
        source.write_text(DEEP)
        lld = linker_options("lld", tool("ld.lld"))
        run(tool("clang"), "-O1", "-g", "-fPIE", "-pie", *lld, "-o", self.image, source)
        text = subprocess.check_output([self.image], text=True, timeout=60)
        stack, _, self.maps = text.partition("\n")
        self.addresses = [int(each, 16) for each in stack.split()]
        own = [line.split() for line in self.maps.splitlines() if line.endswith(f" {self.image}")]
        self.load_address = int(own[0][0].partition("-")[0], 16)
        code = next(line for line in own if "x" in line[1])
        (self.start, self.end), self.offset = (int(each, 16) for each in code[0].split("-")), int(code[2], 16)
        headers = [segment for segment in Image.open(str(self.image)).segments if segment.flags & PF_X]
        self.delta = headers[0].vaddr - headers[0].offset
        assert self.delta

    @property
    def linked(self) -> list[int]:
        """The addresses of its own frames, as linked."""
        return [each - self.load_address for each in self.addresses if self.start <= each < self.end]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Deep:
    return Deep(tmp_path_factory.mktemp("deep"))


def listed(folder: Path, *entries: dict[str, object]) -> Path:
    (folder / "modules.json").write_text(json.dumps(entries))
    return folder / "modules.json"


def words(addresses: list[int]) -> str:
    return " ".join(map(hex, addresses))


def test_the_text_of_proc_maps_is_a_list_of_modules(
    deep: Deep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "maps").write_text(deep.maps)
    assert resolve(capsys, tmp_path, words(deep.addresses), "--modules", tmp_path / "maps")[:14] == NAMES


def test_a_mapping_says_where_its_image_lies(deep: Deep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping: dict[str, object] = {"path": str(deep.image), "start": hex(deep.start), "offset": deep.offset}
    every = [
        {"path": str(deep.image), "start": f"0x{line.partition('-')[0]}", "offset": f"0x{line.split()[2]}"}
        for line in deep.maps.splitlines()
        if line.endswith(f" {deep.image}")
    ]
    for entries in ([{**mapping, "end": deep.end}], every, every[::-1]):
        names = resolve(capsys, tmp_path, words(deep.addresses), "--modules", listed(tmp_path, *entries))
        assert names[:14] == NAMES


def test_a_load_address_that_is_a_mapping_less_its_offset_is_noticed(
    deep: Deep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry: dict[str, object] = {"path": str(deep.image), "load_address": deep.start - deep.offset}
    (tmp_path / "stacks").write_text(words(deep.addresses))
    modules = str(listed(tmp_path, entry))
    main(["resolve", "--modules", modules, "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "stacks")])
    error = capsys.readouterr().err
    assert "return addresses do not follow a call: wrong base?" in error
    assert f"With {deep.delta:#x} added they do." in error


def test_offsets_in_the_file_are_noticed(deep: Deep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stacks").write_text(words([each - deep.delta for each in deep.linked]))
    main(["resolve", "-e", str(deep.image), "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "stacks")])
    assert (
        f"wrong base? With {deep.delta:#x} added they do.\nhint: -e takes addresses as linked"
        in capsys.readouterr().err
    )
    assert resolve(capsys, tmp_path, words(deep.linked), "-e", deep.image)[:14] == NAMES
    assert main(["resolve", "-e", str(deep.image), "--cache-dir", str(tmp_path), str(tmp_path / "stacks")]) == 0
    assert "wrong base" not in capsys.readouterr().err


def test_run_time_addresses_of_one_image_get_a_hint_and_exit_status_1(
    deep: Deep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stacks").write_text(words(deep.addresses))
    arguments = ["resolve", "-e", str(deep.image), "--cache-dir", str(tmp_path / "cache"), "--out", "json"]
    assert main([*arguments, str(tmp_path / "stacks")]) == 1
    captured = capsys.readouterr()
    assert {frame["verdict"] for frame in json.loads(captured.out)["frames"]} == {"unknown"}
    assert "are they run-time addresses?\nhint: say with --modules what was loaded where" in captured.err
    assert captured.err.endswith("icf: every frame of every stack is unknown\n")
    (tmp_path / "stacks").write_text("0x10 0x20 0x30 0x40\n")  # below the code: these are no run-time addresses
    assert main([*arguments, str(tmp_path / "stacks")]) == 1
    error = capsys.readouterr().err
    assert "run-time" not in error and error.endswith("icf: every frame of every stack is unknown\n")
    (tmp_path / "stacks").write_text("# none\n")
    assert main([*arguments, str(tmp_path / "stacks")]) == 0
