"""Debug information apart from the image: stripped programs, their debug files, and which file gets the tables."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.fruit import FRUIT, STATIC_FRUIT, assert_all_named, toolchains
from tests.e2e.program import icf
from tests.e2e.workshop import LLD, USUAL, Workshop
from tests.support.toolchain import run, tool


def split_off(image: Path, how: str = "objcopy") -> Path:
    """Move the debug information of `image` to a file beside it."""
    debug = image.with_name(f"{image.name}.debug")
    if how == "eu-strip":
        run(tool("eu-strip"), "-f", debug, image)
        return debug
    run(tool("objcopy"), "--only-keep-debug", image, debug)
    run(tool("strip"), image)
    run(tool("objcopy"), f"--add-gnu-debuglink={debug}", image)
    return debug


def tables(path: Path, *options: str | Path) -> list[object]:
    """What `icf dump` says of an image, but for file names, DIEs and linkage names' order."""
    document = json.loads(icf("dump", path, *options, "--json"))
    for key in ("image", "debug_file"):
        document.pop(key, None)
    return [document[key] for key in sorted(document)]


def without_build_id(image: Path) -> None:
    run(tool("objcopy"), "--remove-section=.note.gnu.build-id", image)


@toolchains(*USUAL)
@pytest.mark.parametrize("how", ["objcopy", "eu-strip"])
def test_the_tables_go_to_the_debug_file(workshop: Workshop, how: str) -> None:
    program = workshop.build(FRUIT)
    whole = Path(shutil.copy(program.folded, program.folded.with_name("whole")))
    icf("pass", whole)
    debug = split_off(program.folded, how)
    program.add_tables()
    assert ".debug_icf" not in run("readelf", "-SW", program.folded).stdout
    assert ".debug_icf" in run("readelf", "-SW", debug).stdout
    assert tables(program.folded) == tables(whole)
    assert "all agree with the code" in icf("verify", program.folded)
    assert_all_named(program)


