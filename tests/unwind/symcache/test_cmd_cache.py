"""`icf cache`: what people and scripts see of the folder."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from icf import cli
from icf.elf.image import Image
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.unwind.symcache.support import OTHER, aged, facts, kept
from unwind.symcache.builder import sections
from unwind.symcache.builder._records import put_records
from unwind.symcache.format.container import Container, pack
from unwind.symcache.store.store import open_or_build

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path, cache_dir: Path = folder) -> tuple[int, str, str]:
        try:
            status = cli.main(["cache", "--cache-dir", str(cache_dir), *map(str, args)])
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return call


def listed(run: Run) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(run("list", "--json")[1])
    return rows


def test_build_and_list(run: Run, image: Path, folder: Path) -> None:
    status, out, err = run("build", image, OTHER)
    assert (status, err) == (0, "") and out.count("built in") == 2
    status, out, _ = run("build", image)
    assert status == 0 and "up to date" in out and str(kept(folder)[0].parent) in out
    before = [path.stat().st_ino for path in kept(folder)]
    assert "built in" in run("build", "--force", image)[1]
    assert sum(path.stat().st_ino not in before for path in kept(folder)) == 1
    rows = {row["path"]: row for row in listed(run)}
    assert set(rows) == {str(image), str(OTHER)}
    row = rows[str(image)]
    cache = open_or_build(image, cache_dir=folder)
    assert row["file"] == cache.path and row["identity"] == str(cache.identity) and row["is_complete"] is True
    assert row["size_bytes"] == os.path.getsize(cache.path) and abs(int(str(row["last_used"])) - time.time()) < 600
    table = run("list")[1]
    assert str(image) in table and str(cache.identity) in table and f"2 files in {folder}" in table


def test_an_empty_folder(run: Run, folder: Path) -> None:
    assert run("list") == (0, f"      0 B  0 files in {folder}, limit 4.0 GiB\n", "")
    assert listed(run) == [] and not folder.exists()
    for action in ("prune", "clear"):
        assert run(action) == (0, "nothing to remove\n", "")
    assert run("verify") == (0, "", "")


def test_what_cannot_be_built(run: Run, image: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    status, out, err = run("build", tmp_path / "none", image, tmp_path / "text")
    assert status == 1 and out.count("built in") == 1
    assert f"icf: error: {tmp_path / 'none'}: No such file or directory\n" in err and "not an ELF file" in err
    (tmp_path / "file").touch()
    status, out, err = run("build", image, cache_dir=tmp_path / "file")
    assert (status, out) == (1, "") and "is not a directory" in err


def test_the_environment_and_where_the_option_stands(image: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ICF_CACHE_DIR": str(tmp_path / "a")}
    for options, where in ((["cache", "build"], "a"), (["cache", "build", "--cache-dir", str(tmp_path / "b")], "b")):
        command = [*icf_command(), *options, str(image)]
        assert subprocess.run(command, env=environment, cwd=ROOT).returncode == 0
        assert len(kept(tmp_path / where)) == 1


def test_verify(run: Run, image: Path, folder: Path, tmp_path: Path) -> None:
    copies = [aged(Path(shutil.copy(OTHER, tmp_path / name))) for name in ("gone", "changed")]
    subprocess.run([*icf_command(), "pass", "-q", copies[1]], check=True, cwd=ROOT)
    other = Path(shutil.copy(image, tmp_path / "other"))
    subprocess.run([*icf_command(), "pass", "-q", other], check=True, cwd=ROOT)
    with open_or_build(other, cache_dir=folder, lazy=True) as partial:  # type: ignore[union-attr]
        partial.addresses("main")
    run("build", image, *copies)
    assert run("verify")[0] == 0 and run("verify")[1].count("good: ") == 4
    copies[0].unlink()
    copies[1].write_bytes(image.read_bytes())
    (path,) = [path for path in kept(folder) if Container.open(path).origin["path"] == str(image)]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (folder / f"content-00-{'11' * 16}.symcache").write_bytes(b"no symcache")
    status, out, _ = run("verify", "--json")
    states = {os.path.basename(row["file"]): row for row in json.loads(out)}
    assert status == 1 and sorted(row["state"] for row in states.values()) == [
        "damaged", "damaged", "gone", "good", "stale"
    ]  # fmt: skip
    assert "checksum of the block does not fit" in states[path.name]["problem"]
    status, out, _ = run("verify", "--remove", image)
    assert status == 1 and f"damaged: {path}: " in out and out.count(str(path)) == 1 and not path.exists()
    assert (folder / f"content-00-{'11' * 16}.symcache").exists()  # was not asked for
    assert run("verify", "--remove")[0] == 1 and run("verify")[0] == 0


def test_prune(run: Run, image: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copy(OTHER, tmp_path / "copy"))
    run("build", image, copy)
    old, new = (Path(open_or_build(path, cache_dir=folder).path) for path in (image, copy))
    os.utime(old, (time.time() - 40 * 86400,) * 2)
    assert run("prune", "--older-than", "50d") == (0, "nothing to remove\n", "")
    assert run("prune", "--missing") == (0, "nothing to remove\n", "")
    monkeypatch.setenv("ICF_CACHE_SIZE", "1K")
    assert run("prune")[1].count("removed") == 2
    monkeypatch.delenv("ICF_CACHE_SIZE")
    run("build", image, copy)
    os.utime(old, (time.time() - 40 * 86400,) * 2)
    status, out, _ = run("prune", "--older-than", "30d")
    assert status == 0 and out.startswith(f"removed {old}\n1 file, ") and kept(folder) == [new]
    run("build", image)
    copy.unlink()
    assert f"removed {new}" in run("prune", "--missing")[1] and kept(folder) == [old]
    assert run("prune", "--max-size", "10M")[1] == "nothing to remove\n"
    assert f"removed {old}" in run("prune", "--max-size", "100")[1] and kept(folder) == []
    for option, value in (("--max-size", "much"), ("--older-than", "long")):
        status, _, err = run("prune", option, value)
        assert status == 1 and f"{option}: '{value}' is not a" in err


def test_clear(run: Run, image: Path, folder: Path) -> None:
    run("build", image, OTHER)
    status, out, _ = run("clear")
    assert status == 0 and out.startswith("2 files, ") and kept(folder) == []
    assert list((folder / "stamps").iterdir()) == []


def test_export_and_import(run: Run, image: Path, folder: Path, tmp_path: Path) -> None:
    run("build", image, OTHER)
    cache = open_or_build(image, cache_dir=folder)
    file, there = tmp_path / "exported", tmp_path / "there"
    assert run("export", image, "-o", file)[0] == 0
    assert file.read_bytes() == Path(cache.path).read_bytes()
    assert run("import", file, cache_dir=there)[0] == 0
    before = kept(there)[0].stat().st_ino
    assert facts(open_or_build(image, cache_dir=there)) == facts(cache) and kept(there)[0].stat().st_ino == before
    by_digits = tmp_path / "folder"
    by_digits.mkdir()
    for which in (cache.identity.value.hex()[:8], str(cache.identity), os.path.basename(cache.path)):
        assert run("export", which, "-o", by_digits)[0] == 0  # under its own name: what the folder there needs
        assert kept(by_digits)[0].name == os.path.basename(cache.path)
    assert facts(open_or_build(image, cache_dir=by_digits)) == facts(cache)


def test_export_as_json_lines(run: Run, image: Path, folder: Path, tmp_path: Path) -> None:
    run("build", image)
    status, out, _ = run("export", "--json", image)
    rows = [json.loads(line) for line in out.splitlines()]
    cache = open_or_build(image, cache_dir=folder)
    (main,) = [row for row in rows if row["members"][0]["linkage_name"] == "main"]
    found = cache.find(int(main["address"], 16))
    assert status == 0 and found is not None and found.size_bytes == main["size_bytes"]
    assert (
        main["members"][0]["file"].endswith(".cpp") and main["members"][0]["line"] == cache.frames(found.start)[-1].line
    )
    run("export", "--json", image, "-o", tmp_path / "lines")
    assert (tmp_path / "lines").read_text() == out


def test_what_cannot_be_exported_or_imported(run: Run, image: Path, folder: Path, tmp_path: Path) -> None:
    status, _, err = run("export", "00ff", "-o", tmp_path / "x")
    assert status == 1 and f"00ff: no symcache in {folder}" in err and "hint: 'icf cache list'" in err
    run("build", image, OTHER)
    status, _, err = run("export", "build-id-", "-o", tmp_path / "x")
    assert status == 1 and "is not one symcache but build-id-" in err
    status, _, err = run("export", image)
    assert status == 1 and "a symcache is binary" in err
    path = kept(folder)[0]
    path.write_bytes(path.read_bytes()[:-8] + b"damaged!")
    for args in (("export", path.name, "-o", tmp_path / "x"), ("import", path)):
        status, _, err = run(*args)
        assert status == 1 and "the file is damaged" in err
    assert run("import", image)[0] == 1 and not (tmp_path / "x").exists()


def test_usage(run: Run) -> None:
    assert run()[0] == 2 and run("build")[0] == 2 and run("frobnicate")[0] == 2
    status, out, _ = run("--help")
    assert status == 0 and "icf cache prune --max-size 1G" in out


def test_one_hostile_file_hides_no_other(run: Run, folder: Path, tmp_path: Path) -> None:
    """Sizes that contradict, with checksums that fit: refused, by `import` too, and the next file is still checked."""
    image = Path(shutil.copy(ROOT / "testdata/shop/shop.gold", tmp_path / "shop"))
    assert run("build", image)[0] == 0
    (entry,) = folder.glob("*.symcache")
    container = Container.open(entry)
    sections = {name: bytes(container.section(name)) for name in container.names}
    sizes = np.frombuffer(sections["sizes"], np.uint32).copy()
    refused = 0
    for row in range(len(sizes) - 1):
        hostile = sizes.copy()
        hostile[row] = 1 << 20
        content = b"".join(pack(container.head, sections | {"sizes": hostile.tobytes()}, container.origin))
        (tmp_path / "hostile.symcache").write_bytes(content)
        refused += run("import", tmp_path / "hostile.symcache", cache_dir=tmp_path / "other")[0]
    assert refused == len(sizes) - 1
    (folder / f"content-00-{'11' * 16}.symcache").write_bytes(entry.read_bytes())
    entry.write_bytes(content)
    status, out, _ = run("verify")
    assert status == 1 and len(out.splitlines()) == 2


def test_an_image_that_no_record_can_hold(run: Run, tmp_path: Path) -> None:
    """A symbol's size that reaches beyond all code is cut; the readers of the file accept what was written."""
    image = Path(shutil.copy(ROOT / "testdata/shop/shop.gold", tmp_path / "shop"))
    content = bytearray(image.read_bytes())
    with Image.open(image) as opened:
        table = next(section for section in opened.sections if section.name == ".symtab")
        rows = opened.symbols.functions.tolist()
        places = {opened.symbols.name(row): int(opened.symbols.value[row]) for row in rows}
        for row in rows[::3]:
            at = table.offset + 24 * row + 16
            content[at : at + 8] = ((1 << 64) - 1 - int(opened.symbols.value[row])).to_bytes(8, "little")
    image.write_bytes(content)
    status, _, err = run("build", image)
    assert (status, err) == (0, "")
    assert run("verify")[0] == 0
    for name, vaddr in places.items():
        found = open_or_build(str(image)).find(vaddr)
        members = found.members if found is not None else ()
        assert name in {each for member in members for each in (member.name, *member.aliases)}


