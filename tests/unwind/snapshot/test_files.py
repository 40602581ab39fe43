"""`icf cache fetch`: the files of listed modules, from trees of symbol servers and from servers on loopback."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.cli import main
from icf.pe.debugdirectory import codeview_of
from icf.pe.identity import read_identity
from icf.pe.keys import image_key, pdb_key
from icf.remote import fetch
from tests.support import pe
from tests.support.paths import ROOT
from tests.support.servers import answering, hanging, http_folder, ok, sending
from tests.support.toolchain import lasting_folder, run, tool


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has asked no server yet, and keeps nothing from other tests."""
    monkeypatch.setattr(fetch, "_failed", set())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield


@pytest.fixture(scope="module")
def keys() -> tuple[str, str]:
    """The keys of the program and of its PDB."""
    path = pe.program()
    identity = read_identity(str(path))
    codeview = codeview_of(identity.entries, str(path))
    assert codeview is not None
    return image_key(str(path), identity.timestamp, identity.image_size_bytes), pdb_key(codeview, str(path))


@pytest.fixture(scope="module")
def listed(keys: tuple[str, str]) -> Path:
    """The list of the program."""
    path = lasting_folder() / "modules.json"
    assert main(["snapshot", str(pe.program()), "-o", str(path)]) == 0
    return path


def published(tree: Path, keys: tuple[str, str]) -> Path:
    """A tree that has the program and its PDB."""
    for key, path in zip(keys, (pe.program(), pe.program().with_suffix(".pdb")), strict=True):
        (tree / key).parent.mkdir(parents=True)
        shutil.copy(path, tree / key)
    return tree


