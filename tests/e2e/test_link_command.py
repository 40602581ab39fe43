"""`icf link` as a build sees it: every way to spell a link, what is printed where, status, signals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.links import CLASSES, Link, classes
from tests.support.icf_command import icf_command
from tests.support.toolchain import tool


@pytest.mark.parametrize(
    "words",
    [
        ["-Wl,--gc-sections,--icf=all", "fruit.o", "basket.o", "-o", "prog"],
        ["-Xlinker", "--icf=all", "fruit.o", "basket.o", "-oprog"],
        ["-Wl,--icf=none", "-Wl,--icf=all", "-o", "prog", "fruit.o", "-L.", "-lbasket"],
        ["-Wl,--icf=all", "fruit.o", "libthin.a", "-o", "prog"],
        ["-Wl,--icf=all", "-Wl,--start-lib", "basket.o", "-Wl,--end-lib", "fruit.o", "-o", "./prog"],
        ["@outer.rsp"],
        ["-Wl,@options.rsp", "fruit.o", "basket.o"],
        ["-Xlinker", "@options.rsp", "fruit.o", "basket.o"],
    ],
    ids=["-Wl", "-Xlinker", "archive", "thin archive", "--start-lib", "response file", "linker's", "-Xlinker @"],
)
def test_every_spelling_of_a_link(link: Link, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "outer.rsp").write_text("-Wl,--icf=all @inner.rsp")
    (tmp_path / "inner.rsp").write_text('"fruit.o" basket.o\n-o prog\n')
    (tmp_path / "options.rsp").write_text("--icf=all -o prog")
    done = link(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert classes(tmp_path / "prog") == CLASSES
    assert subprocess.run([tmp_path / "prog"]).returncode == 0


@pytest.mark.parametrize("linker", ["lld", "gold", "mold"])
def test_a_linker_called_directly(link: Link, tmp_path: Path, linker: str) -> None:
    tool(f"ld.{linker}")
    done = link("-e", "main", "--icf=all", "fruit.o", "basket.o", "-o", "prog", driver=f"./ld.{linker}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert classes(tmp_path / "prog") == CLASSES


def test_a_shared_object(link: Link, tmp_path: Path) -> None:
    assert link("-O2", "-g", "-fPIC", "-ffunction-sections", "-c", "fruit.cpp", "basket.cpp").returncode == 0
    done = link("-shared", "-Wl,--icf=all", "fruit.o", "basket.o", "-o", "libfruit.so")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert classes(tmp_path / "libfruit.so") == CLASSES


def test_compiled_and_linked_in_one_command(link: Link, tmp_path: Path) -> None:
    """The compiler deletes its objects when the link is over; they have been looked at by then."""
    done = link("-O2", "-g0", "-ffunction-sections", "-Wl,--icf=all", "fruit.cpp", "basket.cpp", "-o", "prog")
    assert (done.returncode, done.stderr) == (0, "")
    assert classes(tmp_path / "prog") == CLASSES


LATE = """
import sys, time
from icf.cli import main
from linkpass.link.run import RunningLink
read = RunningLink._read
RunningLink._read = lambda link, streams: (time.sleep(1), read(link, streams))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("chosen", ["-fuse-ld=lld", "-fuse-ld=gold", "-fuse-ld=mold", "--ld-path={}/ld.lld"])
@pytest.mark.parametrize("driver", ["clang++", "g++"])
def test_the_compilers_objects_stay_until_they_are_read(
    compiled: Path, tmp_path: Path, driver: str, chosen: str
) -> None:
    """On a busy machine the compiler has deleted its objects when this process comes to them."""
    if driver == "g++" and chosen.startswith("--ld-path"):
        pytest.skip("g++ has no --ld-path")
    output = str(tmp_path / "prog")
    words = ["-O2", "-g", "-ffunction-sections", "fruit.cpp", "basket.cpp", "-B.", chosen.format(compiled)]
    command = [sys.executable, "-c", LATE, "link", "--summary", "--", tool(driver), *words, "-Wl,--icf=all"]
    command += ["-fno-ipa-icf"] if driver == "g++" else []
    done = subprocess.run([*command, "-o", output], cwd=compiled, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert " object" in done.stderr
    assert [{name.partition(".")[0] for name in names} for names in classes(Path(output))] == CLASSES


@pytest.mark.parametrize("flag", ["-flto=thin", "-flto"])
def test_code_that_is_made_during_the_link(link: Link, tmp_path: Path, flag: str) -> None:
    done = link("-O2", "-g", "-ffunction-sections", flag, "-c", "fruit.cpp", "basket.cpp")
    assert done.returncode == 0, done.stderr
    done = link("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "prog", options=("--summary",))
    assert done.returncode == 0, done.stderr
    assert " object" in done.stderr and "open" not in done.stderr
    found = [{name.partition(".")[0] for name in names} for names in classes(tmp_path / "prog")]
    assert found == CLASSES


def test_relocations_stay_if_asked_for(link: Link, tmp_path: Path) -> None:
    words = ("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "prog")
    for done in (link(*words, options=("--keep-relocations",)), link(*words, "-Wl,--emit-relocs")):
        assert (done.returncode, done.stderr) == (0, "")
        with Image.open(tmp_path / "prog") as image:
            assert image.section(".rela.text") is not None


def test_size_grows_by_the_tables_alone(link: Link, tmp_path: Path) -> None:
    words = ("-Wl,--icf=all", "fruit.o", "basket.o", "-o")
    assert link(*words, "plain", plain=True).returncode == 0
    assert link(*words, "prog").returncode == 0
    with Image.open(tmp_path / "prog") as image:
        new = [s for s in image.sections if s.name in (".debug_dcall", ".debug_vcall", ".debug_icf")]
        tables = sum(s.size_bytes for s in new)
    slack = 3 * 64 + 64  # three section headers, their names, alignment
    assert (tmp_path / "prog").stat().st_size <= (tmp_path / "plain").stat().st_size + tables + slack


def test_what_is_printed_stays_what_and_where_it_is(link: Link, tmp_path: Path) -> None:
    words = ("-Wl,--icf=all,--print-gc-sections,--gc-sections,-z,nonsense", "fruit.o", "basket.o", "-o", "prog")
    plain, done = link(*words, plain=True), link(*words)
    assert "unused" in plain.stdout and "nonsense" in plain.stderr
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert classes(tmp_path / "prog") == CLASSES


def test_a_report_that_the_user_asked_for_is_shown(link: Link) -> None:
    words = ("-Wl,--icf=all,--print-icf-sections,--trace", "fruit.o", "basket.o", "-o", "prog")
    plain, done = link(*words, plain=True), link(*words)
    assert "removing identical" in plain.stdout
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)


def test_a_link_that_fails_fails_the_same_way(link: Link, tmp_path: Path) -> None:
    words = ("-Wl,--icf=all", "fruit.o", "-o", "prog")
    plain, done = link(*words, plain=True), link(*words)
    assert plain.returncode != 0 and "basket" in plain.stderr
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert not (tmp_path / "prog").exists()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "icf link"])
def test_diagnostics_have_their_colours_on_a_terminal(compiled: Path, plain: bool) -> None:
    ours, theirs = pty.openpty()
    before = [] if plain else [*icf_command(), "link", "--"]
    command = [tool("clang++"), "-fuse-ld=lld", "-B.", "-Wl,--icf=all", "fruit.o", "-o", "coloured"]
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    done = subprocess.run([*before, *command], cwd=compiled, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while chunk := terminal.read(1 << 16):
                said += chunk
        except OSError:  # how the end looks on a terminal
            pass
    assert done.returncode != 0
    assert b"\x1b[" in said and b"undefined symbol" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_link(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "slow-c++"
    script.write_text("#!/bin/sh\necho $$; exec sleep 60\n")
    script.chmod(0o755)
    # a signal that is ignored here, as under nohup, would be in the command, too
    launcher = ["env", f"--default-signal={number.name.removeprefix('SIG')}", sys.executable, "-m", "icf", "link", "--"]
    command = [str(script), "-fuse-ld=lld", "-Wl,--icf=all", "-o", "prog", "main.o"]
    with subprocess.Popen([*launcher, *command], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link_pid = int(process.stdout.readline())
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(10) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(link_pid, 0)
    assert list(tmp_path.iterdir()) == [script]


def test_many_links_at_once_in_one_folder(link: Link, tmp_path: Path) -> None:
    launcher = [*icf_command(), "link", "--", tool("clang++"), "-fuse-ld=lld", "-B."]
    words = ["-Wl,--icf=all", "fruit.o", "basket.o", "-o"]
    running = [subprocess.Popen([*launcher, *words, f"prog{at}"], cwd=tmp_path) for at in range(4)]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    contents = {(tmp_path / f"prog{at}").read_bytes() for at in range(4)}
    assert len(contents) == 1
    assert classes(tmp_path / "prog0") == CLASSES
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_output_elsewhere_and_none(link: Link, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert link("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "bin/prog").returncode == 0
    assert classes(tmp_path / "bin" / "prog") == CLASSES
    done = link("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "/dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        ["-Wl,--icf=none", "fruit.o", "basket.o", "-o", "out"],
        ["fruit.o", "basket.o", "-o", "out"],
        ["-r", "-Wl,--icf=all", "fruit.o", "basket.o", "-o", "out"],
        ["-c", "-Wl,--icf=all", "fruit.cpp", "-o", "out"],
    ],
    ids=["--icf=none", "no --icf", "-r", "-c"],
)
def test_what_does_not_fold_is_left_alone(link: Link, tmp_path: Path, words: list[str]) -> None:
    plain = link(*words, plain=True)
    out = tmp_path / "out"
    expected = out.read_bytes() if out.exists() else b""  # lld refuses --icf with -r
    out.unlink(missing_ok=True)
    done = link(*words)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert (out.read_bytes() if out.exists() else b"") == expected


def test_such_a_command_takes_the_place_of_icf(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "icf", "link", "--"]
    with subprocess.Popen([*launcher, "sh", "-c", "echo $$"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


@pytest.mark.parametrize("strict", [False, True], ids=["", "--strict"])
def test_the_program_stays_if_the_pass_fails(link: Link, tmp_path: Path, strict: bool) -> None:
    """A signature behind the image, put there by a wrapper around the linker, is what the pass will not move."""
    wrapper = tmp_path / "sign"
    wrapper.write_text(f'#!/bin/sh\n{tool("clang++")} "$@" && echo signature >> prog\n')
    wrapper.chmod(0o755)
    words = ("-fuse-ld=lld", "-B.", "-Wl,--icf=all", "fruit.o", "basket.o", "-o", "prog")
    assert link(*words, driver="./sign", plain=True).returncode == 0
    expected = (tmp_path / "prog").read_bytes()
    done = link(*words, driver="./sign", options=("--strict",) if strict else ())
    assert done.returncode == (1 if strict else 0)
    assert ("error" if strict else "warning") in done.stderr and "follow the ELF image" in done.stderr
    assert (tmp_path / "prog").read_bytes() == expected
