"""Names of addresses and stacks of running processes."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from icf.model import Verdict
from tests.e2e.modules import Modules, Part, build_modules
from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, LLD, Toolchain, Workshop
from tests.support.strip import strip_to_minidebug
from tests.support.toolchain import tool
from tests.unwind.process.live.host import Host, build_host, build_library, running
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import NO_MODULE, NOTHING_MAPPED
from unwind.target.live_symbolizer import LiveSymbolizer, open_process

FRUIT = """
    extern "C" {
    int total;
    NOINLINE void apples(int n) { SAMPLE(); total += n; }
    NOINLINE void pears(int n) { SAMPLE(); total += n; }
    }
"""
PROGRAM = """
    #include <stdio.h>
    extern "C" {
    void apples(int), pears(int);
    int count;
    NOINLINE void one(int n) { SAMPLE(); count += n; }
    NOINLINE void other(int n) { SAMPLE(); count += n; }
    NOINLINE void red(int n) { apples(n); ++count; }
    NOINLINE void green(int n) { pears(n); ++count; }
    NOINLINE void by_one(int n) { one(n); count += 2; }
    NOINLINE void by_other(int n) { other(n); count += 3; }
    }
    int main(int argc, char **argv) {
        apples(argc); pears(argc); red(argc); green(argc); by_one(argc); by_other(argc);
        fflush(stdout);
        getchar();  // until the test has looked
        return 0;
    }
