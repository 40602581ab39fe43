"""`icf link` where the link does not fold, or where something else than the command says that it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.links import CLASSES, Link, classes
from tests.support.icf_command import icf_command
from tests.support.toolchain import tool

OBJECTS = ("fruit.o", "basket.o", "-o", "prog")


def script(folder: Path, name: str, text: str) -> str:
    """An executable script in `folder`; CLANG in its text is the compiler."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + text.replace("CLANG", tool("clang++")))
    path.chmod(0o755)
    return f"./{name}"


@pytest.mark.parametrize(
    ("place", "linker"),
    [
        ("wrapper", "lld"),
        ("configuration file", "lld"),
        ("environment", "lld"),
        ("wrapper", "gold"),
        ("wrapper", "mold"),
    ],
)
def test_options_that_the_command_does_not_show(
    link: Link, tmp_path: Path, place: str, linker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(f"ld.{linker}")
    options = f"-fuse-ld={linker} -B. -Wl,--icf=all"
    driver = tool("clang++")
    words: tuple[str, ...] = ()
    if place == "wrapper":
        driver = script(tmp_path, "mycxx", f'exec CLANG {options} "$@"\n')
    elif place == "configuration file":
        (tmp_path / "my.cfg").write_text(options)
        words = ("--config=./my.cfg",)
    else:
        monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "# " + " ".join(f"+{option}" for option in options.split()))
    done = link(*words, *OBJECTS, driver=driver, options=("--strict", "--summary"))
    assert done.returncode == 0, done.stderr
    assert "4 functions share 2 of" in done.stderr and " object" in done.stderr
    assert classes(tmp_path / "prog") == CLASSES


@pytest.mark.parametrize(
    "line",
    [
        'exec ./ccache CLANG OPTIONS "$@"',
        'exec -a clang++ CLANG OPTIONS "$@"',
        'exec "$(dirname "$0")"/real-clang++ OPTIONS "$@"',
        'ARGS=("$@")\nexec CLANG OPTIONS "${ARGS[@]}"',
    ],
    ids=["launcher", "another name", "beside itself", "array"],
)
def test_wrappers_that_pass_their_words_on(link: Link, tmp_path: Path, line: str) -> None:
    line = line.replace("OPTIONS", "-fuse-ld=lld -B. -Wl,--icf=all")
    script(tmp_path, "ccache", 'exec "$@"\n')
    script(tmp_path, "real-clang++", 'exec CLANG "$@"\n')
    wrapper = script(tmp_path, "mycxx", f"{line}\n")
    (tmp_path / "mycxx").write_text((tmp_path / "mycxx").read_text().replace("#!/bin/sh", "#!/bin/bash"))
    done = link(*OBJECTS, driver=wrapper, options=("--strict",))
    assert done.returncode == 0, done.stderr
    assert classes(tmp_path / "prog") == CLASSES


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-fuse-ld=lld", "-B."], "no --icf among the options of this link"),
        (["-fuse-ld=lld", "-B.", "-Wl,--icf=none"], "no --icf among the options of this link"),
        (["-fuse-ld=bfd"], "GNU ld folds nothing"),
    ],
    ids=["nothing", "none", "bfd"],
)
def test_a_link_that_does_not_fold_gets_a_line(link: Link, tmp_path: Path, words: list[str], reason: str) -> None:
    driver = tool("clang++")
    done = link(*words, *OBJECTS, driver=driver)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "prog").unlink()
    done = link(*words, *OBJECTS, driver=driver, options=("--summary",))
    assert (done.returncode, done.stderr) == (0, f"icf link: prog: not folded: {reason}\n")
    assert (tmp_path / "prog").exists()
    (tmp_path / "prog").unlink()
    done = link(*words, *OBJECTS, driver=driver, options=("--strict",))
    assert (done.returncode, done.stderr) == (1, f"icf link: error: prog: not folded: {reason}\n")
    assert not (tmp_path / "prog").exists()


def test_strict_is_about_links(link: Link) -> None:
    driver = tool("clang++")
    for words in (["-c", "fruit.cpp", "-o", "x.o"], ["--version"], ["-r", *OBJECTS], ["-print-prog-name=ld"]):
        done = link(*words, driver=driver, options=("--strict",))
        assert (done.returncode, done.stderr) == (0, "")


def test_a_wrapper_that_does_more_is_not_run_to_ask_it(link: Link, tmp_path: Path) -> None:
    """To ask it for its commands would run all that it does besides."""
    wrapper = script(tmp_path, "mycxx", 'echo run >> runs\nCLANG -fuse-ld=lld -B. -Wl,--icf=all "$@" && echo done\n')
    done = link(*OBJECTS, driver=wrapper, options=("--summary",))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr == (
        "icf link: prog: perhaps not folded: no --icf among the options of this link, and ./mycxx does not say what it"
        " adds\n"
    )
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("verb", ["link", "cc"])
def test_no_command_is_a_mistake_of_usage(verb: str) -> None:
    for words in ([], ["--"]):
        done = subprocess.run([*icf_command(), verb, *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert f"icf {verb}: error: no " in done.stderr and f"hint: icf {verb} -- c++" in done.stderr


def test_a_compile_takes_the_place_of_icf_at_once(tmp_path: Path) -> None:
    """Nothing is imported for it that a compile need not wait for."""
    command = [sys.executable, "-X", "importtime", "-m", "icf", "link", "--", "sh", "-c", "echo $$"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate()
    assert int(out) == process.pid
    imported = {line.rpartition(b"|")[2].strip() for line in err.splitlines()}
    assert not imported & {b"numpy", b"linkpass.link.command"}
    assert os.getpid() != process.pid
