"""Files of a build from debuginfod: elfutils' server on loopback, and servers that lie."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icf.cli import main
from icf.elf.image import Image
from icf.remote import fetch
from icf.remote.debuginfod import Kind, find
from tests.support.mutations import SHOP
from tests.support.servers import answering, hanging, ok, sending
from tests.support.servers import debuginfod as run_debuginfod
from tests.support.toolchain import lasting_folder, run, tool

ABSENT = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
CALL = "0x87e"  # in a merged function, which .debug_icf tells apart


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of fetched files, empty, and a process that has asked no server yet."""
    folder = tmp_path / "client"
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(folder))
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "symcaches"))
    monkeypatch.setattr(fetch, "_failed", set())
    yield folder


@pytest.fixture(scope="module")
def split() -> tuple[Path, Path]:
    """A program without debug information and its debug file, each in a folder of its own."""
    folder = lasting_folder()
    for name in ("bin", "debug"):
        (folder / name).mkdir()
    image, debug = folder / "bin/shop", folder / "debug/shop.debug"
    assert main(["pass", str(SHOP / "shop.gold"), "-o", str(image)]) == 0
    run("objcopy", "--only-keep-debug", image, debug)
    run("strip", image)
    return image, debug


@pytest.fixture(scope="module")
def server(split: tuple[Path, Path]) -> Iterator[str]:
    with run_debuginfod(split[0].parent.parent) as url:
        yield url


@pytest.fixture
def alone(split: tuple[Path, Path], tmp_path: Path) -> Path:
    """The program in a folder of which no symcache is kept."""
    return Path(shutil.copy(split[0], tmp_path / "shop"))


def build_id_of(path: Path) -> bytes:
    with Image.open(str(path)) as image:
        return image.build_id


