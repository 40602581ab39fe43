"""A signal that comes while Python's own import code runs waits until it is left: its lock would stay taken."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from icf.signals import end_by_exceptions
end_by_exceptions()
done = []
part = "os.kill(os.getpid(), int(sys.argv[1]))\\nfor _ in range(1000): done.append(1)"
try:
    exec(compile(part, sys.argv[2], "exec"))
    while True:
        pass
except KeyboardInterrupt:
    print("interrupted", len(done))
finally:
    print("cleaned up", len(done))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("place, count", [("<frozen importlib._bootstrap>", 1000), ("ours", 0)])
def test_import_code_is_left_first(number: signal.Signals, place: str, count: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(int(number)), place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [f"cleaned up {count}"]
    if number is signal.SIGINT:
        lines.insert(0, f"interrupted {count}")
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")
    assert done.returncode == (143 if number is signal.SIGTERM else 0)
