"""`icf pass --keep-unique-out`: a link with what it writes has one name for every frame."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.linkinputs.responsefile import split_words
from tests.e2e.fruit import STALLS
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, Workshop
from tests.support.icf_command import icf_command

GCC_LLD = replace(LLD, compiler="gcc")
toolchains = pytest.mark.parametrize("toolchain", [GOLD, LLD, GCC_LLD], ids=str, indirect=True)

MARKET = (
    STALLS
    + """
    int total;
    Of<Apple> apples; Of<Pear> pears; Of<Plum> plums;
    NOINLINE void ripe(int n) { SAMPLE(); total += 4 * n; }
    NOINLINE void green(int n) { SAMPLE(); total += 4 * n; }
    void (*chosen[])(int) = {ripe, green};
    Stall *stalls[] = {&apples, &pears, &plums};
    int main() {
        for (Stall *stall : stalls) { stall->open(1); stall->close(2); }
        for (auto function : chosen) function(3);
        apples.clean(1); pears.clean(2); plums.clean(3);
        ripe(1); green(2);
        return 0;
    }
"""
)


@toolchains
def test_a_link_with_what_is_written_names_every_frame(workshop: Workshop) -> None:
    objects = [*workshop.compile(MARKET), workshop.sampler()]
    program = workshop.build(MARKET)
    response = workshop.folder / "keep"
    found = json.loads(icf("pass", program.folded, "--keep-unique-out", response, "--json"))["keep_unique"]
    assert any("ambiguous" in verdicts or "narrowed" in verdicts for verdicts in program.check().values())
    options = response.read_text().splitlines()
    assert sorted(f"--keep-unique={symbol}" for kept in found["functions"] for symbol in kept["symbols"]) == sorted(
        options
    )

    kept_image, report = workshop.link("program.kept", objects, "all", [f"-Wl,@{response}"])
    kept = Program(kept_image, program.unfolded, report)
    kept.add_tables("--icf-report", report)  # the sampler has no debug information
    verdicts = {name: found for name, found in kept.check().items() if name.startswith("_Z")}  # not the sampler's
    assert len(verdicts) >= 3 * 4 + 2 and all(verdict <= {"unique", "unmerged"} for verdict in verdicts.values())
    assert kept.merged()  # what is called directly is as folded as before
    grown = code_bytes(kept_image) - code_bytes(program.folded)
    assert 0 < found["size_bytes"] <= grown + 16 * 2 * len(options)  # functions begin at multiples of 16
    if workshop.toolchain != GOLD:
        # two of three that are opened, and one that is ripe; what closes them differs by what it counts
        assert len(options) == 2 + 2 + 1
    # nothing is left to be done
    again = json.loads(icf("pass", kept_image, "--keep-unique-out", response, "--json"))
    assert again["already_done"] and again["keep_unique"]["functions"] == [] and response.read_text() == ""


def code_bytes(image: Path) -> int:
    from icf.elf.image import Image

    with Image.open(image) as file:
        return next(section.size_bytes for section in file.sections if section.name == ".text")


@toolchains
def test_local_functions_cannot_be_kept(workshop: Workshop) -> None:
    program = workshop.build("""
        int total;
        static NOINLINE void ripe(int n) { SAMPLE(); total += n; }
        static NOINLINE void green(int n) { SAMPLE(); total += n; }
        NOINLINE void sour(int n) { SAMPLE(); total += n; }
        void (*chosen[])(int) = {ripe, green, sour};
        int main() { for (auto function : chosen) function(3); return 0; }
    """)
    response = workshop.folder / "keep"
    text = icf("pass", program.folded, "--keep-unique-out", response)
    assert response.read_text() == "--keep-unique=_Z4souri\n"
    assert "not unique  2 local functions" in text


ODD_NAMES = ["two words", "quote\"'d\\", "-odash", "at@@sign", "back`id`$(id)", "caf\u00e9s"]
UNSAFE_NAMES = ["line\n--plugin=evil.so\nz", "cr\rOVER", "esc\x1b[31m"]
NO_UTF8 = "inv\udcff\udcfe"


@toolchains
def test_odd_names_are_one_option_each(workshop: Workshop) -> None:
    names = [*ODD_NAMES, *UNSAFE_NAMES, NO_UTF8]
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    stand_ins = [f"{idx:_<{len(name) - 1}}".encode() for idx, name in enumerate(encoded)]
    main, *_ = workshop.compile(
        "int total;"
        + "".join(f'extern "C" NOINLINE int f{name.decode()}(int n) {{ return total += n; }}' for name in stand_ins)
        + f"int (*chosen[])(int) = {{{', '.join(f'f{name.decode()}' for name in stand_ins)}}};"
        + "int main() { for (auto function : chosen) function(3); return 0; }"
    )
    content = main.read_bytes()
    for stand_in, name in zip(stand_ins, encoded, strict=True):
        content = content.replace(b"f" + stand_in + b"\0", name + b"\0")
    main.write_bytes(content)
    folded, _ = workshop.link("program", [main], "all")
    response = workshop.folder / "keep"
    done = subprocess.run(
        [*icf_command(), "pass", str(folded), "--keep-unique-out", str(response)], capture_output=True
    )
    assert done.returncode == 0 and b"\x1b" not in done.stdout + done.stderr
    line = next(line for line in done.stderr.splitlines() if b"left out" in line)
    assert b"line\\n--plugin=evil.so\\nz" in line or b"cr\\rOVER" in line

    options = split_words(response.read_text("utf-8", "surrogateescape"), str(response))
    kept_names = [option.removeprefix("--keep-unique=") for option in options]
    assert set(kept_names) <= {*ODD_NAMES, "at", NO_UTF8} and len(kept_names) >= len(ODD_NAMES) - 2
    kept_image, _ = workshop.link("program.kept", [main], "all", [f"-Wl,@{response}"])
    with Image.open(kept_image) as image:
        symbols = image.symbols
        places = {symbols.name(row): int(symbols.value[row]) for row in symbols.functions.tolist()}
        counts = Counter(places.values())
    folded_still = [name for name in kept_names if name in places and counts[places[name]] > 1]
    # gold folds into the first, which thus stays with those that were left out
    assert folded_still == ([names[0]] if workshop.toolchain == GOLD else [])
    assert all(name in places for name in kept_names if "@" not in name and name != "at")


def test_a_file_that_cannot_be_written(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    program = workshop.build("int main() { SAMPLE(); return 0; }")
    path = workshop.folder / "none" / "keep"
    icf("pass", program.folded, "--keep-unique-out", path, status=1)
    assert capsys.readouterr().err == f"icf: error: {path}: No such file or directory\n"
