"""`icf stacks --pid`: all threads of a running process, which runs on, whatever happens to who has stopped it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.e2e.program import icf
from tests.support.toolchain import find, lasting_folder, link, run, tool
from unwind.dumps import live, ptrace
from unwind.dumps.live import copy_process

SOURCE = r"""
#include <atomic>
#include <csignal>
#include <cstdio>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
struct Order {}; struct Payment {};
static volatile long sum;
static std::atomic<int> ready;
template <class T> struct Ledger {
  __attribute__((noinline)) static long wait(int n) { ready++; for (;;) { pause(); sum = sum + n; } }
  __attribute__((noinline)) static long book(int n) { long found = wait(n); sum = sum + found; return found; }
};
__attribute__((noinline)) void count() { for (;;) { sum = sum + 1; if (sum % 100000 == 0) usleep(1000); } }
__attribute__((noinline)) void come_and_go() { for (;;) std::thread([] { usleep(50); }).join(); }
void orders() { Ledger<Order>::book(1); sum = sum + 1; }
void payments() { Ledger<Payment>::book(2); sum = sum - 7; }
int main(int argc, char **) {
  std::thread first(orders), second(payments), third(count);
  while (ready < 2) usleep(100);
  puts("ready");
  fflush(stdout);
  if (argc > 2) syscall(SYS_exit, 0);
  if (argc > 1) come_and_go();
  pause();
}
"""
FLAGS = ("-O2", "-g", "-ffunction-sections", "-fPIE", "-pthread")


@pytest.fixture(scope="module")
def program() -> Path:
    """A program with merged functions, and its tables."""
    folder = lasting_folder()
    (folder / "shop.cpp").write_text(SOURCE)
    run(tool("clang++"), *FLAGS, "-c", "shop.cpp", "-o", "shop.o", folder=folder)
    folded = link(folder / "shop", "lld", folder / "shop.o", "-pie", "-pthread", "-Wl,--icf=all")
    icf("pass", folded, "--objects", folder / "shop.o")
    return folded


@contextmanager
def running(program: Path, *arguments: str) -> Iterator[int]:
    """Run the program until its threads are where they stay."""
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process.pid
            assert process.poll() is None
        finally:
            process.kill()


def states(pid: int) -> set[str]:
    """The states of the threads of a process: R, S, D run on; t, T are stopped."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:  # it has ended
            continue
    return found


def assert_runs(pid: int) -> None:
    """No thread is stopped, or traced, and the one that counts goes on."""
    until = time.monotonic() + 5
    while states(pid) & {"t", "T"} and time.monotonic() < until:
        time.sleep(0.001)
    assert not states(pid) & {"t", "T"}
    assert re.search(r"^TracerPid:\t0$", Path(f"/proc/{pid}/status").read_text(), re.M)
    before = ticks(pid)
    while ticks(pid) == before and time.monotonic() < until:
        time.sleep(0.01)
    assert ticks(pid) > before


