"""Tries an installed `icf`: what an install put where, and the commands of README.md on the demo's program.

    PYTHON tools/try_install.py        by the Python of an environment that has nothing but the wheel

`make build` runs it after the build, cibuildwheel after each of its builds, and the tests once. It fails at the first
command that does not do what it should.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SHOP = ROOT / "testdata" / "shop"
ICF = Path(sysconfig.get_path("scripts")) / "icf"
PREFIX = Path(sysconfig.get_path("data"))
SHARED = ("man/man1/icf.1", "man/man1/icf-resolve.1", "man/man1/linkpass.1")
COMPLETIONS = ("bash-completion/completions/icf", "zsh/site-functions/_icf", "fish/vendor_completions.d/icf.fish")


def main() -> int:
    with TemporaryDirectory() as folder:
        for what in checks(Path(folder)):
            print(f"try_install: {what}", flush=True)
    return 0


def checks(work: Path) -> Iterator[str]:
    """Try one thing after the other; yield what was done."""
    place = icf(work, "-c", "import icf; print(icf.__file__)", program=sys.executable).strip()
    expect(Path(place).is_relative_to(PREFIX), f"{place} is not of the install in {PREFIX}")
    for name in (*SHARED, *COMPLETIONS):
        expect((PREFIX / "share" / name).stat().st_size > 0, f"share/{name} is empty")
    version = icf(work, "--version")
    expect("kernels: compiled" in version, version)
    yield f"{place}: {version.splitlines()[0]}, compiled kernels, man pages, completions"

    shutil.copy(SHOP / "shop.gold", work / "shop.linked")
    recorded = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
    (work / "stacks.txt").write_text("".join(f"{each['stack']}\n" for each in recorded))
    icf(work, "pass", "shop.linked", "-o", "shop")
    expect("all agree with the code" in icf(work, "verify", "shop"), "icf verify")
    expect("List<Payment>::add(Payment*)" in icf(work, "dump", "--dcall", "shop"), "icf dump")
    yield "icf pass, verify, dump"

    icf(work, "cache", "--cache-dir", "cache", "build", "shop")
    answers = icf(work, "resolve", "--cache-dir", "cache", "-e", "shop", "--out", "json", "stacks.txt")
    for stack, line in zip(recorded, answers.splitlines(), strict=True):
        names = [frame["linkage_name"] for frame in json.loads(line)["frames"]]
        expect(names == stack["truth"], f"icf resolve: {names}, in truth {stack['truth']}")
    asked = icf(work, "symbolize", "--cache-dir", "cache", "-e", "shop", "-p", "0x87e")
    expect("List<Order>::grow() | List<Payment>::grow()" in asked, asked)
    expect("call" in icf(work, "disasm", "-e", "shop", "main"), "icf disasm")
    yield "icf cache, resolve, symbolize, disasm"

    icf(work, "report", "-o", "shop.html", "--cache-dir", "cache", "shop")
    expect("<html" in (work / "shop.html").read_text()[:1000], "icf report")
    yield "icf report"
    yield from recording(work)


def recording(work: Path) -> Iterator[str]:
    """Record a program, where perf is there and may record, and resolve and report the recording."""
    if shutil.which("perf") is None:
        yield "no perf here: icf record was not tried"
        return
    busy = (sys.executable, "-c", "for _ in range(3_000_000): pass")
    command = [str(ICF), "record", "-e", "cpu-clock:u", "-o", "perf.data", "--", *busy]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        yield f"perf may not record here: {done.stderr.strip().splitlines()[0]}"
        return
    expect(icf(work, "resolve", "--cache-dir", "cache", "--out", "collapsed", "perf.data") != "", "icf resolve")
    icf(work, "report", "-o", "profile.html", "--cache-dir", "cache", "perf.data")
    yield "icf record, and resolve and report of the recording"


def icf(work: Path, *arguments: str, program: str | Path = ICF) -> str:
    """Run the installed command; return what it printed."""
    done = subprocess.run([program, *arguments], cwd=work, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def expect(is_right: bool, problem: str) -> None:
    if not is_right:
        raise SystemExit(f"try_install: error: {problem}")


if __name__ == "__main__":
    raise SystemExit(main())
