"""The pass as a whole: what it leaves alone, what it writes twice the same, what a failure leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icf.debugfiles.stripped import STRIPPED_HINT
from icf.elf.image import Image
from icf.elf.types import SHDR
from icf.errors import IcfError
from icf.tables.load import load_tables
from linkpass.pipeline import Options, Summary, run_pass
from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Toolchain
from tests.linkpass.programs import BASE, CLANG_MOLD, FOUR, MARKET, build
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

SHOP = ROOT / "testdata" / "shop"
COMPRESSED = [f"-Wl,--compress-debug-sections={kind}" for kind in ("zlib", "zstd")]


@pytest.fixture(params=["shop.gold", "shop.lld"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A program without tables."""
    return Path(shutil.copy(SHOP / request.param, tmp_path))


def do_pass(path: Path, out: Path | None = None, threads: int | None = None) -> Summary:
    return run_pass(str(path), Options(out=None if out is None else str(out), threads=threads))


def test_threads_do_not_show_in_the_output(shop: Path, tmp_path: Path) -> None:
    for threads in (1, 2, 7):
        do_pass(shop, tmp_path / str(threads), threads)
    outs = [(tmp_path / str(threads)).read_bytes() for threads in (1, 2, 7)]
    assert outs[0] == outs[1] == outs[2] != shop.read_bytes()


