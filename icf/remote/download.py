"""Download a file from a server that may hang, lie or send garbage.

What can go wrong costs a limited time and is one `RemoteError`. Connections are watched by a thread: one that brings
less than 100 KB in the time-out is shut down, whatever it waits for, as is one that takes longer than the limit of the
whole. So a server that sends a byte now and then, in its headers or in its content, holds a process no longer than
one that sends nothing. A redirection leads to http or https, and never from https to http.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from threading import Event, Thread
from typing import IO, Any, NamedTuple, Self

from icf.errors import IcfError

_LEAST_BYTES = 100 << 10  # in each time-out, as elfutils has it
_PIECE_BYTES = 1 << 16
_CONNECT_S = 20.0
_REDIRECTION_LIMIT = 5
_SCHEMES = ("http", "https")
_ABSENT = (404, 410)


class RemoteError(IcfError):
    """A server that does not answer as it should; another one may have the file."""


class Limits(NamedTuple):
    """What a download may take."""

    timeout_s: float = 90.0  # for each 100 KB, and for the answer to begin
    total_s: float = 0.0  # for all of it; 0: no limit
    size_bytes: int = 8 << 30


def download(url: str, write: Callable[[bytes], object], limits: Limits) -> bool:
    """Download a file.

    Args:
        url: http or https.
        write: called with each piece of the content.
        limits: of time and size.

    Returns:
        Whether the server has the file.

    Raises:
        RemoteError: the server cannot be reached, is too slow, or its answer is not the file.
    """
    return _exchange(urllib.request.Request(url), write, limits)


def upload(url: str, content: bytes, limits: Limits) -> None:
    """Put a file on a server, by the method PUT.

    Args:
        url: http or https.
        content: of the file.
        limits: of the answer.

    Raises:
        RemoteError: the server cannot be reached, is too slow, or refuses it.
    """
    request = urllib.request.Request(url, data=content, method="PUT")
    request.add_header("Content-Type", "application/octet-stream")
    if not _exchange(request, lambda _: None, limits):
        raise RemoteError(f"{url}: the server has no such folder")


def is_url(text: str) -> bool:
    """Return whether a text is a URL of a server, and not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def _exchange(request: urllib.request.Request, write: Callable[[bytes], object], limits: Limits) -> bool:
    url = request.full_url
    if request.type not in _SCHEMES:
        raise RemoteError(f"{url}: must begin with http:// or https://")
    request.add_header("User-Agent", "icf")
    request.add_header("Accept-Encoding", "identity")
    with _Watch(limits) as watch:
        try:
            with _opener(watch).open(request, timeout=limits.timeout_s) as answer:
                _copy(answer, write, watch, limits.size_bytes)
            problem = ""
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _ABSENT:
                return False
            problem = f"the server answers with status {error.code}"
        except urllib.error.URLError as error:
            problem = _words(error.reason)
        except (OSError, http.client.HTTPException, ValueError, UnicodeError) as error:
            problem = _words(error)
        if watch.problem or problem:
            raise RemoteError(f"{url}: {watch.problem or problem}")
    return True


def _opener(watch: _Watch) -> urllib.request.OpenerDirector:
    """Return what opens http and https alone: no files, and no other scheme."""
    opener = urllib.request.OpenerDirector()
    errors = urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor()
    for handler in (urllib.request.ProxyHandler(), _Connections(watch), Redirections(), *errors):
        opener.add_handler(handler)
    return opener


def _copy(answer: IO[bytes], write: Callable[[bytes], object], watch: _Watch, limit_bytes: int) -> None:
    expected = getattr(answer, "length", None)
    if getattr(answer, "status", 200) not in (200, 201, 204):
        raise ValueError(f"the server answers with status {getattr(answer, 'status', 0)}")
    if expected is not None and expected > limit_bytes:
        raise ValueError(f"has {expected} bytes, must have {limit_bytes} or fewer")
    while piece := answer.read(_PIECE_BYTES):
        watch.received_bytes += len(piece)
        if watch.received_bytes > limit_bytes:
            raise ValueError(f"has more than {limit_bytes} bytes")
        write(piece)
    if expected is not None and watch.received_bytes != expected:
        raise ValueError(f"ends after {watch.received_bytes} of {expected} bytes")


def _words(problem: object) -> str:
    """Return one line about an exception; what a server has sent is not part of it."""
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {problem.verify_message}"
    if isinstance(problem, http.client.RemoteDisconnected):
        return "the server ends the connection without an answer"
    if isinstance(problem, http.client.IncompleteRead):
        return "ends in the middle"
    if isinstance(problem, http.client.HTTPException):
        return "its answer is not HTTP"
    if isinstance(problem, OSError):
        return (problem.strerror or str(problem) or type(problem).__name__).lower()
    return " ".join(str(problem).split())[:200]


class _Watch:
    """Shuts down the connections of one exchange when it takes too long."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._done, self._connections = limits, Event(), list[socket.socket]()
        self.received_bytes = 0
        self.problem = ""

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Return a connection that is watched; takes the place of `socket.create_connection`."""
        connection = socket.create_connection(address, min(self._limits.timeout_s, _CONNECT_S))
        connection.settimeout(self._limits.timeout_s + 1)  # the thread is first, and has the words
        self._connections.append(connection.dup())  # of the same connection, whatever TLS does with the other
        if self.problem:
            self._shut_down()
        return connection

    def __enter__(self) -> Self:
        Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for each in self._connections:
            each.close()

    def _run(self) -> None:
        before_bytes, start_s = 0, time.monotonic()
        timeout_s, total_s = self._limits.timeout_s, self._limits.total_s
        while True:
            left_s = total_s - (time.monotonic() - start_s) if total_s else timeout_s
            if self._done.wait(max(0.0, min(timeout_s, left_s))):
                return
            if total_s and time.monotonic() - start_s >= total_s:
                self.problem = f"takes longer than {total_s:g} s"
            elif self.received_bytes - before_bytes < _LEAST_BYTES:
                self.problem = f"sends less than {_LEAST_BYTES >> 10} KB in {timeout_s:g} s"
            before_bytes = self.received_bytes
            if self.problem:
                return self._shut_down()

    def _shut_down(self) -> None:
        for each in list(self._connections):
            with suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)


class _Connections(urllib.request.AbstractHTTPHandler):
    """Opens http and https by connections that are watched."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._make, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._make, http.client.HTTPSConnection), req, context=_tls())

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def _make(self, kind: Callable[..., http.client.HTTPConnection], host: str, **args: Any) -> Any:
        connection = kind(host, **args)
        vars(connection)["_create_connection"] = self._watch.connect
        return connection


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()  # reads all certificates of the system


class Redirections(urllib.request.HTTPRedirectHandler):
    """Follows a few redirections, and none to a scheme that is less safe."""

    max_redirections = _REDIRECTION_LIMIT

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        if scheme not in _SCHEMES or (req.type == "https" and scheme == "http"):
            raise urllib.error.URLError(f"the server redirects from {req.type} to {scheme[:20]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
