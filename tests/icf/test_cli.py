"""The umbrella command: what it prints, how it exits, and what it does not import."""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

import pytest

from icf import __version__, cli
from icf.errors import FormatError, IcfError
from icf.kernels import KERNELS
from tests.support.paths import ROOT

HEAVY = ("numpy", "capstone", "lief", "pycxxfilt", "subprocess", "linkpass", "unwind")


def run_icf(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "icf", *args], cwd=ROOT, capture_output=True, text=True)


def verb_that_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `icf probe` a verb that ends with `error`."""

    def run(args: argparse.Namespace) -> NoReturn:
        raise error

    module = ModuleType("probe_verb")
    vars(module).update(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "probe_verb", module)
    monkeypatch.setitem(cli.VERBS, "probe", cli.Verb("probe_verb", "ends badly"))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_start_up_imports_nothing_heavy(option: str) -> None:
    code = (
        "import sys; from icf.cli import main; status = main([sys.argv[1]]);"
        "sys.stderr.write(' '.join(sorted({name.partition('.')[0] for name in sys.modules}))); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code, option], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert not set(HEAVY) & set(done.stderr.split())


def test_version_says_how_the_kernels_run() -> None:
    done = run_icf("--version")
    version, kernels = done.stdout.splitlines()
    assert version == f"icf {__version__}"
    assert kernels == "kernels: compiled" or kernels.startswith("kernels: pure Python (slow): icf.")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_kernel_is_built_and_reported() -> None:
    found = [path for package in ("icf", "unwind") for path in (ROOT / package).rglob("_*.pyi")]
    typed = {str(path.relative_to(ROOT).with_suffix("")).replace("/", ".") for path in found}
    # are part of the kernels that use them
    shared = {"icf._bytes", "icf.dwarf._forms", "unwind.walk._evaluate", "unwind.walk._operations"}
    assert set(KERNELS) == typed - shared


def test_help_lists_every_verb_and_each_exists() -> None:
    out = run_icf("--help").stdout
    for name, verb in cli.VERBS.items():
        assert f"\n  {name} " in out
        assert verb.help in out
        assert find_spec(verb.module) is not None


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([verb, "--help"], ["help", verb]):
        with pytest.raises(SystemExit) as stop:
            cli.main(args)
        assert stop.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: icf {verb} ")


def test_linkpass_is_icf_pass(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.linkpass_main(["--help"])
    assert capsys.readouterr().out.startswith("usage: linkpass ")
    assert cli.linkpass_main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"icf {__version__}\n")


def test_no_verb_is_a_usage_error() -> None:
    done = run_icf()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: icf COMMAND")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("reslove", "did you mean 'icf resolve'?"), ("zzz", "see 'icf --help'"), ("-x", "see 'icf --help'")],
)
def test_an_unknown_verb_is_a_usage_error_with_a_hint(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"icf: error: unknown command {name!r} (choose from {', '.join(cli.VERBS)})\nhint: {hint}\n"


def test_bad_arguments_of_a_verb_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["pass", "--no-such-option"])
    assert stop.value.code == 2


HINTED = IcfError("a.out: no fold table", hint="run 'icf pass'")
MISSING = FileNotFoundError(2, "No such file or directory", "a.out")


@pytest.mark.parametrize(
    ("error", "status", "stderr"),
    [
        (IcfError("a.out: no fold table"), 1, "icf: error: a.out: no fold table\n"),
        (HINTED, 1, "icf: error: a.out: no fold table\nhint: run 'icf pass'\n"),
        (FormatError("a.out", ".debug_icf", 18, "bad"), 1, "icf: error: a.out: .debug_icf+0x12: bad\n"),
        (MISSING, 1, "icf: error: a.out: no such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: BaseException, status: int, stderr: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb_that_raises(monkeypatch, error)
    assert cli.main(["probe"]) == status
    assert capsys.readouterr() == ("", stderr)


def test_a_caller_of_main_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings() -> tuple[object, ...]:
        return gc.isenabled(), gc.get_threshold(), sys.getswitchinterval()

    def run(args: argparse.Namespace) -> int:
        gc.disable()
        gc.set_threshold(1 << 20)
        sys.setswitchinterval(1.0)
        return 0

    before, module = settings(), ModuleType("probe_verb")
    vars(module).update(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "probe_verb", module)
    monkeypatch.setitem(cli.VERBS, "probe", cli.Verb("probe_verb", "sets"))
    assert cli.main(["probe"]) == 0 and settings() == before
    assert before[0]


def test_a_bug_is_not_dressed_up_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    verb_that_raises(monkeypatch, IndexError("oops"))
    with pytest.raises(IndexError):
        cli.main(["probe"])


@pytest.mark.parametrize(
    ("closed", "status", "err"),
    [("<&-", 0, ""), (">&-", 1, "icf: error: standard output is closed\n"), ("2>&-", 0, "")],
)
def test_closed_streams(closed: str, status: int, err: str) -> None:
    image = ROOT / "testdata" / "shop" / "shop.gold"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "icf", "symbolize", "-e", str(image)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", err)


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)  # before anything is written
    command = [sys.executable, "-m", "icf", "--help"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
