"""`icf link`: the whole of it is one word in front of a link command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.dumps import classes
from tests.e2e.link_sources import SOURCES
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD_ALONE, MOLD, Workshop

LINKERS = pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, MOLD, GCC_MOLD], ids=str, indirect=True)


@LINKERS
@pytest.mark.parametrize("debug", ["-g", "-g1", "-g0"])
def test_every_direct_call_is_named_at_any_debug_level(workshop: Workshop, debug: str) -> None:
    program = workshop.build(SOURCES, flags=[debug])
    objects = [*sorted(workshop.folder.glob("[amp]*.o")), workshop.folder / "sampler.o"]
    done = workshop.link_with_pass(program, objects, "-Wl,--icf=all")
    assert (done.returncode, done.stderr) == (0, "")
    assert "removing identical" not in done.stdout and "folding section" not in done.stdout
    verdicts = program.check()
    for name in ("_ZL4peelPi", "_ZL4washPi", "_ZL3cutPi", "_ZL5slicePi", "_Z6applesv", "_Z5pearsv"):
        assert verdicts[name] == {"unique"}, name


@LINKERS
def test_relocations_are_taken_out_again(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    plain = program.folded.stat().st_size
    objects = [*sorted(workshop.folder.glob("[amp]*.o")), workshop.folder / "sampler.o"]
    assert workshop.link_with_pass(program, objects, "-Wl,--icf=all").returncode == 0
    with Image.open(program.folded) as image:
        assert not [s.name for s in image.sections if s.name.startswith((".rela.debug", ".rela.text"))]
    assert program.folded.stat().st_size < plain + 4096


@LINKERS
def test_an_alias_is_called_by_its_name(workshop: Workshop) -> None:
    fruit = """
        int total;
        extern "C" NOINLINE void apples() { SAMPLE(); ++total; }
        extern "C" void red_apples() __attribute__((alias("apples")));
        extern "C" NOINLINE void pears() { SAMPLE(); ++total; }
    """
    main = 'extern "C" void apples(), red_apples(), pears(); int main() { apples(); red_apples(); pears(); return 0; }'
    program = workshop.build({"fruit.cpp": fruit, "main.cpp": main})
    objects = [workshop.folder / name for name in ("fruit.o", "main.o", "sampler.o")]
    assert workshop.link_with_pass(program, objects, "-Wl,--icf=all").returncode == 0
    (found,) = classes(program)
    assert [member["linkage_name"] for member in found["members"]] == ["apples", "pears", "red_apples"]
    assert [frames[1]["linkage_name"] for frames in program.resolve()] == ["apples", "red_apples", "pears"]


@LINKERS
def test_without_folding_the_link_is_left_alone(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    objects = [*sorted(workshop.folder.glob("[amp]*.o")), workshop.folder / "sampler.o"]
    assert workshop.link_with_pass(program, objects, "-Wl,--icf=none").returncode == 0
    with Image.open(program.folded) as image:
        assert image.section(".debug_icf") is None


def test_what_the_linker_says_and_its_status_go_through(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    before = program.folded.read_bytes()
    done = workshop.link_with_pass(program, [workshop.folder / "main.o"], "-Wl,--icf=all")
    assert done.returncode != 0
    assert "apples" in done.stderr and "icf link" not in done.stderr
    assert not program.folded.exists() or program.folded.read_bytes() == before


def test_a_command_that_does_not_link_is_run_as_it_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "icf", "link", "--", sys.executable, "-c", "raise SystemExit(7)"], cwd=tmp_path
    )
    assert done.returncode == 7


def test_a_response_file_is_read_for_what_the_pass_must_know(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    objects = [*sorted(workshop.folder.glob("[amp]*.o")), workshop.folder / "sampler.o"]
    (workshop.folder / "link.rsp").write_text("-Wl,--icf=all\n" + "\n".join(map(str, objects)))
    done = workshop.link_with_pass(program, [], "@link.rsp")
    assert (done.returncode, done.stderr) == (0, "")
    assert program.check()["_ZL4washPi"] == {"unique"}
