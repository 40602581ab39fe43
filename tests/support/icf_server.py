"""A process that has imported all of `icf`, and runs each command in a copy of itself.

To start Python and to import numpy and our modules takes much longer than most commands of the tests; a copy has them.
Like a new process it has its own memory, directory, environment, standard streams and handlers of signals, and it ends
as `icf` ends. What it does not show is the start itself: what a command imports, variables that Python reads when it
starts, closed streams, limits. Tests of these start `python -m icf`.

    icf_client.py ──── socket: streams, directory, arguments, environment ───> server
                                                                                 │ fork: serves one client
                  <─────────────────────── exit status ───────────────────────── │ fork: the command
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import icf
import linkpass
import unwind
from icf import cli

_ANY_CHILD = -1


def import_all() -> None:
    for package in (icf, linkpass, unwind):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # a plug-in of a debugger
                import_module(module.name)
    gc.freeze()


def serve(path: str) -> None:
    """Serve clients at a socket until this process's standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            ready = select.select([listener, sys.stdin], [], [], 1.0)[0]
            while _reaped():
                pass
            if sys.stdin in ready:
                return
            if listener in ready:
                client = listener.accept()[0]
                if os.fork() == 0:
                    listener.close()
                    _serve_one(client)
                client.close()


def _reaped() -> bool:
    try:
        return os.waitpid(_ANY_CHILD, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _serve_one(client: socket.socket) -> None:
    head, streams, _, _ = socket.recv_fds(client, 16, 3)
    left, parts = int(head), []
    while left:
        parts.append(client.recv(left))
        left -= len(parts[-1])
    folder, count, *rest = b"".join(parts).split(b"\0")
    words, variables = rest[: int(count)], rest[int(count) :]
    pid = os.fork()
    if pid == 0:
        client.close()
        _take(streams)
        os.chdir(folder)
        os.environb.clear()
        for variable in variables:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["icf", *map(os.fsdecode, words)]
        cli.main()
    for stream in streams:
        os.close(stream)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    client.sendall(b"%d" % (status if status >= 0 else 128 - status))
    os._exit(0)


def _take(streams: list[int]) -> None:
    """Have these as standard streams, as a Python that starts has them."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    import_all()
    serve(sys.argv[1])
