"""gdb with the plug-in shows, of a folded program, the stacks that it shows of the unfolded one at the same event."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.program import icf
from tests.support.cores import crash
from tests.support.debuggers import EVENTS, MAIN, Programs, backtraces, build, gdb, remarks, start_lines
from tests.support.toolchain import run, tool

NO_STOPS = "handle SIGUSR1 nostop noprint"
ALL_THREADS = "thread apply all bt"


class Run(NamedTuple):
    """What gdb printed at each event, and the core that it wrote at the last."""

    text: str
    core: Path


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    tool("gdb")
    return build(tmp_path_factory.mktemp("gdb"))


def live(program: Path) -> Run:
    core = program.with_name("core")
    settled = ["break settled", "commands", "silent", ALL_THREADS, f"gcore {core}", "continue", "end"]
    return Run(gdb(program, commands=[NO_STOPS, *_breaks(EVENTS), *_breaks(settled), "run"]), core)


def _breaks(lines: list[str]) -> list[str]:
    """The commands of a breakpoint as one line of Python: options of gdb hold one line each."""
    where, _, *commands, _ = lines
    return [where, f"python gdb.breakpoints()[-1].commands = {chr(10).join(commands)!r}"]


@pytest.fixture(scope="module")
def folded(programs: Programs) -> Run:
    return live(programs.folded)


@pytest.fixture(scope="module")
def unfolded(programs: Programs) -> Run:
    return live(programs.unfolded)


def test_stacks_of_a_live_session_are_those_of_the_unfolded_program(folded: Run, unfolded: Run) -> None:
    truth = backtraces(unfolded.text)
    assert len(truth) == 16
    assert backtraces(folded.text) == truth
    assert not remarks(unfolded.text)
    assert {"dwarf", "aligned", "vptr", "tail call", "relocation"} <= set(remarks(folded.text))


def core(programs: Programs, run: Run, *commands: str, plugin: bool = True) -> str:
    """What gdb prints on the core of the folded program."""
    return gdb(programs.folded, commands=[f"core-file {run.core}", *commands], plugin=plugin)


def named(text: str) -> set[str]:
    """The functions in all backtraces of a text."""
    return {frame.name for frames in backtraces(text) for frame in frames}


def test_without_the_plugin_names_are_those_that_the_linker_kept(programs: Programs, folded: Run) -> None:
    plain = core(programs, folded, ALL_THREADS, plugin=False)
    assert plain.count("in wait_a (") == 2 and "wait_b" not in plain


def test_threads_of_a_core_are_those_of_the_unfolded_program(programs: Programs, folded: Run, unfolded: Run) -> None:
    truth = gdb(programs.unfolded, commands=[f"core-file {unfolded.core}", ALL_THREADS])
    shown = core(programs, folded, ALL_THREADS)
    assert backtraces(shown) == backtraces(truth) and len(backtraces(truth)) == 3
    assert {"wait_a(int*)", "wait_b(int*)"} <= named(shown)


def test_every_frame_that_icf_stacks_names_has_that_name(programs: Programs, tmp_path: Path) -> None:
    crashed = crash(tmp_path, programs.folded, "and", "crash")
    resolved = [json.loads(line)["frames"] for line in icf("stacks", "--json", "--core", crashed).splitlines()]
    text = gdb(programs.folded, commands=[f"core-file {crashed}", "thread apply all -ascending bt"])
    threads = text.split("\nThread ")[1:]
    named = [[frame for frame in thread if frame["verdict"] == "unique"] for thread in resolved]
    assert [len(each) for each in named] == [1, 1, 1]  # the first is in a virtual function
    for frames, shown in zip(named, threads, strict=True):
        for frame in frames:
            assert f" {int(frame['address'], 16):#018x} in {frame['name']} [icf: " in shown


def test_parts_of_backtraces_have_the_same_names(programs: Programs, folded: Run) -> None:
    text = core(programs, folded, "thread 2", "bt 3", "bt -4", "bt full 3", "bt -frame-arguments all 3")
    assert [len(frames) for frames in backtraces(text)] == [3 + 4, 3, 3]  # bt -4 has no #0
    assert text.count("wait_a(int*) [icf: dwarf]") == 4
    assert text.count("wait_b") == 0


def test_explain_and_function(programs: Programs, folded: Run) -> None:
    text = core(programs, folded, "thread 3", "icf explain 2", "frame 2", "icf explain", "print $_icf_function()")
    assert text.count("wait_b(int*) [unique]") == 2
    assert text.count("  - 2 functions share the body at 0x") == 2
    assert text.count("  - run_b(void*) calls wait_b(int*) before 0x") == 2
    assert '$1 = "wait_b(int*)"' in text


def test_remarks_can_be_left_out(programs: Programs, folded: Run) -> None:
    text = core(programs, folded, "set icf remarks off", "thread 3", "bt", "show icf timeout")
    assert "in wait_b(int*) () at" in text and "[icf" not in text
    assert "Seconds to wait for icf to name the frames of a stack. 10" in text


def test_the_machine_interface(programs: Programs, folded: Run) -> None:
    commands = [
        *start_lines(),
        f"-file-exec-and-symbols {programs.folded}",
        f"-target-select core {folded.core}",
        "-stack-list-frames --thread 3",
        "-enable-frame-filters",
        "-stack-list-frames --thread 3",
        "-stack-list-frames --thread 2 1 2",
        "-gdb-exit",
    ]
    done = subprocess.run(
        [tool("gdb"), "-nx", "-q", "-interpreter=mi2"],
        input="\n".join(["set debuginfod enabled off", *commands, ""]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    stacks = [line for line in done.stdout.splitlines() if line.startswith("^done,stack=")]
    names = [re.findall(r'func="([^"]*)"', stack) for stack in stacks]
    assert [each[2] for each in names[:2]] == ["wait_a", "wait_b(int*) [icf: dwarf]"], done.stdout + done.stderr
    assert names[2][1] == "wait_a(int*) [icf: dwarf]" and len(names[2]) == 2
    line = 1 + next(number for number, text in enumerate(MAIN.splitlines()) if "void wait_b(" in text)
    place = rf'level="2",addr="0x[0-9a-f]{{16}}",func="wait_b[^}}]*file="[^"]*program.cpp",line="{line}"'
    assert re.search(place, stacks[1])


@pytest.fixture
def waiting(programs: Programs) -> Iterator[subprocess.Popen[bytes]]:
    """The folded program, waiting at its last event."""
    process = subprocess.Popen([programs.folded, "wait"])
    tasks = Path(f"/proc/{process.pid}/task")
    calls = 0
    deadline = time.monotonic() + 30
    while calls < 3 and time.monotonic() < deadline:  # both threads read, the first one pauses
        time.sleep(0.05)
        calls = sum((task / "wchan").read_text() not in ("", "0") for task in tasks.iterdir())
    yield process
    process.kill()
    process.wait()


def test_a_process_that_gdb_attaches_to(programs: Programs, waiting: subprocess.Popen[bytes]) -> None:
    if "Operation not permitted" in (text := gdb("-p", str(waiting.pid), commands=[ALL_THREADS])):
        pytest.skip("gdb may not attach to processes")
    assert {"wait_a(int*)", "wait_b(int*)", "run_a(void*)", "run_b(void*)"} <= named(text)
    assert waiting.poll() is None


def test_a_function_that_gdb_has_called_has_no_caller(programs: Programs) -> None:
    text = gdb(
        programs.folded,
        commands=[
            "break settled",
            NO_STOPS,
            "run",
            "break event",
            "print leaf_b(&sink)",
            "bt",
            "thread 1",
            "icf explain 1",
        ],
    )
    frames = [frame.name for frame in backtraces(text)[0]]
    assert frames[:3] == ["event(int)", "leaf_a(int*) | leaf_b(int*)", "<function called from gdb>"]
    assert frames[3:] == ["settled(int)", "main(int, char**)"]


def test_the_helper_sees_frames_together_that_are_far_apart(programs: Programs, folded: Run) -> None:
    """A stack of more frames than are asked about together: what is cut says less, and nothing wrong."""
    limit = "python import sys; sys.modules['unwind.debugger.inside.gdb_plugin']._TOGETHER = 2"
    text = core(programs, folded, limit, "thread 3", "bt", "thread 2", "bt")
    assert all("wait_b(int*)" in frames[2].name for frames in backtraces(text)[:1])
    assert all("wait_a(int*)" in frames[2].name for frames in backtraces(text)[1:])
    assert len(backtraces(text)) == 2


# When something is wrong: gdb's own names, and at most one line


def build_id_of(image: Path) -> str:
    found = re.search(r"Build ID: ([0-9a-f]+)", run(tool("readelf"), "-nW", image).stdout)
    assert found
    return found[1]


def warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("warning: icf: ")]


def test_a_program_without_tables_asks_nothing(programs: Programs, tmp_path: Path) -> None:
    for image in (programs.folded, programs.folded.with_name("libshelf.so")):
        bare = tmp_path / image.name
        run(tool("objcopy"), "--remove-section=.debug_icf", "--remove-section=.debug_dcall", image, bare)
    commands = [f"set environment LD_LIBRARY_PATH {tmp_path}", NO_STOPS, "break settled", "run"]
    asked = ["set icf command /nonexistent", "thread 3", "bt", "icf explain"]
    text = gdb(tmp_path / "shop", commands=[*commands, *asked])
    assert "in wait_a(int*) (p=" in text
    assert not warnings(text)
    assert "icf: no image of this process has call-site tables" in text


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/nonexistent/icf", "cannot run /nonexistent/icf: No such file or directory: names are gdb's own"),
        ("/bin/false", "the helper has ended: what does '/bin/false gdb --serve' say?: names are gdb's own"),
        ("/bin/echo", "the helper's answer is not an object of JSON: names are gdb's own"),
        ("SLOW", "no answer after 1 s: ask again later: names are gdb's own"),
    ],
)
def test_a_helper_that_fails_is_one_line(
    programs: Programs, folded: Run, tmp_path: Path, command: str, says: str
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    command = command.replace("SLOW", str(slow))
    began = time.monotonic()
    text = core(programs, folded, f"set icf command {command}", "set icf timeout 1", "thread 3", "bt", "bt")
    assert time.monotonic() - began < 60
    assert warnings(text) == [f"warning: icf: {says}"]
    assert [frames[2].name for frames in backtraces(text)] == ["wait_a(int*)"] * 2  # what gdb believes


def test_damaged_tables_are_one_line(programs: Programs, folded: Run, tmp_path: Path) -> None:
    where = run(tool("readelf"), "-SW", programs.folded).stdout
    found = re.search(r" \.debug_icf +PROGBITS +[0-9a-f]+ ([0-9a-f]+) ", where)
    assert found
    image = bytearray(programs.folded.read_bytes())
    image[int(found[1], 16) + 4] = 99  # the version
    damaged = tmp_path / "shop"
    damaged.write_bytes(image)
    damaged.chmod(0o755)
    text = gdb(damaged, commands=[f"core-file {folded.core}", "thread 3", "bt", "bt"])
    assert len(warnings(text)) == 1 and ".debug_icf+0x" in warnings(text)[0], text
    assert [frames[2].name for frames in backtraces(text)] == ["wait_a(int*)"] * 2


def test_a_core_of_another_build_gets_no_names(
    programs: Programs, folded: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))  # without a symcache of that build
    build_id = bytes.fromhex(build_id_of(programs.folded))
    changed = tmp_path / "shop"
    changed.write_bytes(programs.folded.read_bytes().replace(build_id, bytes(len(build_id) - 1) + b"\1"))
    text = gdb(changed, commands=[f"core-file {folded.core}", "thread 3", "bt"])
    assert len(warnings(text)) == 1 and "has build id 00" in warnings(text)[0], text
    assert "in wait_a(int*) (p=" in text and "[icf" not in text


def test_the_plugin_loads_beside_the_program(programs: Programs, folded: Run, tmp_path: Path) -> None:
    program = Path(shutil.copy(programs.folded, tmp_path / "shop"))
    script, command = start_lines()
    (tmp_path / "shop-gdb.gdb").write_text(f"{script}\n{command}\n")
    safe = ["-iex", f"add-auto-load-safe-path {tmp_path}"]
    commands = [f"core-file {folded.core}", "thread 3", "bt"]
    assert "wait_b(int*) [icf: dwarf]" in gdb(*safe, program, commands=commands, plugin=False)
    (tmp_path / "shop-gdb.gdb").unlink()
    (tmp_path / "shop-gdb.py").symlink_to(script.removeprefix("source "))
    safe += ["-iex", f"add-auto-load-safe-path {Path(script.removeprefix('source ')).parent}"]
    assert "wait_b(int*) [icf: dwarf]" in gdb(*safe, program, commands=[command, *commands], plugin=False)
    assert "wait_b" not in gdb(program, commands=commands, plugin=False)  # a folder that is not safe


def test_a_script_may_source_the_plugin(tmp_path: Path) -> None:
    tool("gdb")
    script, _ = start_lines()
    (tmp_path / "outer.py").write_text(f"gdb.execute({script!r})\nprint(sorted(gdb.frame_filters))\n")
    assert "['icf']" in gdb(commands=[f"source {tmp_path / 'outer.py'}"], plugin=False)


def test_the_debugger_loads_nothing_compiled(programs: Programs, folded: Run) -> None:
    files = "[getattr(each, '__file__', None) or '' for each in list(sys.modules.values())]"
    listing = f"python import json, sys; print('LOADED', json.dumps({files}), sys.path)"
    text = core(programs, folded, "bt", listing)
    line = next(line for line in text.splitlines() if line.startswith("LOADED "))
    loaded = json.JSONDecoder().raw_decode(line, len("LOADED "))[0]
    own_files = [file for file in loaded if "/unwind/" in file or "/icf/" in file or "/linkpass/" in file]
    assert own_files and not [
        file for file in own_files if "unwind/debugger/" not in file and "unwind/__init__" not in file
    ]
    assert not [file for file in loaded if "site-packages" in file and "/unwind/" not in file]
    assert os.fspath(Path(__file__).parents[2]) not in line[line.index("]") :]
