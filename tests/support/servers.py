"""Servers on loopback: debuginfod of elfutils, a folder over HTTP, and servers that do not behave."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.support.toolchain import tool

_READY_S = 60


@contextmanager
def debuginfod(folder: Path) -> Iterator[str]:
    """Run debuginfod on the files of a folder; yields its URL once it knows them."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [tool("debuginfod"), "-F", "-p", str(port), "-d", ":memory:", "-t", "0", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _READY_S
        while not _has_scanned(f"http://127.0.0.1:{port}"):
            assert server.poll() is None and time.monotonic() < until, "debuginfod does not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _has_scanned(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
    except OSError:
        return False
    return "scanned_files_total" in metrics and 'thread_work_pending{role="scan"} 0' in metrics


class _Folder(SimpleHTTPRequestHandler):
    """A folder that can be read, and written by PUT."""

    def do_PUT(self) -> None:
        path = Path(self.translate_path(self.path))
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not path.parent.is_dir():
            return self.send_error(404)
        path.write_bytes(content)
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def http_folder(folder: Path) -> Iterator[str]:
    """Serve a folder; yields its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Folder, directory=str(folder))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Run a server that reads a request, and then does as it is asked with the connection; yields its URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        Thread(target=_serve, args=(server, answer), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, answer: Callable[[socket.socket], object]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        Thread(target=_answer, args=(connection, answer), daemon=True).start()


def _answer(connection: socket.socket, answer: Callable[[socket.socket], object]) -> None:
    with connection, suppress(OSError):
        connection.recv(1 << 16)
        answer(connection)


def sending(content: bytes) -> Callable[[socket.socket], object]:
    """Return what sends these bytes, and ends."""
    return lambda connection: connection.sendall(content)


def dripping(head: bytes, byte: bytes) -> Callable[[socket.socket], object]:
    """Return what sends a byte every 20 ms, without an end."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(byte)
            time.sleep(0.02)

    return drip


def hanging(connection: socket.socket) -> None:
    """Wait until the other side ends the connection."""
    connection.recv(1)


def ok(content: bytes) -> bytes:
    """Return an answer with some content."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)
