"""Mutations of stacks in Parquet: each is read or refused with one line, soon, in bounded memory.

The process that reads a file is forked here, which takes a hundredth of the time to start another Python.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
from typing import IO

import pytest

from icf.errors import IcfError
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.mutations import mutated_text
from tests.support.recordings import read
from tests.support.stack_columns import batch, parquet

MUTATION_COUNT = many(250)
TIME_LIMIT_S, ONE_LIMIT_S = 120, 20
MEMORY_LIMIT_BYTES = 400 << 20
STACKS: list[list[int | None]] = [[0x1136, 0x1180, None, 0x11F0], [], [0x1136, 0x1180], [1 << 63]] * 40
PIECES = (b"\xff" * 4, b"\0", b"\x80" * 4 + b"\x01", b"PAR1", b"\x15\x80\x80\x80\x80\x10")


class Forked:
    """What `subprocess.Popen` is to `ParquetStacks`: a process that reads a file."""

    def __init__(self, fd: int, errors: IO[bytes]) -> None:
        from unwind.arrow import reading

        out, into = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            faulthandler.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(ONE_LIMIT_S)
            try:
                with open(into, "wb") as stream, open(os.dup(errors.fileno()), "w") as lines:
                    status = reading.main(fd, stream, lines)
            finally:
                os._exit(status)
        os.close(into)
        self.stdout = open(out, "rb")
        self.status: int | None = None

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            assert self.status != -signal.SIGALRM, "takes too long"
        return self.status

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)


def content(kind: str) -> bytes:
    pa = pytest.importorskip("pyarrow")
    lists = pa.array([[None if each is None else f"lib{len(stack)}" for each in stack] for stack in STACKS])
    if kind == "plain":
        return parquet(batch(STACKS, module=lists), compression="none", use_dictionary=False)
    flags = pa.array([[each == 0x1180 for each in stack] for stack in STACKS])
    vptrs = pa.array([[each and each + 1 for each in stack] for stack in STACKS], pa.list_(pa.uint64()))
    return parquet(batch(STACKS, module=lists, exact=flags, vptrs=vptrs), compression=kind, data_page_version="2.0")


def overwritten(data: bytes, chance: random.Random) -> bytes:
    """Return a copy with up to three bytes changed; all others stay in their place, as the end says where they are."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(changed))
        changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, changed[at] ^ 1 << chance.randrange(8)))
    return bytes(changed)


@pytest.mark.parametrize("kind", ["plain", "zstd"])
def test_mutated_files_are_read_or_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, original = random.Random(1), content(kind)
    outcomes = [0, 0]
    assert sum(1 for _ in read("parquet", original)) == len(STACKS)
    monkeypatch.setattr("unwind.arrow.files.start_reading", Forked)
    before = reset_peak_memory()  # of the tests that this process ran
    with alarms():
        soon(TIME_LIMIT_S)
        for _ in range(MUTATION_COUNT):
            data = mutated_text(original, PIECES, chance) if chance.random() < 0.1 else overwritten(original, chance)
            try:
                for sample in read("parquet", data):
                    assert sample.weights[0] >= 0
                    assert all(each.address is None or 0 <= each.address < 1 << 64 for each in sample.frames)
                outcomes[0] += 1
            except IcfError as error:
                assert "\n" not in str(error)
                outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 50  # neither all good nor all bad
    assert peak_memory() - before < MEMORY_LIMIT_BYTES
