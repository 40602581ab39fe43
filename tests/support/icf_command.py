"""The words that run `icf` in a process of its own."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from functools import cache

from tests.support.paths import ROOT
from tests.support.toolchain import lasting_folder


@cache
def icf_command(python: str = sys.executable) -> tuple[str, ...]:
    """Return the words of `icf` as a Python has it, run by a server without its start (tests/support/icf_server.py)."""
    path = lasting_folder() / "socket"
    command = [python, "-P", str(ROOT / "tests/support/icf_server.py"), str(path)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a copy would not have numpy's threads
    server = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    atexit.register(_end, server)
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    return (sys.executable, "-I", "-S", str(ROOT / "tests/support/icf_client.py"), str(path))


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server, and what it still runs."""
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
