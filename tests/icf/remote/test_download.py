"""Downloads from servers that hang, lie, or send garbage: a limited time, and one line."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from email.message import Message
from io import BytesIO
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request

import pytest

from icf.remote.download import Limits, Redirections, RemoteError, download, upload
from tests.support.servers import answering, dripping, hanging, http_folder, ok, sending

LIMITS = Limits(timeout_s=30, size_bytes=1 << 20)
OK = b"HTTP/1.1 200 OK\r\n"


def fetched(url: str, limits: Limits = LIMITS) -> bytes | None:
    pieces: list[bytes] = []
    return b"".join(pieces) if download(url, pieces.append, limits) else None


def test_a_file_is_downloaded_and_a_missing_one_is_not_an_error(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "a").write_bytes(content)
    with http_folder(tmp_path) as url:
        assert fetched(f"{url}/a") == content
        assert fetched(f"{url}/b") is None
        upload(f"{url}/b", b"new", LIMITS)
        assert fetched(f"{url}/b") == b"new"
        with pytest.raises(RemoteError, match=r"/x/b: the server has no such folder$"):
            upload(f"{url}/x/b", b"new", LIMITS)


@pytest.mark.parametrize(
    "answer",
    [
        hanging,
        dripping(b"", b"H"),
        dripping(OK, b"x"),
        dripping(OK + b"Content-Length: 900\r\n\r\n", b"x"),
        dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
    ids=["hangs", "status line", "headers", "content", "chunk"],
)
def test_a_server_that_hangs_costs_a_time_out(answer: Callable[[socket.socket], object]) -> None:
    start_s = time.monotonic()
    with answering(answer) as url, pytest.raises(RemoteError, match=rf"^{url}/a: sends less than 100 KB in 0.3 s$"):
        fetched(f"{url}/a", LIMITS._replace(timeout_s=0.3))
    assert time.monotonic() - start_s < 10


def test_a_slow_server_is_stopped_at_the_limit_of_the_whole() -> None:
    limits = Limits(timeout_s=30, total_s=0.5)
    with (
        answering(dripping(OK + b"\r\n", bytes(1000))) as url,
        pytest.raises(RemoteError, match="takes longer than 0.5 s"),
    ):
        fetched(f"{url}/a", limits)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "the server ends the connection without an answer"),
        (b"\x7fELF\0\0\0\n" * 9, "its answer is not HTTP"),
        (OK + b"x: y\r\n" * 200, "its answer is not HTTP"),
        (OK + b"x" * 100_000, "its answer is not HTTP"),
        (OK + b"Content-Length: 9\r\n\r\nabc", "ends after 3 of 9 bytes"),
        (OK + b"Content-Length: 9999999999\r\n\r\nabc", "has 9999999999 bytes, must have 1048576 or fewer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc", "ends in the middle"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc", "ends in the middle"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "the server answers with status 503"),
        (b"HTTP/1.1 206 Part\r\nContent-Length: 1\r\n\r\nx", "the server answers with status 206"),
        (b"HTTP/1.1 302 Go\r\nLocation: file:///etc/passwd\r\n\r\n", "the server answers with status 302"),
        (b"HTTP/1.1 302 Go\r\nLocation: /again\r\n\r\n", "the server answers with status 302"),
    ],
)
def test_what_a_server_does_wrong_is_one_line(answer: bytes, problem: str) -> None:
    with answering(sending(answer)) as url, pytest.raises(RemoteError, match=rf"^{url}/a: {problem}$"):
        fetched(f"{url}/a")


def test_a_fast_server_without_an_end_is_stopped_at_the_size_limit() -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        while True:
            connection.sendall(bytes(1 << 16))

    with answering(flood) as url, pytest.raises(RemoteError, match="has more than 1048576 bytes"):
        fetched(f"{url}/a")


def test_a_redirection_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    with http_folder(tmp_path) as there:
        moved = f"HTTP/1.1 301 Moved\r\nLocation: {there}/a\r\nContent-Length: 0\r\n\r\n"
        with answering(sending(moved.encode())) as url:
            assert fetched(f"{url}/x") == b"content"


def test_a_redirection_from_https_to_http_is_refused() -> None:
    asked = Request("https://example.com/a")
    with pytest.raises(URLError, match="redirects from https to http"):
        Redirections().redirect_request(asked, BytesIO(), 302, "", Message(), "http://example.com/a")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("ftp://127.0.0.1/a", "must begin with http:// or https://"),
        ("http://127.0.0.1:1/a", "connection refused"),
        ("http://127.0.0.1:x/a", "its answer is not HTTP"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(url: str, problem: str) -> None:
    with pytest.raises(RemoteError, match=f"^{url}: .*{problem}"):
        fetched(url)


def test_garbage_is_one_line() -> None:
    rng, seed = random.Random(53_000), ok(bytes(100)).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    answers: list[bytes] = []
    for _ in range(300):
        content = bytearray(rng.choice((seed, ok(b"content"))))
        for _ in range(rng.choice((1, 2, 5))):
            at = rng.randrange(len(content) + 1)
            content[at : at + rng.randrange(4)] = rng.choice((b"\r\n", b"\0", b"9" * 30, b"-", rng.randbytes(3)))
        answers.append(bytes(content))
    left = iter(answers)
    with answering(lambda connection: connection.sendall(next(left))) as url:
        for _ in answers:
            try:
                fetched(f"{url}/a")
            except RemoteError as error:
                assert str(error).startswith(f"{url}/a: ") and "\n" not in str(error) and str(error).isprintable()
