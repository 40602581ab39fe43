"""The commands among the files of a real system: odd kinds of files, odd names, full disks, and sudden ends.

Whatever happens, the input and an older output stay as they were, nothing else is left behind, and there is one line.
Nothing is simulated: limits are the kernel's, signals are sent, disks are small.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.support.toolchain import tool

SHOP = ROOT / "testdata" / "shop"
ICF = (sys.executable, "-B", "-m", "icf")  # -B: under a limit compiled sources would stay cut off
MEMORY: Callable[[], None] = partial(resource.setrlimit, resource.RLIMIT_AS, (1 << 30, 1 << 30))
VERBS = ("pass", "verify", "dump", "resolve")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHOP / "shop.gold", tmp_path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The program with its tables."""
    out = tmp_path_factory.mktemp("whole") / "out"
    icf("pass", SHOP / "shop.gold", "-o", out)
    return out.read_bytes()


def command(*args: str | Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    """`icf` in a process of its own."""
    made: subprocess.CompletedProcess[bytes] = subprocess.run(  # type: ignore[call-overload]
        [*(ICF if "preexec_fn" in more else icf_command()), *args],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        **more,
    )
    return made


def asks_for(verb: str, image: str | Path) -> tuple[str | Path, ...]:
    """The arguments with which a verb reads `image`."""
    return (verb, "-e", image, os.devnull) if verb == "resolve" else (verb, image)


def refused(done: subprocess.CompletedProcess[bytes], line: str) -> None:
    """Exactly one line, and exit status 1."""
    assert (done.returncode, done.stderr.decode()) == (1, f"icf: error: {line}\n")


# Disks


@pytest.mark.parametrize("older", [False, True], ids=["fresh", "over-an-older-output"])
def test_a_file_size_limit(older: bool, shop: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", shop.read_bytes()
    if older:
        out.write_bytes(b"older")
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (10_000, 10_000))
    refused(command("pass", shop, "-o", out, preexec_fn=limit), f"{out}: file too large")
    refused(command("pass", shop, preexec_fn=limit), f"{shop}: file too large")
    assert shop.read_bytes() == before and (out.read_bytes() == b"older" if older else not out.exists())
    assert sorted(os.listdir(tmp_path)) == (["out", "shop.gold"] if older else ["shop.gold"])


def mounted(shop: Path, script: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script that may mount: in a namespace of its own, where nobody else sees it."""
    namespace = [tool("unshare"), "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("may not mount")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SHOP": str(shop)}
    return subprocess.run(
        [*namespace, "sh", "-ec", script], capture_output=True, env={**environment, "ICF": " ".join(ICF)}, timeout=60
    )


def test_a_full_disk(shop: Path) -> None:
    done = mounted(
        shop,
        "mount -t tmpfs -o size=24k none /mnt; cd /mnt; echo older >out; status=0;"
        " $ICF pass $SHOP -o out || status=$?; cat out; ls -A; exit $status",
    )
    refused(done, "/mnt/out: no space left on device")
    assert done.stdout == b"older\nout\n"


def test_a_read_only_folder(shop: Path) -> None:
    done = mounted(
        shop,
        "mount -t tmpfs none /mnt; cd /mnt; cp $SHOP shop; mount -o remount,ro none /mnt; status=0;"
        " $ICF pass shop || status=$?; cmp shop $SHOP; ls -A; exit $status",
    )
    refused(done, "/mnt: read-only file system")
    assert done.stdout == b"shop\n"


# Kinds of files


@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "symlink-to-device"])
def test_an_output_that_is_no_file(kind: str, shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    real = out
    if kind == "directory":
        out.mkdir()
    elif kind == "pipe":
        os.mkfifo(out)
    else:
        real = Path(os.devnull)
        if kind == "symlink-to-device":
            out.symlink_to(real)
        else:
            out = real
    before = shop.read_bytes()
    refused(command("pass", shop, "-o", out), f"{real}: is not a regular file, and cannot be replaced")
    assert shop.read_bytes() == before and Path(os.devnull).is_char_device()


def test_an_output_that_has_another_name_keeps_it(shop: Path, tmp_path: Path, whole: bytes) -> None:
    """A hard link: the other name keeps the old contents."""
    other, before = tmp_path / "other", shop.read_bytes()
    os.link(shop, other)
    assert command("pass", shop).returncode == 0
    assert (shop.read_bytes(), other.read_bytes()) == (whole, before)
    shop.unlink()
    os.link(other, shop)
    assert command("pass", shop, "-o", other).returncode == 0
    assert (shop.read_bytes(), other.read_bytes()) == (before, whole)


@pytest.mark.parametrize("verb", [*VERBS, "annotate"])
def test_inputs_that_are_no_images(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, empty, hole = tmp_path / "pipe", tmp_path / "empty", tmp_path / "hole"
    os.mkfifo(pipe)
    empty.touch()
    hole.touch()
    os.truncate(hole, 1 << 40)
    for path, problem in (
        (tmp_path, "is not a regular file"),
        (pipe, "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "none", "No such file or directory"),
        (empty, "file header+0x0: the file is empty"),
        (hole, "ELF header+0x0: not an ELF file: starts with 00000000, must start with 7f454c46"),
    ):
        icf(*asks_for(verb, path), status=1)
        assert capsys.readouterr().err == f"icf: error: {path}: {problem}\n"


CUT_SHORT = """
import os, sys
from icf.cli import main
from icf.filebytes import FileBytes
whole = FileBytes.__init__
def cut_short(self, fd, size_bytes, path):
    whole(self, fd, size_bytes, path)
    os.truncate(path, 5000)
FileBytes.__init__ = cut_short
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("verb", [*VERBS, "symbolize", "disasm"])
def test_an_image_that_is_cut_short_while_it_is_read(verb: str, shop: Path, tmp_path: Path) -> None:
    """Like `cp new shop` at a bad moment: a page of a mapping that is gone would be SIGBUS."""
    words = asks_for(verb, shop)
    if verb in ("symbolize", "disasm"):
        words = (verb, "-e", shop, "main")
    done = subprocess.run([sys.executable, "-c", CUT_SHORT, *words], capture_output=True, stdin=subprocess.DEVNULL)
    refused(done, f"{shop}: file+0x1388: was truncated while being read")
    assert os.listdir(tmp_path) == [shop.name]


def test_a_program_with_a_terabyte_of_nothing_behind_it(shop: Path, whole: bytes) -> None:
    os.truncate(shop, 1 << 40)
    start_s = time.monotonic()
    assert command("pass", shop).returncode == 0
    assert shop.read_bytes() == whole
    assert time.monotonic() - start_s < 60


def test_a_symcache_of_a_program_with_a_terabyte_of_nothing_behind_it(shop: Path, tmp_path: Path) -> None:
    """The digest of the image is of all its bytes; holes are not read for it."""
    os.truncate(shop, 1 << 40)
    start_s = time.monotonic()
    done = command("symbolize", "-e", shop, "main", env={**os.environ, "ICF_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 0 and done.stdout.startswith(b"main\n")
    assert time.monotonic() - start_s < 60


@pytest.mark.parametrize("option", ["--icf-report", "--objects", "--link-map"])
def test_other_inputs_that_are_no_files(option: str, shop: Path, tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        done = command("pass", shop, "-o", tmp_path / "out", option, path, preexec_fn=MEMORY)
        assert done.returncode == 1 and done.stderr.startswith(f"icf: error: {path}: ".encode()), done.stderr
        assert done.stderr.count(b"\n") == 1
    assert os.listdir(tmp_path) == ["shop.gold"]


def test_stacks_without_end(shop: Path) -> None:
    done = command("resolve", "-e", shop, "/dev/zero", preexec_fn=MEMORY)
    assert done.returncode == 1
    assert done.stderr.startswith(b"icf: error: /dev/zero: file header+0x0: is in no format of stacks that icf knows")
    done = command("resolve", "-e", shop, "--format", "pcs", "/dev/zero", preexec_fn=MEMORY)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == b"icf: error: /dev/zero:1: longer than 16777215 bytes"


# Names


@pytest.mark.parametrize("name", [b"sh\xffp", b"-sh\x1b[31m\np ", b"x" * 255], ids=["bytes", "controls", "long"])
def test_names_of_any_bytes(name: bytes, shop: Path, tmp_path: Path, whole: bytes) -> None:
    image, out = tmp_path / os.fsdecode(name), tmp_path / "out"
    shop.rename(image)
    done = command("pass", image, "-o", out)
    assert (done.returncode, done.stderr) == (0, b"") and out.read_bytes() == whole
    assert command("pass", out, "-o", image).returncode == 0  # the name as that of an output
    assert image.read_bytes() == whole
    for verb in VERBS[1:]:
        done = command(*asks_for(verb, image))
        assert (done.returncode, done.stderr) == (0, b"")
    image.write_bytes(b"none")
    done = command("pass", image, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 1 and done.stderr.startswith(b"icf: error: ") and done.stderr.count(b"\n") == 1


# Ends


SERVER = """
import os, signal, sys, time
from icf import cli
import linkpass.cmd_pass, icf.dwarf.units, linkpass.rewrite.check
for line in sys.stdin:
    delay_s, how = line.split()
    pid = os.fork()
    if pid == 0:
        status = 99  # the signal came before or after our code was run
        signal.alarm(100)  # one that does not end is a failure
        try:
            status = cli.main()
        except SystemExit as end:
            status = end.code
        finally:
            os._exit(status)
    time.sleep(float(delay_s))
    os.kill(pid, int(how))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Server:
    """Runs `icf pass` as often as wanted, each time in a new process whose imports are done."""

    def __init__(self, *args: str | Path) -> None:
        command = [sys.executable, "-c", SERVER, "pass", "-q", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, delay_s: float, how: signal.Signals) -> int:
        """The exit status of a run that gets the signal after so long."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{delay_s} {int(how)}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_pass_that_is_ended_at_any_moment(how: signal.Signals, shop: Path, tmp_path: Path, whole: bytes) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    out, before, chance = folder / "out", shop.read_bytes(), random.Random(how)
    server = Server(shop, "-o", out)
    statuses = []
    try:
        for round_idx in range(0, 40, 2):
            out.write_bytes(b"older")
            statuses.append(server.run(chance.random() * 0.004 * round_idx, how))
            assert statuses[-1] in (0, -how, 99, 128 + how)
            assert out.read_bytes() in (b"older", whole)
            assert shop.read_bytes() == before
            assert os.listdir(folder) == ["out"]
    finally:
        server.close()
    assert statuses.count(-how if how is signal.SIGKILL else 128 + how) > 3


def test_passes_over_one_file_at_once(shop: Path, tmp_path: Path, whole: bytes) -> None:
    processes = [subprocess.Popen([*icf_command(), "pass", "-q", shop], stderr=subprocess.PIPE) for _ in range(5)]
    for process in processes:
        _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (0, b"")
    assert shop.read_bytes() == whole and os.listdir(tmp_path) == [shop.name]


def test_too_little_memory(shop: Path, tmp_path: Path) -> None:
    """A process that may not grow ends with a line, like any other failure."""
    os.truncate(shop, 1 << 40)  # the mapping alone is more
    done = command("pass", shop, "-o", tmp_path / "out", preexec_fn=MEMORY)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done.stderr
    assert os.listdir(tmp_path) == [shop.name]