def symbolized(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The functions at CALL, and what is reported."""
    capsys.readouterr()
    main(["symbolize", "-e", str(path), CALL])
    out = capsys.readouterr()
    return out.out.splitlines()[0], out.err


def test_debug_information_comes_from_a_server_and_is_kept(
    split: tuple[Path, Path], alone: Path, server: str, client: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    name, _ = symbolized(alone, capsys)
    assert name == "??"
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    name, report = symbolized(alone, capsys)  # the symcache is made again
    assert name == "List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()" and report == ""
    kept = client / build_id_of(alone).hex() / "debuginfo"
    assert kept.read_bytes() == split[1].read_bytes() and kept.stat().st_mode & 0o777 == 0o400
    # the client of elfutils finds it there, without a server
    environment = {**os.environ, "DEBUGINFOD_URLS": "http://127.0.0.1:1"}
    command = [tool("debuginfod-find"), "debuginfo", str(alone)]
    assert subprocess.check_output(command, env=environment, text=True).strip() == str(kept)


def test_what_another_client_has_fetched_is_used_without_a_server(
    alone: Path, server: str, client: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "DEBUGINFOD_URLS": server}
    subprocess.check_call(
        [tool("debuginfod-find"), "debuginfo", str(alone)], env=environment, stdout=subprocess.DEVNULL
    )
    assert symbolized(alone, capsys) == ("List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()", "")


def test_the_image_comes_from_a_server(
    split: tuple[Path, Path], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Neither the program nor its debug information is on this machine: only where it was loaded, and its build id."""
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    (tmp_path / "modules").write_text(
        f'[{{"path": "/nowhere/shop", "build_id": "{build_id_of(split[0]).hex()}", "load_address": "0x10000"}}]'
    )
    (tmp_path / "stacks").write_text("0x109d8 0x1087e 0x108e5 0x108ff 0x1074a\n")
    assert main(["resolve", "--modules", str(tmp_path / "modules"), str(tmp_path / "stacks")]) == 0
    assert "List<Payment>::grow() (./list.h:20) in shop  [unique, dwarf]" in capsys.readouterr().out


def test_that_no_server_has_a_file_is_remembered_for_ten_minutes(
    alone: Path, server: str, client: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def deny(connection: socket.socket) -> None:
        asked.append(b"")
        connection.sendall(ABSENT)

    with answering(deny) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        build_id = build_id_of(alone)
        assert find(build_id, Kind.DEBUG_INFO) is None and find(build_id, Kind.DEBUG_INFO) is None
        assert len(asked) == 1
        kept = client / build_id.hex() / "debuginfo"
        assert kept.stat().st_size == 0
        os.utime(kept, (time.time() - 601,) * 2)
        assert find(build_id, Kind.DEBUG_INFO) is None and len(asked) == 2
        (client / "cache_miss_s").write_text("0")
        assert find(build_id, Kind.DEBUG_INFO) is None and len(asked) == 3
        monkeypatch.setenv("DEBUGINFOD_URLS", f"{url} {server}")
        assert find(build_id, Kind.DEBUG_INFO) == str(kept) and len(asked) == 4


def test_a_symcache_is_made_again_once_a_server_has_the_debug_file(
    alone: Path, server: str, client: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(sending(ABSENT)) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        assert symbolized(alone, capsys) == ("??", "")
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    assert symbolized(alone, capsys) == ("??", "")
    os.utime(client / build_id_of(alone).hex() / "debuginfo", (time.time() - 700,) * 2)
    assert symbolized(alone, capsys)[0].startswith("List<Order>::grow() | ")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda _: ok((SHOP / "shop.lld").read_bytes()), r"has build id [0-9a-f]+, not [0-9a-f]+"),
        (lambda split: ok(split[1].read_bytes()[:5000]), r"section headers.*"),
        (lambda _: ok(b"<html>Please log in</html>"), r"ELF header\+0x0: .*"),
        (lambda _: ok(b""), r"file header\+0x0: the file is empty"),
        (lambda _: b"nonsense\r\n", "its answer is not HTTP"),
    ],
    ids=["another build", "cut", "page", "empty", "garbage"],
)
def test_a_file_that_is_not_the_one_is_refused(
    answer: Callable[[tuple[Path, Path]], bytes], problem: str, split: tuple[Path, Path], alone: Path, client: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with answering(sending(answer(split))) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        name, report = symbolized(alone, capsys)
    assert name == "??"
    place = f"{url}/buildid/{build_id_of(alone).hex()}/debuginfo"
    assert re.fullmatch(rf"icf: warning: {place}: {problem}: not used\n", report), report
    assert not any((client / build_id_of(alone).hex()).iterdir())


def test_the_image_must_have_code(
    split: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(sending(ok(split[1].read_bytes()))) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        assert find(build_id_of(split[0]), Kind.EXECUTABLE) is None
    assert caplog.messages[0].endswith("/executable: is not the executable of the build: not used")


def test_a_server_that_hangs_costs_one_time_out_and_one_line(
    split: tuple[Path, Path], server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(hanging) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"{url} {server}")
        monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.3")
        assert find(build_id_of(split[0]), Kind.EXECUTABLE) is not None  # the other server has it
        assert find(build_id_of(split[0]), Kind.DEBUG_INFO) is not None
        assert find(bytes(20), Kind.DEBUG_INFO) is None
    assert len(caplog.messages) == 1 and "sends less than 100 KB in 0.3 s: not used" in caplog.messages[0]


def test_a_kept_file_of_another_build_is_not_used(
    split: tuple[Path, Path], client: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build_id = build_id_of(split[0])
    (client / build_id.hex()).mkdir(parents=True)
    shutil.copy(SHOP / "shop.lld", client / build_id.hex() / "debuginfo")
    assert find(build_id, Kind.DEBUG_INFO) is None
    other = build_id_of(SHOP / "shop.lld").hex()
    assert caplog.messages == [
        f"{client}/{build_id.hex()}/debuginfo: has build id {other}, not {build_id.hex()}: not used"
    ]


def test_a_folder_that_all_may_write_to_is_not_used(
    split: tuple[Path, Path], server: str, client: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    client.mkdir()
    client.chmod(0o777)
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    assert find(build_id_of(split[0]), Kind.DEBUG_INFO) is None
    assert caplog.messages == [f"{client}: other users may write to it (mode 777): not used"]


def test_signatures_are_not_ignored(
    split: tuple[Path, Path], server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", f"ima:enforcing {server}")
    assert find(build_id_of(split[0]), Kind.DEBUG_INFO) is None
    expected = "DEBUGINFOD_URLS: ima:enforcing: signatures of files are not checked, so no server is asked"
    assert caplog.messages == [expected]
    monkeypatch.setenv("DEBUGINFOD_URLS", f"ima:ignore {server}")
    assert find(build_id_of(split[0]), Kind.DEBUG_INFO) is not None


def test_a_pass_asks_no_server(alone: Path, server: str, client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    assert main(["pass", str(alone)]) == 1  # it is stripped
    assert not client.exists()


def test_the_supplementary_file_comes_from_a_server(
    tmp_path: Path, client: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dwz -m` moves what several programs share to a file that debuginfod serves like any other."""
    (tmp_path / "tree").mkdir()
    names = []
    for name in ("one", "two"):
        functions = f"int {name}(S *s) {{ return s->a; }} int main() {{ S s{{}}; return {name}(&s); }}"
        (tmp_path / f"{name}.cpp").write_text(f"struct S {{ int a, b; long c; }}; {functions}")
        run(tool("g++"), "-g", tmp_path / f"{name}.cpp", "-Wl,--build-id", "-o", tmp_path / name)
        names.append(tmp_path / name)
    run(tool("dwz"), "-m", tmp_path / "tree/shared.debug", *names)
    capsys.readouterr()
    assert main(["symbolize", "-e", str(names[0]), "main"]) == 0 and "one.cpp" in capsys.readouterr().out
    run("mv", tmp_path / "tree/shared.debug", tmp_path / "tree/moved.debug")
    shutil.rmtree(tmp_path / "symcaches")
    with run_debuginfod(tmp_path / "tree") as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        assert main(["symbolize", "-e", str(names[0]), "main"]) == 0
        assert "one.cpp" in capsys.readouterr().out and len(list(client.glob("*/debuginfo"))) == 1