def fetched(listed: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The path or problem of each file, and what is reported."""
    capsys.readouterr()
    main(["cache", "fetch", "--json", str(listed)])
    out = capsys.readouterr()
    return [each["path"] or each["problem"] for each in json.loads(out.out)], out.err


def test_files_of_a_tree(
    tmp_path: Path, keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    tree = published(tmp_path / "tree", keys)
    for path in (str(tree), f"srv*{tree}", f"/nowhere;symsrv*symsrv.dll*{tree}"):
        monkeypatch.setenv("_NT_SYMBOL_PATH", path)
        assert fetched(listed, capsys) == ([str(tree / key) for key in keys], "")
    monkeypatch.setenv("_NT_SYMBOL_PATH", str(pe.program().parent))  # a directory without a tree
    assert fetched(listed, capsys)[0] == [str(pe.program()), str(pe.program().with_suffix(".pdb"))]
    monkeypatch.delenv("_NT_SYMBOL_PATH")
    assert fetched(listed, capsys) == ([f"{key}: not in _NT_SYMBOL_PATH" for key in keys], "")


def test_a_tree_in_lower_case_and_one_of_two_tiers(
    tmp_path: Path, keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    lower = (keys[0].lower(), keys[1].lower())
    assert lower != keys
    tree = published(tmp_path / "tree", lower)
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{tree}")
    assert fetched(listed, capsys) == ([str(tree / key) for key in lower], "")
    tiers = published(tmp_path / "tiers", (f"ap/{keys[0]}", f"ap/{keys[1]}"))
    (tiers / "index2.txt").touch()
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{tiers}")
    assert fetched(listed, capsys) == ([str(tiers / "ap" / key) for key in keys], "")


def test_pointers_lead_to_files_and_other_forms_are_reported(
    tmp_path: Path, keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    image, pdb = (tmp_path / "tree" / key for key in keys)
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{tmp_path}/tree")
    for path in (image, pdb):
        path.parent.mkdir(parents=True)
        (path.parent / "file.ptr").write_text(f"PATH:{pe.program().with_suffix(path.suffix)}\r\n")
    assert fetched(listed, capsys) == ([str(pe.program()), str(pe.program().with_suffix(".pdb"))], "")
    (image.parent / "file.ptr").write_text(f"PATH:{pe.program().with_suffix('.pdb')}")  # it is checked as any other
    (pdb.parent / "file.ptr").write_text("MSG: removed\nin 2021 \x1b[31m")
    found, said = fetched(listed, capsys)
    assert found == [f"{key}: not in _NT_SYMBOL_PATH" for key in keys]
    assert f"{pe.program().with_suffix('.pdb')}: PE header+0x0: is not a PE image: not used" in said
    assert f"{pdb.parent}/file.ptr: 'MSG: removed in 2021  [31m' names no file of this machine: not used" in said
    (pdb.parent / "file.ptr").unlink()
    (pdb.parent / "app.pd_").write_bytes(b"MSCF")
    assert (
        f"{pdb.parent}/app.pd_: is compressed: not used; 'cabextract' makes app.pdb of it" in fetched(listed, capsys)[1]
    )


@pytest.mark.parametrize("spell", [str, str.lower], ids=["windows", "lower case"])
def test_files_of_a_server_are_kept(
    spell: type[str], tmp_path: Path, keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with http_folder(published(tmp_path / "tree", (spell(keys[0]), spell(keys[1])))) as url:
        for path, kept in (
            (f"srv*{tmp_path}/mine*{url}", tmp_path / "mine"),
            (f"cache*{tmp_path}/all;srv*{url}", tmp_path / "all"),
            (f"srv*{url}", tmp_path / "cache/icf-symbols"),
            (url, tmp_path / "cache/icf-symbols"),
        ):
            monkeypatch.setenv("_NT_SYMBOL_PATH", path)
            assert fetched(listed, capsys) == ([str(kept / key) for key in keys], "")
            assert (kept / keys[1]).stat().st_mode & 0o777 == 0o400
    assert fetched(listed, capsys) == ([str(tmp_path / "cache/icf-symbols" / key) for key in keys], "")  # offline


def test_files_of_another_link_are_refused_with_both_identities(
    tmp_path: Path, keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A tree whose files have been replaced by those of a build with one more constant."""
    tree = published(tmp_path / "tree", keys)
    source = (pe.program().parent / "app.cpp").read_text().replace("x + 1", "x + 7")
    (tmp_path / "app.cpp").write_text(source)
    flags = ["--target=x86_64-pc-windows-msvc", "-gcodeview", "-g", "-O1"]
    run(tool("clang++"), *flags, "-c", "app.cpp", "-o", "app.obj", folder=tmp_path)
    link = ["/debug", "/nodefaultlib", "/entry:mainCRTStartup", "/subsystem:console", "/Brepro"]
    run(tool("lld-link"), *link, "app.obj", "/out:app.exe", "/pdb:app.pdb", folder=tmp_path)
    for key, name in zip(keys, ("app.exe", "app.pdb"), strict=True):
        shutil.copy(tmp_path / name, tree / key)
    monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{tree}")
    found, report = fetched(listed, capsys)
    assert found == [f"{key}: not in _NT_SYMBOL_PATH" for key in keys]
    image, pdb = report.splitlines()
    digits = keys[0].split("/")[1][:8].lower()
    assert image.startswith(f"icf: warning: {tree}/{keys[0]}: has time stamp 0x")
    assert image.endswith(f", not time stamp 0x{digits} and size 0x{keys[0].split('/')[1][8:]}: not used")
    assert pdb.startswith(f"icf: warning: {tree}/{keys[1]}: GUID ")
    assert pdb.endswith(f", not GUID {keys[1].split('/')[1][:32]} age 1: not used")


def test_a_server_that_lies_or_hangs_costs_one_line(
    keys: tuple[str, str], listed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.3")
    for answer, problem in (
        (hanging, "sends less than 100 KB in 0.3 s"),
        (sending(ok(b"MZ nonsense")), "PE header+0x0: is not a PE image"),
    ):
        with answering(answer) as url:
            monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{url}")
            found, report = fetched(listed, capsys)
        assert found == [f"{key}: not in _NT_SYMBOL_PATH" for key in keys]
        assert report == f"icf: warning: {url}/{keys[0]}: {problem}: not used\n"
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_an_image_without_its_pdb_has_names_once_a_server_has_it(
    tmp_path: Path, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = shutil.copy(pe.program(), tmp_path / "app.exe")
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "symcaches"))

    def name() -> str:
        capsys.readouterr()
        main(["symbolize", "-e", str(image), "0x140001000"])
        out = capsys.readouterr()
        assert out.err == ""
        return out.out.splitlines()[0]

    (tmp_path / "tree").mkdir()
    with http_folder(tmp_path / "tree") as url:
        assert name() == "??"
        monkeypatch.setenv("_NT_SYMBOL_PATH", f"srv*{tmp_path}/mine*{url}")
        assert name() == "??"
        published(tmp_path / "tree", keys)
        absent = tmp_path / "cache/icf-symbols" / keys[1]
        assert absent.stat().st_size == 0 and name() == "??"  # the server is not asked again so soon
        os.utime(absent, (time.time() - 700,) * 2)
        assert name() != "??"
    files = list((tmp_path / "symcaches").glob("*.symcache"))
    before = [each.stat().st_ino for each in files]
    assert name() != "??" and [each.stat().st_ino for each in files] == before  # what is kept is used


def test_the_files_of_elf_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = shutil.copy(ROOT / "testdata/shop/shop.gold", tmp_path / "shop")
    run("objcopy", "--only-keep-debug", image, tmp_path / "shop.debug")
    run("strip", image)
    (tmp_path / "modules").write_text(f'[{{"path": "{image}"}}, {{"path": "/nowhere/x", "build_id": "abcd"}}]')
    assert main(["cache", "fetch", str(tmp_path / "modules")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"image  {image}: {image}",
        f"debug  {image}: missing: no file with its debug information",
        "image  /nowhere/x: missing: /nowhere/x: no such file",
    ]
    run("objcopy", f"--add-gnu-debuglink={tmp_path}/shop.debug", image)
    (tmp_path / "modules").write_text(f'[{{"path": "{image}"}}]')
    assert main(["cache", "fetch", str(tmp_path / "modules")]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"debug  {image}: {tmp_path}/shop.debug"