def test_debuggers_still_take_the_debug_file(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    without_build_id(program.folded)
    split_off(program.folded)
    before = program.folded.read_bytes()
    program.add_tables()
    after = program.folded.read_bytes()
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    assert len(after) == len(before) and 0 < len(changed) <= 4 and changed[-1] - changed[0] < 4
    says = run(tool("gdb"), "-batch", "-ex", "info line main", program.folded)
    assert "main.cpp" in says.stdout and "CRC" not in says.stderr


def test_lines_come_from_the_debug_file(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    split_off(program.folded)
    program.add_tables()
    places = {frame["linkage_name"]: frame["file"] for frames in program.resolve() for frame in frames}
    assert places["_Z6applesv"].endswith("main.cpp") and places["main"].endswith("main.cpp")


def test_a_second_run_changes_neither_file(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    program.add_tables()
    first = program.folded.read_bytes(), debug.read_bytes()
    assert "has its tables already" in icf("pass", program.folded)
    assert (program.folded.read_bytes(), debug.read_bytes()) == first


@toolchains(*USUAL)
def test_tables_in_the_image_need_no_debug_file(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    before = debug.read_bytes()
    icf("pass", program.folded, "--in-image")
    assert debug.read_bytes() == before
    assert "all agree with the code" in icf("verify", program.folded)
    with_debug = tables(program.folded, "--folds")
    debug.unlink()
    assert tables(program.folded, "--folds") == with_debug
    names = {frame["linkage_name"] for frames in program.resolve() for frame in frames}
    assert {"_Z6applesv", "_Z5pearsv", "_Z11wash_applesv", "_Z10wash_pearsv"} <= names


def test_a_tree_of_build_ids(workshop: Workshop, tmp_path: Path) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    run(tool("objcopy"), "--remove-section=.gnu_debuglink", program.folded)
    build_id = json.loads(icf("dump", debug, "--json"))["build_id"]
    filed = tmp_path / "root" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    filed.parent.mkdir(parents=True)
    debug.rename(filed)
    before = program.folded.read_bytes()
    icf("pass", program.folded, "--debug-root", tmp_path / "root")
    assert program.folded.read_bytes() == before
    assert "all agree with the code" in icf("verify", program.folded, "--debug-root", tmp_path / "root")


def test_new_files_beside_the_old(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    before = program.folded.read_bytes(), debug.read_bytes()
    icf("pass", program.folded, "-o", program.folded.with_name("new"), status=1)
    out = program.folded.with_name("out")
    out.mkdir()
    icf("pass", program.folded, "-o", out / "program")
    assert (program.folded.read_bytes(), debug.read_bytes()) == before
    assert sorted(os.listdir(out)) == ["program", "program.debug"]
    assert "all agree with the code" in icf("verify", out / "program")
    assert (out / "program.debug").stat().st_mode == debug.stat().st_mode
    assert not [name for name in os.listdir(out.parent) if name.startswith(".")]


@pytest.mark.parametrize("named", [True, False])
def test_a_file_of_another_link_is_refused(workshop: Workshop, capsys: pytest.CaptureFixture[str], named: bool) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    split_off(program.unfolded).replace(debug)
    before = program.folded.read_bytes(), debug.read_bytes()
    options = ("--debug-file", debug) if named else ()
    icf("pass", program.folded, *options, status=1)
    says = capsys.readouterr().err.splitlines()
    assert says[0].startswith(f"icf: error: {debug}: does not belong to {program.folded}: build id ")
    assert (program.folded.read_bytes(), debug.read_bytes()) == before
    icf("resolve", "-e", program.folded, "/dev/null")
    assert f"icf: warning: {debug}: does not belong to " in capsys.readouterr().err


@pytest.mark.parametrize("build_ids", [True, False])
def test_a_changed_debug_file_is_refused(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], build_ids: bool
) -> None:
    program = workshop.build(FRUIT)
    if not build_ids:
        without_build_id(program.folded)
    debug = split_off(program.folded)
    with debug.open("ab") as file:
        file.write(b"\0")
    icf("pass", program.folded, status=1)
    assert ": CRC 0x" in capsys.readouterr().err


def test_a_run_killed_between_the_files_is_mended(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    split_off(program.folded)
    before = program.folded.read_bytes()
    program.add_tables()
    after = program.folded.read_bytes()
    program.folded.write_bytes(before)
    assert "has its tables already" in icf("pass", program.folded)
    assert program.folded.read_bytes() == after != before


def test_a_debug_file_alone_is_no_image(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    for verb in ("pass", "verify"):
        icf(verb, debug, status=1)
        assert "is a separate debug file, without code" in capsys.readouterr().err


@toolchains(LLD)
@pytest.mark.parametrize("kind", ["zlib", "zstd"])
def test_compressed_debug_files(workshop: Workshop, kind: str) -> None:
    program = workshop.build(FRUIT)
    debug = split_off(program.folded)
    packed = debug.with_name("packed")
    run(tool("llvm-objcopy"), f"--compress-debug-sections={kind}", debug, packed)
    packed.replace(debug)
    run(tool("objcopy"), "--remove-section=.gnu_debuglink", program.folded)
    run(tool("objcopy"), f"--add-gnu-debuglink={debug}", program.folded)
    program.add_tables()
    # the tables themselves, too
    run(tool("llvm-objcopy"), f"--compress-debug-sections={kind}", debug, packed)
    packed.replace(debug)
    assert "C" in next(line for line in run("readelf", "-SW", debug).stdout.splitlines() if ".debug_icf" in line)
    assert_all_named(program)
    assert "all agree with the code" in icf("verify", program.folded)
    assert "both readers agree" in icf("verify", "--second-reader", program.folded)


def test_static_functions_are_declared_in_the_debug_file(workshop: Workshop) -> None:
    program = workshop.build(STATIC_FRUIT, ["-g0"])
    debug = split_off(program.folded)
    icf("pass", program.folded, "--icf-report", program.report)
    assert "all agree with the code" in icf("verify", program.folded)
    assert "<functions without debug information>" in run("readelf", "--debug-dump=info", debug).stdout
