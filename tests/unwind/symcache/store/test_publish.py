"""`icf cache push` and `pull`: one machine makes a symcache, others take it, and check it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icf.cli import main
from icf.elf.image import Image
from tests.support.mutations import SHOP
from tests.support.servers import answering, hanging, http_folder, ok, sending

STACK = "0x9d8 0x87e 0x8e5 0x8ff 0x74a\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A program with tables, at rest for long enough for its stamp to count."""
    image = tmp_path / "shop"
    assert main(["pass", str(SHOP / "shop.gold"), "-o", str(image)]) == 0
    os.utime(image, (1e9, 1e9))
    return image


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@contextmanager
def as_url(place: Path, kind: str) -> Iterator[str]:
    """The place as the user names it."""
    if kind == "folder":
        yield str(place)
        return
    with http_folder(place) as url:
        yield f"{url}/"


def cache(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> tuple[str, str]:
    """What `icf cache` prints and reports."""
    capsys.readouterr()
    assert main(["cache", *map(str, arguments)]) == status
    out = capsys.readouterr()
    return out.out, out.err


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_one_machine_builds_and_others_take(
    kind: str, shop: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs, third = (str(tmp_path / name) for name in ("mine", "theirs", "third"))
    cache(capsys, "--cache-dir", mine, "build", shop)
    with as_url(place, kind) as named:
        manifest, _ = cache(capsys, "--cache-dir", mine, "push", named)
        name = manifest.split()[1]
        assert (place / name).read_bytes() == (Path(mine) / name).read_bytes()
        # the image is at hand
        taken, _ = cache(capsys, "--cache-dir", theirs, "pull", named, shop)
        assert taken == f"{theirs}/{name}\n"
        assert "up to date" in cache(capsys, "--cache-dir", theirs, "build", shop)[0]
        # it is not, but a manifest says what to trust
        (tmp_path / "manifest").write_text(manifest)
        with Image.open(str(shop)) as image:
            build_id = image.build_id.hex()
        cache(capsys, "--cache-dir", third, "pull", named, build_id, "--manifest", tmp_path / "manifest")
    shop.unlink()
    (tmp_path / "modules").write_text(f'[{{"path": "/nowhere/shop", "build_id": "{build_id}", "load_address": 0}}]')
    (tmp_path / "stacks").write_text(STACK)
    arguments = ["--cache-dir", third, "--modules", str(tmp_path / "modules"), str(tmp_path / "stacks")]
    capsys.readouterr()
    assert main(["resolve", *arguments]) == 0
    assert "List<Payment>::grow()" in capsys.readouterr().out


def test_a_build_without_a_manifest_is_not_taken(
    shop: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache(capsys, "--cache-dir", tmp_path / "mine", "build", shop)
    cache(capsys, "--cache-dir", tmp_path / "mine", "push", place)
    _, report = cache(capsys, "--cache-dir", tmp_path / "theirs", "pull", place, "c9d4cd3e", status=1)
    problem = "icf: error: c9d4cd3e: is not an image, and not in a manifest"
    assert report == f"{problem}\nhint: --manifest FILE says what to trust\n"


def test_what_is_not_the_published_file_is_refused(
    shop: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    cache(capsys, "--cache-dir", mine, "build", shop)
    manifest, _ = cache(capsys, "--cache-dir", mine, "push", place)
    digest, name = manifest.split()
    other = shutil.copy(SHOP / "shop.lld", tmp_path / "other")
    cache(capsys, "--cache-dir", mine, "build", other)
    (theirs_file,) = (each for each in mine.glob("*.symcache") if each.name != name)
    (tmp_path / "manifest").write_text(manifest)

    def pulled(*arguments: object) -> str:
        _, report = cache(capsys, "--cache-dir", theirs, "pull", place, *arguments, status=1)
        return report

    (place / name).chmod(0o644)
    shutil.copy(theirs_file, place / name)  # of another image, whole
    assert pulled(shop) == f"icf: error: {place}/{name}: is of {theirs_file.stem}, not {Path(name).stem}\n"
    report = pulled("--manifest", tmp_path / "manifest", "c9d4cd3e")
    assert report.startswith(f"icf: error: {place}/{name}: has SHA-256 ")
    assert report.endswith(f", the manifest has {digest}\n")
    content = bytearray((mine / name).read_bytes())
    for at in (len(content) // 2, 100):
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        (place / name).write_bytes(damaged)
        assert pulled(shop).startswith(f"icf: error: {place}/{name}: ")
    (place / name).unlink()
    assert pulled(shop) == f"icf: error: {place}/{name}: No such file or directory\n"
    assert not list(theirs.glob("*.symcache"))
    (tmp_path / "manifest").write_text("what is this\n")
    assert pulled("--manifest", tmp_path / "manifest", "c9d4") == (
        f"icf: error: {tmp_path}/manifest:1: must be a SHA-256 and the name of a symcache\n"
    )


def test_a_server_that_does_not_behave_costs_one_line(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.3")
    for answer, problem in (
        (hanging, "sends less than 100 KB in 0.3 s"),
        (sending(ok(b"nonsense")), "head+0x0: file is too small to be a symcache"),
        (sending(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), "not there"),
    ):
        with answering(answer) as url:
            _, report = cache(capsys, "--cache-dir", tmp_path / "mine", "pull", url, shop, status=1)
        assert report.startswith(f"icf: error: {url}/build-id-") and problem in report and report.count("\n") == 1
    with answering(sending(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")) as url:
        cache(capsys, "--cache-dir", tmp_path / "mine", "build", shop)
        _, report = cache(capsys, "--cache-dir", tmp_path / "mine", "push", url, status=1)
    assert report.endswith(".symcache: the server answers with status 403\n")