def test_what_the_readers_refuse_is_not_kept(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*columns: memoryview) -> int:
        size_bytes = put_records(*columns)
        columns[9][:12] = b"\xff" * 12
        return size_bytes

    monkeypatch.setattr(sections, "put_records", damaged)
    status, _, err = run("build", ROOT / "testdata/shop/shop.gold")
    assert status == 1 and err.startswith("icf: error: ") and "does not fit the record of a symcache" in err
    assert len(err.splitlines()) == 1 and not list(folder.glob("*.symcache"))


def test_debug_information_beyond_the_limit_is_said(run: Run, tmp_path: Path) -> None:
    """Zeros that 4 bytes are 128 KiB of: little memory, and a line that names the variable."""
    content = bytearray((ROOT / "testdata/shop/shop.gold").read_bytes())
    count = 1 << 13
    blocks = [(idx == count - 1) | 1 << 1 | (128 << 10) << 3 for idx in range(count)]
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3) + b"".join(each.to_bytes(3, "little") + b"\0" for each in blocks)
    bomb = struct.pack("<IIQQ", 2, 0, count << 17, 1) + frame
    with Image.open(ROOT / "testdata/shop/shop.gold") as image:
        info = next(section for section in image.sections if section.name == ".debug_info")
        table, size_bytes = image.headers.shoff, 64 * len(image.sections)
    headers = bytearray(content[table : table + size_bytes])
    struct.pack_into("<Q", headers, 64 * info.index + 8, 0x800)
    struct.pack_into("<QQ", headers, 64 * info.index + 24, len(content), len(bomb))
    bomb += bytes(-(len(content) + len(bomb)) % 8)
    struct.pack_into("<Q", content, 40, len(content) + len(bomb))
    path = tmp_path / "bomb"
    path.write_bytes(bytes(content) + bomb + bytes(headers))
    status, _, err = run("build", path)
    assert status == 0 and "icf: warning: " in err and "the limit is" in err and "ICF_INFLATE_RATIO" in err