def test_the_hash_seed_does_not_show_in_the_output(shop: Path, tmp_path: Path) -> None:
    for seed in ("0", "1", "4711"):
        command = [sys.executable, "-c", "import sys; from icf import cli; sys.exit(cli.main())"]
        command += ["pass", "-q", str(shop), "-o", str(tmp_path / seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    outs = [(tmp_path / seed).read_bytes() for seed in ("0", "1", "4711")]
    assert outs[0] == outs[1] == outs[2]


def test_output_over_the_input_is_what_it_is_elsewhere(shop: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    do_pass(shop, elsewhere)
    before = os.stat(shop)
    do_pass(shop, shop)
    assert shop.read_bytes() == elsewhere.read_bytes()
    assert os.stat(shop).st_ino != before.st_ino  # whoever has the old one mapped keeps it
    do_pass(shop)  # and again: nothing changes
    assert shop.read_bytes() == elsewhere.read_bytes()


@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_a_symbolic_link_stays_one(shop: Path, tmp_path: Path, kind: str) -> None:
    expected = tmp_path / "expected"
    do_pass(shop, expected)
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "shop"
    if kind == "chain":
        (tmp_path / "bin" / "next").symlink_to(shop)
        link.symlink_to("next")
    else:
        link.symlink_to(shop if kind == "absolute" else f"../{shop.name}")
    do_pass(link)
    assert link.is_symlink() and not shop.is_symlink()
    assert shop.read_bytes() == expected.read_bytes()


def test_a_read_only_input_and_folder_with_output_elsewhere(shop: Path, tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    image = Path(shutil.move(shop, folder))
    image.chmod(0o555)
    folder.chmod(0o555)
    try:
        do_pass(image, tmp_path / "out")
        assert os.listdir(folder) == [image.name]
        assert (tmp_path / "out").stat().st_mode & 0o777 == 0o555
        if os.geteuid():  # root writes anywhere
            with pytest.raises(OSError):
                do_pass(image)
            assert os.listdir(folder) == [image.name]
    finally:
        folder.chmod(0o755)


def test_an_output_that_fails_its_check_replaces_nothing(tmp_path: Path) -> None:
    path = Path(shutil.copy(SHOP / "shop.lld", tmp_path))
    with Image.open(path) as image:
        data = image.section(".data")
        assert data is not None
        header = image.headers.shoff + data.index * SHDR.size
    damaged = bytearray(path.read_bytes())
    damaged[header + 24 : header + 32] = (0x28).to_bytes(8, "little")  # sh_offset: in the ELF header, at e_shoff
    path.write_bytes(damaged)
    with pytest.raises(IcfError, match=rf"^{path}: contents of section \.data differ from {path}$"):
        run_pass(str(path), Options())
    assert path.read_bytes() == damaged
    assert os.listdir(tmp_path) == [path.name]


def test_a_target_that_cannot_be_replaced(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    for out, problem in (
        (tmp_path / "folder", f"{tmp_path}/folder: is not a regular file, and cannot be replaced"),
        (tmp_path / "none" / "out", f"{tmp_path}/none: no such file or directory\n"),
        (shop / "out", f"{shop}: not a directory\n"),
    ):
        icf("pass", shop, "-o", out, status=1)
        error = capsys.readouterr().err
        assert error.startswith(f"icf: error: {problem}") and error.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before and os.listdir(tmp_path / "folder") == []


def test_a_report_that_is_not_there_or_none(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = shop.read_bytes()
    icf("pass", shop, "--icf-report", tmp_path / "none", status=1)
    assert capsys.readouterr().err == f"icf: error: {tmp_path}/none: no such file\n"
    report = tmp_path / "report"
    report.write_text("  removing identical section a.o:(.text.f)\n")
    icf("pass", shop, "--icf-report", report, status=1)
    assert (
        capsys.readouterr().err == f"icf: error: {report}: icf report+0x0: section is removed before one is selected\n"
    )
    assert shop.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["report", shop.name]


def test_mold_asks_for_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = build(tmp_path, CLANG_MOLD)
    icf("pass", link.image, status=1)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"icf: error: {link.image}: mold leaves no trace of ") and "--icf-report" in hint
    icf("pass", link.image, "--icf-report", link.report)
    icf("verify", link.image)


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_twice_with_the_report_is_once(toolchain: Toolchain, tmp_path: Path) -> None:
    link = build(tmp_path, toolchain)
    options = Options(icf_report=str(link.report))
    first = run_pass(str(link.image), options)
    once = link.image.read_bytes()
    second = run_pass(str(link.image), options)  # makes the tables anew
    assert link.image.read_bytes() == once
    assert not second.already_done and (second.records, second.members) == (first.records, first.members)
    third = run_pass(str(link.image), Options())  # finds them there
    assert link.image.read_bytes() == once
    assert third.already_done and (third.records, third.tail_calls) == (first.records, first.tail_calls)


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str)
@pytest.mark.parametrize("link_flag", COMPRESSED)
def test_compressed_debug_info(toolchain: Toolchain, link_flag: str, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = build(tmp_path / "plain", toolchain).image
    packed = build(tmp_path, toolchain, link_flags=(link_flag,)).image
    with Image.open(packed) as image:
        info = image.section(".debug_info")
        assert info is not None
        if not image.is_compressed(info):
            pytest.skip("the linker does not compress so")
    do_pass(plain)
    do_pass(packed)
    with Image.open(plain) as one, Image.open(packed) as other:
        assert bytes(one.contents(".debug_dcall")) == bytes(other.contents(".debug_dcall"))
        assert len(one.contents(".debug_info")) == len(other.contents(".debug_info"))
        info = other.section(".debug_info")
        assert info is not None and other.is_compressed(info)
    once = packed.read_bytes()
    do_pass(packed)
    assert packed.read_bytes() == once


@pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE], ids=str)
def test_an_image_without_merged_functions_gets_empty_tables(toolchain: Toolchain, tmp_path: Path) -> None:
    source = MARKET + "int main() { count(1); return total; }"
    link = build(tmp_path, toolchain, {"main.cpp": source, "base.cpp": BASE})
    summary = do_pass(link.image)
    assert (summary.merged_bodies, summary.records, summary.declarations_added) == (0, 0, 0)
    assert "no merged functions recorded" in icf("verify", link.image)
    with Image.open(link.image) as image:
        assert load_tables(image).present == (".debug_icf", ".debug_dcall", ".debug_vcall")


def test_an_image_without_debug_information_has_sound_tables(shop: Path) -> None:
    run(tool("strip"), "--strip-debug", shop)
    icf("pass", shop)
    assert "all agree with the code" in icf("verify", shop)


def test_a_stripped_image_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tool("strip"), "--strip-all", shop)
    before = shop.read_bytes()
    icf("pass", shop, status=1)
    assert capsys.readouterr().err == (
        f"icf: error: {shop}: is stripped: it has no symbols and no debug information\nhint: {STRIPPED_HINT}\n"
    )
    assert shop.read_bytes() == before


@pytest.mark.parametrize(
    ("size_bytes", "problem"),
    [
        (0, "file header+0x0: the file is empty"),
        (10, "ELF header+0xa"),
        (63, "ELF header+"),
    ],
)
def test_an_image_that_ends_in_its_header(
    shop: Path, size_bytes: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write_bytes(shop.read_bytes()[:size_bytes])
    icf("pass", shop, status=1)
    error = capsys.readouterr().err
    assert error.startswith(f"icf: error: {shop}: {problem}"[: len(str(shop)) + 24]) and error.count("\n") == 1


def test_an_image_without_section_headers(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(shop.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    shop.write_bytes(data)
    icf("pass", shop, status=1)
    error = capsys.readouterr().err
    assert error == f"icf: error: {shop}: has no section headers or names, a section cannot be added\n"
    assert shop.read_bytes() == data
