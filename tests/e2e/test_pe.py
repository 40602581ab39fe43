"""PE images with PDBs, end to end: `icf symbolize` and `icf resolve` beside llvm-symbolizer and the sources."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from icf.pe.image import PeImage
from tests.e2e.windows_answers import addresses_of, answers, icf
from tests.support.icf_command import icf_command
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import SHOP, compile_windows, library_and_user, link_windows, shop


@cache
def optimized() -> Path:
    return link_windows(lasting_folder(), compile_windows(SHOP, "-O2", "-gcolumn-info"), name="optimized")


@pytest.mark.parametrize("name", ["shop", "optimized", "user"])
def test_every_address_is_that_of_llvm_symbolizer_or_merged(name: str, tmp_path: Path) -> None:
    path = library_and_user()[1] if name == "user" else optimized() if name == "optimized" else shop()
    asked = "\n".join(map(hex, addresses_of(path)))
    done = subprocess.run(
        [tool("llvm-symbolizer"), f"--obj={path}"], input=asked, capture_output=True, text=True, check=True
    )
    ours = answers(icf("symbolize", "-e", path, "--candidates", "--cache-dir", tmp_path, stdin=asked))
    theirs = answers(done.stdout)
    merged = 0
    for address, found, (expected,) in zip(asked.split(), ours, theirs, strict=True):
        merged += len(found) > 1
        if expected[-1].endswith("??:0:0"):  # padding between functions, and what has no lines
            continue
        if len(found) == 1:
            assert found == [expected], address
        else:  # llvm-symbolizer shows the name of one of the members, and the line of another
            of_frames = zip(*(each for each in found if len(each) == len(expected)), strict=True)
            for frames, theirs_here in zip(of_frames, expected, strict=True):
                names, places = zip(*(frame.rsplit(" ", 1) for frame in frames), strict=True)
                name, place = theirs_here.rsplit(" ", 1)
                assert name in names and place in places, address
    assert merged > 50 or name == "user"


def test_each_member_has_its_own_lines(tmp_path: Path) -> None:
    lines = SHOP.splitlines()
    asked = "\n".join(map(hex, addresses_of(shop())))
    said = answers(icf("symbolize", "-e", shop(), "--candidates", "--cache-dir", tmp_path, stdin=asked))
    merged = {frames[-1] for found in said if len(found) > 1 for frames in found}
    declared = {
        "discount(int)": "int discount(int",
        "discount(unsigned int)": "unsigned discount(unsigned",
        "sales::tax(int)": "sales { KEEP int tax",
        "costs::tax(int)": "costs { KEEP int tax",
        "Book::price(int)": "int Book::price",
        "Game::price(int)": "int Game::price",
    }
    shown = {frame.rsplit(" ", 1)[0]: int(frame.rsplit(":", 2)[1]) for frame in merged}
    assert {name for name, text in declared.items() if text in lines[shown[name] - 1]} == set(declared)


def test_of_mingw_a_pdb_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("""int twice(int by) { return by * 2; }
    extern "C" int mainCRTStartup() { return twice(4); }""")
    compiled, image = tmp_path / "a.o", tmp_path / "a.exe"
    run(tool("clang++"), "--target=x86_64-w64-mingw32", "-g", "-gcodeview", "-c", tmp_path / "a.cpp", "-o", compiled)
    pdb = f"--pdb={tmp_path / 'a.pdb'}"
    run(tool("ld.lld"), "-m", "i386pep", "-e", "mainCRTStartup", compiled, "-o", image, pdb)
    with PeImage.open(str(image)) as opened:
        start = opened.code_sections[0].vaddr
    (tmp_path / "stack").write_text(f"{start + 4:#x}\n")
    done = run(*icf_command(), "resolve", "-e", image, tmp_path / "stack", check=False)
    assert f"twice(int) ({tmp_path / 'a.cpp'}:1)" in done.stdout and "hint: run 'icf pass" in done.stderr