def ticks(pid: int) -> int:
    """How long a process has run."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_threads_are_named_and_run_on(program: Path) -> None:
    with running(program) as pid:
        lines = icf("stacks", "--pid", str(pid), "--json").splitlines()
        assert_runs(pid)
        elfutils = run("eu-stack", "-p", str(pid), check=False).stdout if find("eu-stack") else ""
        assert_runs(pid)
    threads = [json.loads(line) for line in lines]
    names = {thread["labels"]["tid"] - pid: [frame["name"] for frame in thread["frames"]] for thread in threads}
    assert len(names) == 4 and "main" in names[0]
    for tid, name in zip(sorted(names)[1:3], ("Order", "Payment"), strict=True):
        assert names[tid][1:3] == [f"Ledger<{name}>::wait(int)", f"Ledger<{name}>::book(int)"]
    assert "count()" in names[sorted(names)[3]]
    if elfutils:
        found = dict(re.findall(r"^TID (\d+):\n((?:#.*\n)*)", elfutils, re.M))
        for thread in threads:
            tid = thread["labels"]["tid"]
            if "count()" not in names[tid - pid]:  # it moves
                pcs = [int(value, 16) for value in re.findall(r"^#\d+ +(0x[0-9a-f]+)", found[str(tid)], re.M)]
                assert pcs == [int(frame["address"], 16) for frame in thread["frames"]]


def test_threads_that_come_and_go(program: Path) -> None:
    with running(program, "more") as pid:
        for _ in range(30):
            assert len(copy_process(pid).dump.threads) >= 4
        assert_runs(pid)


def test_threads_outlive_the_first_one(program: Path) -> None:
    with running(program, "first", "ends") as pid:
        while "Z" not in states(pid):
            time.sleep(0.001)
        threads = [json.loads(line) for line in icf("stacks", "--pid", str(pid), "--json").splitlines()]
        others = {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - {pid}
    assert len(others) == 3 and {thread["labels"]["tid"] for thread in threads} == others
    names = [frame["name"] for thread in threads for frame in thread["frames"]]
    assert {"Ledger<Order>::book(int)", "Ledger<Payment>::book(int)", "count()"} <= set(names)


def test_a_process_that_is_stopped_stays_so(program: Path) -> None:
    with running(program) as pid:
        os.kill(pid, signal.SIGSTOP)
        while states(pid) != {"T"}:
            time.sleep(0.001)
        assert len(copy_process(pid).dump.threads) == 4
        until = time.monotonic() + 5
        while states(pid) != {"T"} and time.monotonic() < until:
            time.sleep(0.001)
        assert states(pid) == {"T"}
        os.kill(pid, signal.SIGCONT)
        assert_runs(pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_thread_stays_stopped_when_the_reader_is_killed(program: Path, number: signal.Signals) -> None:
    rng = random.Random(number)
    script = "import sys; from unwind.dumps.live import copy_process\nwhile True: copy_process(int(sys.argv[1]))"
    with running(program) as pid:
        for _ in range(6):
            with subprocess.Popen([sys.executable, "-c", script, str(pid)], stderr=subprocess.DEVNULL) as reader:
                until = time.monotonic() + 20
                while "t" not in states(pid) and time.monotonic() < until:
                    pass
                time.sleep(rng.random() * 0.01)
                reader.send_signal(number)
                try:
                    reader.wait(20)
                finally:
                    reader.kill()
            assert_runs(pid)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, IcfError, PermissionError])
def test_no_thread_stays_stopped_after_an_error(
    program: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fails(*_: object) -> bytes:
        raise error

    with running(program) as pid:
        monkeypatch.setattr(ptrace, "read_memory", fails)
        monkeypatch.setattr(live, "_warm_up", lambda _: None)
        with pytest.raises(IcfError, match=rf"process {pid}: "):
            copy_process(pid)
        assert_runs(pid)


def refused(pid: int, action: Callable[[], object] = lambda: None) -> str:
    """The error of a copy, and its hint, in a child that has done something before."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            copy_process(pid)
        except IcfError as error:
            os.write(write_end, f"{error} | {error.hint}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_who_may_not_stop_it_gets_one_line(program: Path) -> None:
    with running(program) as pid:
        if os.geteuid() == 0:
            text = refused(pid, lambda: os.setuid(65534))
            assert text.startswith(
                f"process {pid}: may not be stopped: permission denied | run as its owner or as root"
            )
        assert_runs(pid)
        tracer = subprocess.Popen(
            [sys.executable, "-c", f"from unwind.dumps import ptrace; ptrace.seize({pid}); print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with tracer:
            assert tracer.stdout is not None and tracer.stdout.readline() == b"\n"
            assert (
                refused(pid)
                == f"process {pid}: process {tracer.pid} traces it already | end that debugger, or use gcore there"
            )
            tracer.communicate(b"\n")
        assert_runs(pid)


def test_there_is_no_such_process() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    with pytest.raises(IcfError, match=rf"process {ended.pid}: no such process"):
        copy_process(ended.pid)


def test_words_that_pointers_lead_to_are_copied(program: Path) -> None:
    with running(program) as pid:
        copied = copy_process(pid).dump
        registers = copied.threads[0].registers
        sp = registers[7]
        extent = copied.memory.extent(sp)
        assert extent is not None and extent[0] <= sp - 128 and extent[1] > sp + 64
        assert any(start != sp for start in live_words(copied.memory))


def live_words(memory: object) -> list[int]:
    assert isinstance(memory, live.LiveMemory)
    return list(memory._words)
