"""`icf link` where what the pass needs is left out, or lies elsewhere: ThinLTO caches, `--lto-obj-path`, `-s`."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from icf.debugfiles.stripped import STRIPPED_HINT
from icf.elf.image import Image
from tests.e2e.linkers import LINKERS, linker_of
from tests.e2e.links import CLASSES, Link, classes
from tests.e2e.program import icf
from tests.support.icf_command import icf_command
from tests.support.toolchain import tool

OBJECTS = ("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "prog")


@LINKERS
@pytest.mark.parametrize("place", ["cache", "obj-path", "both", "save-temps"])
def test_objects_of_thin_lto_are_read_where_they_are(link: Link, tmp_path: Path, linker: str, place: str) -> None:
    """The second link finds what the first left."""
    choice, is_lld = linker_of(linker), linker == "lld"
    cache = "-Wl,--thinlto-cache-dir=cache" if is_lld else "-Wl,-plugin-opt,cache-dir=cache"
    objects = "-Wl,--lto-obj-path=made.o" if is_lld else "-Wl,-plugin-opt=obj-path=made.o"
    temporary = "-Wl,-plugin-opt=save-temps"
    words = {"cache": [cache], "obj-path": [objects], "both": [cache, objects], "save-temps": [temporary]}[place]
    assert link("-O2", "-ffunction-sections", "-flto=thin", "-c", "fruit.cpp", "basket.cpp").returncode == 0
    for _ in range(2 if "cache" in words[0] else 1):
        done = link(choice, "-flto=thin", *words, *OBJECTS, options=("--summary",))
        assert done.returncode == 0, done.stderr
        assert "unresolved" not in done.stderr and "3 object" in done.stderr
        found = [{name.partition(".")[0] for name in names} for names in classes(tmp_path / "prog")]
        assert found == CLASSES


@pytest.mark.parametrize(
    ("linker", "flag"),
    [
        *product(["lld"], ["-s", "-Wl,-O1,-s", "-Wl,--strip-all", "-Xlinker -s", "@strip.rsp", "-Wl,-S"]),
        *product(["gold", "mold"], ["-s", "-Wl,-S"]),
    ],
)
def test_a_link_that_strips_gets_its_tables(link: Link, tmp_path: Path, linker: str, flag: str) -> None:
    choice = linker_of(linker)
    (tmp_path / "strip.rsp").write_text("-s '-Wl,-z,now'")
    words = [choice, *flag.split(), *OBJECTS]
    assert link(*words, plain=True).returncode == 0
    with Image.open(tmp_path / "prog") as image:
        plain = {s.name: s for s in image.sections}
        loaded = {s.name: (s.vaddr, bytes(image.stored(s))) for s in image.sections if s.is_alloc}
    done = link(*words, options=("--summary",))
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "prog") as image:
        made = {s.name for s in image.sections}
        for name, (vaddr, content) in loaded.items():
            section = image.section(name)
            assert section is not None and section.vaddr == vaddr
            assert name == ".note.gnu.build-id" or bytes(image.stored(section)) == content
    # where -S leaves symbols, folded functions without debug information get some
    assert made - set(plain) <= {".debug_dcall", ".debug_vcall", ".debug_icf", ".debug_info", ".debug_abbrev"}
    assert classes(tmp_path / "prog") == CLASSES
    assert subprocess.run([tmp_path / "prog"]).returncode == 0
    assert "all agree" in icf("verify", tmp_path / "prog")
    assert sorted(path.name for path in tmp_path.glob("*prog*")) == ["prog"]


def test_in_image_strips(link: Link, tmp_path: Path) -> None:
    assert link("-s", *OBJECTS).returncode == 0
    expected = (tmp_path / "prog").read_bytes()
    assert link(*OBJECTS, options=("--in-image",)).returncode == 0
    assert (tmp_path / "prog").read_bytes() == expected


def test_what_is_stripped_after_the_pass_gets_a_hint_that_helps(link: Link, tmp_path: Path) -> None:
    assert link(*OBJECTS).returncode == 0
    subprocess.run([tool("strip"), "-s", "prog"], cwd=tmp_path, check=True)
    help_line = STRIPPED_HINT
    before = (tmp_path / "prog").read_bytes()
    for words in (["pass", "prog"], ["verify", "prog"], ["resolve", "-e", "prog"], ["disasm", "-e", "prog", "0x10"]):
        command = [*icf_command(), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert help_line in done.stderr
    assert (tmp_path / "prog").read_bytes() == before


def test_nothing_merged_is_said(link: Link, tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text("int main() { return 0; }")
    assert link("-O2", "-g", "-ffunction-sections", "-c", "one.cpp").returncode == 0
    assert link("-nostdlib", "-Wl,--icf=all,-e,main", "one.o", "-o", "one").returncode == 0
    assert icf("verify", tmp_path / "one") == f"{tmp_path / 'one'}: no merged functions recorded\n"
