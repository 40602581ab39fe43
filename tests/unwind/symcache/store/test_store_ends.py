"""Many builders at once, and builders that are killed: the file is whole or not there, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.unwind.symcache.support import kept
from unwind.symcache.format.container import Container
from unwind.symcache.format.sources import Sought
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.store import ensure, open_or_build


def test_a_dead_builder_does_not_block(image: Path, folder: Path) -> None:
    name = str(Folder(str(folder)).recognize(str(image)))
    script = (
        "import sys, time; from unwind.symcache.store.folder import Folder\n"
        "from unwind.symcache.store.locks import locked\n"
        f"with locked(Folder({str(folder)!r}), {name!r}, 0):\n    print('held', flush=True)\n    time.sleep(100)\n"
    )
    holder: subprocess.Popen[bytes] = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        start_s = time.monotonic()
        assert open_or_build(image, cache_dir=folder, wait_s=0.2).addresses("main")  # waits, but not for ever
        assert 0.2 < time.monotonic() - start_s < 60
        for path in kept(folder):
            path.unlink()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    start_s = time.monotonic()
    assert ensure(Sought(str(image)), Folder(str(folder)))[1]
    assert time.monotonic() - start_s < 60
    assert [name for name in os.listdir(folder) if name.endswith(".lock")] == []


ROUNDS = """
import os, random, signal, sys, time
from pathlib import Path
from unwind.symcache.format.container import Container, Head, Identity, pack
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.room import entries_of
from unwind.symcache.store.store import open_or_build

image, place, what, seed = sys.argv[1:]
folder, chance = Folder(place), random.Random(int(seed))
if what == "build":
    def work():
        open_or_build(image, cache_dir=place, wait_s=10)
else:  # a file of some MB, so that the end comes while it is written
    sections = {f"part{i}": os.urandom(1 << 18) for i in range(16)}
    head = Head(Identity(1, b"id"), bytes(16), 62, 1)
    def work():
        folder.write("build-id-6964-" + "00" * 16 + ".symcache", pack(head, sections, {}))
work()
(name,) = [each.name for each in entries_of(folder)]
good = Path(folder.path_of(name)).read_bytes()
folder.remove(name)
start_s = time.monotonic()
work()
work_s = time.monotonic() - start_s
for _ in range(100):
    if chance.random() < 0.7:
        folder.remove(name)
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(chance.random() * 1.5 * work_s)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for entry in entries_of(folder):
        assert entry.name == name and Path(entry.path).read_bytes() == good
start_s = time.monotonic()
work()
assert Path(folder.path_of(name)).read_bytes() == good and time.monotonic() - start_s < 60
print(len([each for each in os.listdir(place) if each.startswith(".")]))
"""


@pytest.mark.parametrize("what", ["build", "write"])
def test_a_builder_that_is_killed_at_any_moment(what: str, image: Path, folder: Path) -> None:
    """200 times: the file is whole or not there, and the next one makes it."""
    command: list[str | Path] = [sys.executable, "-c", ROUNDS, image, folder, what, "7"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 10  # leftovers


TOGETHER = """
import os, sys
from unwind.symcache.store.store import open_or_build
import unwind.symcache.builder.build

image, place, wait_s = sys.argv[1:]
def facts():
    cache = open_or_build(image, cache_dir=place, wait_s=float(wait_s))
    start = cache.addresses("main")
    return start, cache.find(start[0]), cache.frames(start[0] + 8)
expected = facts()
for _ in range(5):
    for name in os.listdir(place):
        if name.endswith(".symcache"):
            os.unlink(os.path.join(place, name))
    gate, go = os.pipe()
    children = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(gate, 1)  # the end of the pipe, for all at once
            os._exit(0 if facts() == expected else 1)
        children.append(pid)
    os.close(gate)
    os.close(go)
    print(*(os.waitpid(pid, 0)[1] for pid in children))
"""


@pytest.mark.parametrize("wait_s", [60, 0])
def test_eight_builders_at_once(wait_s: float, image: Path, folder: Path) -> None:
    command: list[str | Path] = [sys.executable, "-c", TOGETHER, image, folder, str(wait_s)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.stdout, done.stderr) == (5 * "0 0 0 0 0 0 0 0\n", "")
    Container.open(kept(folder)[0]).check_all()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