"""


@pytest.fixture(scope="module", params=[GOLD, LLD], ids=str)
def fruit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Modules:
    """A program and a shared object, both folded, both with tables."""
    toolchain: Toolchain = request.param
    workshop = Workshop(tmp_path_factory.mktemp("fruit"), replace(toolchain))
    return build_modules(workshop, [Part("libfruit.so", FRUIT), Part("program", PROGRAM, ["libfruit.so"])])


def test_the_frames_of_a_running_program_are_named(fruit: Modules) -> None:
    truth = fruit.truth()
    environment = {**os.environ, "SAMPLE_MODULES": str(fruit.workshop.folder / "modules.json")}
    with subprocess.Popen(
        [fruit.path("program")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        stacks = [[int(word, 16) for word in process.stdout.readline().split()] for _ in truth]
        with open_process(process.pid) as symbolizer:
            merged = 0
            for stack, true_frames in zip(stacks, truth, strict=True):
                frames = symbolizer.resolve(stack)
                for frame, (names, module) in zip(frames, true_frames, strict=True):
                    if names:
                        assert frame.linkage_name in names and os.path.basename(frame.module) == module
                        assert frame.verdict in (Verdict.UNMERGED, Verdict.UNIQUE) and not frame.candidates
                        assert frame.frames[-1].file.endswith(".cpp") and frame.frames[-1].line or "_start" in names
                        merged += frame.verdict is Verdict.UNIQUE
                check_one(symbolizer, frames[1], stack)
            assert merged >= 4
        process.communicate("\n")
    assert process.returncode == 0


def check_one(symbolizer: LiveSymbolizer, frame: Answer, stack: list[int]) -> None:
    """The frame of the function that took the sample, alone and by its caller."""
    pc, caller = stack[1] - 1, stack[2]
    alone, again = symbolizer.symbolize(pc), symbolizer.symbolize(pc, caller=caller)
    assert again.frames == frame.frames and again.verdict is frame.verdict
    assert symbolizer.symbolize(pc, caller=caller) is again, "answers are remembered by address and caller"
    if frame.verdict is Verdict.UNIQUE:
        assert alone.verdict is Verdict.AMBIGUOUS and len(alone.candidates) == 2
        assert frame.linkage_name in {candidate.linkage_name for candidate in alone.candidates}
    else:
        assert alone.frames == frame.frames


def test_two_callers_of_one_address(fruit: Modules) -> None:
    environment = {**os.environ, "SAMPLE_MODULES": str(fruit.workshop.folder / "modules.json")}
    with subprocess.Popen(
        [fruit.path("program")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        stacks = [[int(word, 16) for word in process.stdout.readline().split()] for _ in range(6)]
        with open_process(process.pid) as symbolizer:
            assert len({stack[1] for stack in stacks[:4]}) == 1, "apples and pears are one body"
            for _ in range(2):
                named = [symbolizer.symbolize(stack[1], caller=stack[2]).name for stack in stacks[:4]]
                assert named == ["apples", "pears", "apples", "pears"]
        process.communicate("\n")


def test_icf_resolve_takes_the_number_of_a_process(fruit: Modules, capsys: pytest.CaptureFixture[str]) -> None:
    truth = fruit.truth()
    environment = {**os.environ, "SAMPLE_MODULES": str(fruit.workshop.folder / "modules.json")}
    stacks = fruit.workshop.folder / "live.stacks"
    with subprocess.Popen(
        [fruit.path("program")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        stacks.write_text("".join(process.stdout.readline() for _ in truth))
        for line, true_frames in zip(
            icf("resolve", "--pid", str(process.pid), "--out", "json", stacks).splitlines(), truth, strict=True
        ):
            for frame, (names, module) in zip(json.loads(line)["frames"], true_frames, strict=True):
                if names:
                    assert frame["linkage_name"] in names and os.path.basename(frame["module"]) == module
                    assert frame["file"] and frame["line"] or "_start" in names
        explained = icf("resolve", "--pid", str(process.pid), "--explain", stacks)
        assert "2 functions share the body" in explained and "main calls the import apples before" in explained
        process.communicate("\n")
    icf("resolve", "--pid", str(process.pid), stacks, status=1)
    assert f"icf: error: process {process.pid}: no such process" in capsys.readouterr().err


def test_icf_symbolize_takes_the_number_of_a_process(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host:
        (code,) = host.ask("dump 0 64 17 f(a b)")
        asked = [hex(host.inner), hex(code), "outer_function"]
        lines = icf("symbolize", "--pid", str(host.pid), *asked).splitlines()
        assert [lines[0], *lines[3:5], lines[6]] == ["inner_function(int)", "f(a b)", "a.js:17:0", "outer_function"]
        (own,) = json.loads(icf("symbolize", "--pid", str(host.pid), "--style", "json", hex(host.inner + 1)))
        assert own["ModuleName"] == str(tmp_path / "host") and own["Symbol"][0]["StartAddress"] == hex(host.inner)


def test_a_stripped_program_with_minidebug(tmp_path: Path) -> None:
    program = build_host(tmp_path / "host")
    strip_to_minidebug(program)
    with running(program) as host, open_process(host.pid) as symbolizer:
        assert symbolizer.symbolize(host.inner).name == "inner_function(int)"
        assert symbolizer.symbolize(host.outer).linkage_name == "outer_function"


def may_read_mapped_files() -> bool:
    mapped = Path("/proc/self/map_files")
    try:
        return all(each.stat() for each in list(mapped.iterdir())[:1])
    except OSError:
        return False


def test_a_deleted_library(tmp_path: Path) -> None:
    library = build_library(tmp_path / "liba.so", "apples")
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        _, address = host.ask(f"load {library} apples")
        os.replace(build_library(tmp_path / "new.so", "pears"), library)
        frame = symbolizer.symbolize(address)
        assert frame.module == str(library)
        if may_read_mapped_files():
            assert frame.name == "apples"
        else:  # it is read from memory, which does not say who linked it
            assert frame.name is None and not frame.is_complete
            assert icf("symbolize", "--pid", str(host.pid), hex(address)).splitlines()[0] == "apples"


def test_no_answer_outlives_its_library(tmp_path: Path) -> None:
    libraries = [build_library(tmp_path / f"lib{name}.so", name) for name in ("apples", "pears")]
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        for number, (path, name) in enumerate(zip(libraries, ("apples", "pears"), strict=True)):
            _, address = host.ask(f"load {path} {name}")
            assert symbolizer.symbolize(address).name == name == symbolizer.resolve([address, host.outer + 1])[0].name
            host.ask(f"unload {number}")
            gone = symbolizer.symbolize(address)
            assert (gone.verdict, gone.reason, gone.module) == (Verdict.UNKNOWN, NOTHING_MAPPED, "")


def test_addresses_that_are_none(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        frames = symbolizer.resolve([host.inner, 0, None, 1 << 64])
        assert frames[0].name == "inner_function(int)" and {frame.verdict for frame in frames[1:]} == {Verdict.UNKNOWN}
        assert {frame.reason for frame in symbolizer.symbolize_many([-1, 1 << 64, 0])} == {NOTHING_MAPPED}


def test_the_vdso(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        frame = symbolizer.symbolize(host.clock_gettime)
        names = {frame.name, *(candidate.name for candidate in frame.candidates)}
        assert frame.module == "[vdso]" and "clock_gettime" in names  # of its aliases the one without underscores


def test_functions_made_at_run_time_by_perf_map(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        assert symbolizer.symbolize(host.arena).reason == NO_MODULE
        (first,) = host.ask("map 0 64 py::f:<frozen a b>")
        frame = symbolizer.symbolize(first + 63)
        assert (frame.name, frame.start, frame.verdict) == ("py::f:<frozen a b>", first, Verdict.UNMERGED)
        (second,) = host.ask("map 32 64 JS:*g a.js:1:2")
        assert [symbolizer.symbolize(a).name for a in (first, second - 1, second, second + 63)] == [
            *["py::f:<frozen a b>"] * 2,
            *["JS:*g a.js:1:2"] * 2,
        ]
        names = [frame.name for frame in symbolizer.resolve([second, first + 8, host.outer + 8], exact=(2,))]
        assert names == ["JS:*g a.js:1:2", "py::f:<frozen a b>", "outer_function"]


def test_a_perf_map_from_before_the_process_does_not_count(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host:
        path = Path(f"/tmp/perf-{host.pid}.map")
        path.write_text(f"{host.arena:x} 40 stale\n")
        os.utime(path, (1_000_000, 1_000_000))
        with open_process(host.pid) as symbolizer:
            assert symbolizer.symbolize(host.arena).reason == NO_MODULE


def test_functions_made_at_run_time_by_jitdump(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, open_process(host.pid) as symbolizer:
        (code,) = host.ask("dump 4096 64 17 f(a b)")
        own = symbolizer.symbolize(code).frames[-1]
        assert (own.linkage_name, own.file, own.line) == ("f(a b)", "a.js", 17)
        host.ask("map 4096 64 by the perf map")
        assert symbolizer.symbolize(code).name == "f(a b)", "which says more"
        host.ask("dump 4096 64 18 again")
        (tmp_path / f"jit-{host.pid}.dump").unlink()
        assert symbolizer.symbolize(code).frames[-1].line == 18, "it is mapped, so it is still there"


def test_this_process(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build_library(tmp_path / "liba.so", "apples")))
    with open_process() as symbolizer:
        addresses = [
            ctypes.cast(function, ctypes.c_void_p).value or 0
            for function in (ctypes.pythonapi.PyObject_Repr, library.apples)
        ]
        assert [frame.name for frame in symbolizer.symbolize_many(addresses)] == ["PyObject_Repr", "apples"]
        late = ctypes.CDLL(str(build_library(tmp_path / "libb.so", "pears")))
        address = ctypes.cast(late.pears, ctypes.c_void_p).value or 0
        assert symbolizer.symbolize(address).name == "pears"


def test_a_process_in_a_container(tmp_path: Path) -> None:
    unshare = tool("unshare")
    folder = Path(tempfile.mkdtemp(prefix="icf-live-", dir="/var/tmp"))  # the container has a /tmp of its own
    try:
        program, library = build_host(folder / "host"), build_library(folder / "liba.so", "apples")
        script = f"mount -t tmpfs none /tmp && cp {library} /tmp/libb.so && exec {program}"
        options = ("--fork", "--pid", "--mount", "--kill-child")
        with subprocess.Popen(
            [unshare, *options, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                try:
                    host = Host(process)
                except ValueError:
                    pytest.skip("may not make namespaces")
                inside = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
                with open_process(inside) as symbolizer:
                    _, address = host.ask("load /tmp/libb.so apples")
                    frame = symbolizer.symbolize(address)
                    assert (frame.name, frame.module) == ("apples", "/tmp/libb.so")
                    (code,) = host.ask("map 0 64 told in the container")  # in /tmp/perf-1.map, which is not ours
                    assert symbolizer.symbolize(code).name == "told in the container"
                    assert not Path(f"/tmp/perf-{inside}.map").exists()
            finally:
                process.kill()
    finally:
        shutil.rmtree(folder)
