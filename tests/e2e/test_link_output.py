"""`icf link` and the file that it is about: what appears under its name, and when; what it leaves alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.linkers import LINKERS, linker_of
from tests.e2e.links import CLASSES, Link, classes
from tests.support.toolchain import tool

ICF_LINK = [sys.executable, "-m", "icf", "link"]
WORDS = ("-Wl,--icf=all", "fruit.o", "basket.o", "-o", "prog")


@pytest.mark.parametrize(
    "words",
    [
        ["-Wl,--version"],
        ["-v"],
        ["-###", "fruit.o"],
        ["--print-search-dirs"],
        ["-print-prog-name=ld"],
        ["-E", "fruit.cpp"],
        ["-c", "fruit.cpp", "-o", "other.o"],
        ["-fsyntax-only", "fruit.cpp"],
        ["-Wl,--version", "fruit.o", "basket.o"],
        ["-Wl,--thinlto-index-only", "thin.o"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("old", [True, False], ids=["a.out", "nothing"])
def test_a_probe_does_nothing_to_an_old_program(link: Link, tmp_path: Path, words: list[str], old: bool) -> None:
    assert link("-flto=thin", "-c", "fruit.cpp", "-o", "thin.o", plain=True).returncode == 0
    assert link(*WORDS[:-1], "program", plain=True).returncode == 0
    program, found = tmp_path / "a.out", {}
    for plain in (True, False):
        program.unlink(missing_ok=True)
        if old:
            shutil.copy(tmp_path / "program", program)
        done = link("-Wl,--icf=all", *words, plain=plain)
        left = program.read_bytes() if program.exists() else None  # a driver deletes it when the linker fails
        found[plain] = done.returncode, done.stdout.count("\n"), done.stderr.count("\n"), left
    assert found[True] == found[False]


@LINKERS
@pytest.mark.parametrize("direct", [False, True], ids=["driver", "linker"])
def test_the_program_is_that_of_the_plain_link(link: Link, tmp_path: Path, linker: str, direct: bool) -> None:
    """All that is loaded and all debug information that was there; its inode is new, like after any link."""
    choice = linker_of(linker)
    words = ["-e", "main", "--icf=all", *WORDS[1:]] if direct else [choice, *WORDS]
    driver = f"./ld.{linker}" if direct else "clang++"
    assert link(*words, driver=driver, plain=True).returncode == 0
    with Image.open(tmp_path / "prog") as image:
        plain = {s.name: bytes(image.stored(s)) for s in image.sections if s.is_alloc or s.name == ".debug_line"}
        build_id = image.build_id
    assert link(*words, driver=driver).returncode == 0
    with Image.open(tmp_path / "prog") as image:
        assert {s.name: bytes(image.stored(s)) for s in image.sections if s.name in plain} == plain
        assert image.build_id == build_id and image.section(".debug_icf") is not None


@LINKERS
@pytest.mark.parametrize("flag", ["", "-flto", "-flto=thin"], ids=["objects", "LTO", "ThinLTO"])
def test_names_that_derive_from_the_output(link: Link, tmp_path: Path, linker: str, flag: str) -> None:
    """What compiler and linker name after the program, and what they write of its name, is as without us."""
    choice = linker_of(linker)
    options = ["-Wl,--dependency-file=prog.dep", "-Wl,-Map=prog.map", "-MMD", "-gsplit-dwarf", "-save-temps=obj"]
    options += ["-Wl,--time-trace"] if linker == "lld" else []
    options += ["-Wl,-plugin-opt=save-temps"] if flag else []
    words = [choice, "-O2", "-ffunction-sections", "-Wl,--icf=all", *filter(None, [flag]), *options]
    files, texts = {}, {}
    for plain in (True, False):
        folder = tmp_path / "bin"
        folder.mkdir()
        done = link(*words, "fruit.cpp", "basket.cpp", "-o", "bin/prog", plain=plain)
        assert done.returncode == 0, done.stderr
        moved = [tmp_path / "prog.dep", tmp_path / "prog.map"]
        files[plain] = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        texts[plain] = [path.read_text() for path in moved], done.stdout, done.stderr
        assert not any(b".icf-link-" in path.read_bytes() for path in (*folder.rglob("*.*"), *moved) if path.is_file())
        shutil.rmtree(folder)
    # lld compiles an empty module more where it is to leave its objects
    assert files[True] <= files[False] if flag and linker == "lld" else files[True] == files[False]
    dependencies, link_map = texts[False][0]
    assert dependencies.startswith("bin/prog:")
    if not flag:
        assert texts[True] == texts[False]
    elif linker == "lld":
        assert "prog.lto." in link_map


def test_a_link_that_makes_assembly_leaves_it(link: Link, tmp_path: Path) -> None:
    """There is no program then, only a file beside it."""
    assert link("-O2", "-ffunction-sections", "-flto", "-c", "fruit.cpp", "basket.cpp", plain=True).returncode == 0
    words = ("-flto", "-fuse-ld=lld", "-B.", "-Wl,--icf=all", "-Wl,--lto-emit-asm", "fruit.o", "basket.o", "-o", "asm")
    made: list[dict[str, bytes]] = []
    for plain in (True, False):
        done = link(*words, plain=plain)
        assert done.returncode == 0, done.stderr
        found = sorted(tmp_path.glob("asm*"))
        made.append({path.name: path.read_bytes() for path in found})
        for path in found:
            path.unlink()
    assert made[0] == made[1] and made[0]


def test_what_the_linker_says_of_its_output(link: Link, tmp_path: Path) -> None:
    (tmp_path / "fruit.ld").write_text("SECTIONS { .text : { *(.text*) } ASSERT(0, no) }")
    words = (*WORDS[:-1], "bin/prog", "-Wl,-T,fruit.ld", "-Wl,--no-such-option")
    plain = link(*words, plain=True)
    done = link(*words)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


@LINKERS
@pytest.mark.parametrize("old", [True, False], ids=["old file", "no file"])
def test_a_killed_link_leaves_the_old_file_or_the_new_one(link: Link, tmp_path: Path, linker: str, old: bool) -> None:
    """At no moment is there a program without tables under the name; what is left goes with the next link."""
    choice = linker_of(linker)
    program, before = tmp_path / "prog", b"the old file"
    command = [*ICF_LINK, "--", tool("clang++"), "-B.", choice, *WORDS]
    start = time.monotonic()
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    duration_s = time.monotonic() - start
    after = program.read_bytes()
    for number in [signal.SIGKILL] * int(os.environ.get("ICF_KILLS", "4")) + [signal.SIGTERM, signal.SIGINT]:
        program.unlink(missing_ok=True)
        if old:
            program.write_bytes(before)
        left = set(tmp_path.glob(".icf-link-*"))  # by SIGKILL: the next link removes it, if it gets as far
        with subprocess.Popen(command, cwd=tmp_path, start_new_session=True) as process:
            time.sleep(random.uniform(0.3, 1.0) * duration_s)
            os.killpg(process.pid, number)
        found = program.read_bytes() if program.exists() else None
        assert found in ((before if old else None), after)
        if number != signal.SIGKILL:
            assert left.issuperset(tmp_path.glob(".icf-link-*"))
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert program.read_bytes() == after
    assert not list(tmp_path.glob(".icf-link-*"))


def test_a_wrapper_that_works_on_the_program_itself(link: Link, tmp_path: Path) -> None:
    """It is not known to hand its words on only, so the linker writes where the wrapper looks."""
    wrapper = tmp_path / "g++"
    wrapper.write_text(f'#!/bin/sh\n{tool("clang++")} "$@" && test -s prog && touch -d 2001-01-01 prog\n')
    wrapper.chmod(0o755)
    done = link("-fuse-ld=lld", "-B.", *WORDS, driver="./g++")
    assert (done.returncode, done.stderr) == (0, "")
    assert classes(tmp_path / "prog") == CLASSES


def test_a_program_by_the_name_of_a_driver_that_looks_for_the_output(link: Link, tmp_path: Path) -> None:
    """It fails when it does not find it; then the link is run again as it was given."""
    (tmp_path / "main.c").write_text(
        f"""
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int argc, char **argv) {{
            char command[65536] = "{tool("clang++")}";
            for (int i = 1; i < argc; i++) strcat(strcat(command, " "), argv[i]);
            return system(command) || access("prog", R_OK);
        }}"""
    )
    assert link("main.c", "-o", "g++", driver="clang++", plain=True).returncode in (0, 1)
    if not (tmp_path / "g++").exists():
        subprocess.run([tool("gcc", "cc"), "main.c", "-o", "g++"], cwd=tmp_path, check=True)
    done = link("-fuse-ld=lld", "-B.", *WORDS, driver="./g++")
    assert done.returncode == 0, done.stderr
    assert classes(tmp_path / "prog") == CLASSES


def test_a_folder_that_cannot_be_written_to(link: Link, tmp_path: Path) -> None:
    done = link(*WORDS[:-1], "nowhere/prog")
    plain = link(*WORDS[:-1], "nowhere/prog", plain=True)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_a_directory_of_a_link_that_still_runs_is_left_alone(link: Link, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    slow = tmp_path / "slow"
    wait = f"touch {ready}\nwhile ! test -e {go}; do sleep 0.1; done\n"
    slow.write_text(f'#!/bin/sh\n{wait}exec {tool("clang++")} "$@"\n')
    slow.chmod(0o755)
    command = [*ICF_LINK, "--", "./slow", "-fuse-ld=lld", "-B.", *WORDS]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        while not ready.exists():
            time.sleep(0.02)
        (held,) = tmp_path.glob(".icf-link-*")
        assert link(*WORDS[:-1], "other").returncode == 0
        assert held.exists()
        go.touch()
        assert process.wait() == 0
    assert classes(tmp_path / "prog") == CLASSES
