"""The sdist builds by itself, and an environment with nothing but its wheel has all commands."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.wheel import run


def test_the_sdist_has_all_sources_and_the_documentation(sdist: Path) -> None:
    folders = ("icf", "linkpass", "unwind", "docs")
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True)
    wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert wanted and {name for name in wanted if not (sdist / name).exists()} == set()
    assert not [path for name in folders for path in (sdist / name).rglob("*.so")]
    made = {"build", "icf_toolchain.egg-info", "PKG-INFO", "setup.cfg"}
    files = {"LICENSE", "MANIFEST.in", "pyproject.toml", "setup.py", *(path.name for path in ROOT.glob("*.md"))}
    assert {path.name for path in sdist.iterdir()} - made == {*folders, *files, "tools"}


def test_the_commands_of_the_wheel_work(installed: Path) -> None:
    tried = run(installed / "bin" / "python", ROOT / "tools" / "try_install.py", folder=installed)
    assert f"{installed}/lib" in tried
    assert "icf pass, verify, dump" in tried and "icf report" in tried


def test_the_build_has_the_packages_that_the_man_pages_need() -> None:
    """An isolated build has these alone; the parsers of all commands must be importable with them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    def names(requirements: list[str]) -> set[str]:
        return {requirement.split(">")[0] for requirement in requirements}

    modules = {"pyelftools": "elftools", "protobuf": "google.protobuf"}
    hidden = names(project["project"]["dependencies"]) - names(project["build-system"]["requires"])
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({[modules.get(name, name) for name in hidden]!r}));"
        "sys.path.insert(0, 'tools'); import pages; print(len(list(pages.man_pages())))"
    )
    assert int(run(sys.executable, "-c", script, folder=ROOT)) > 15
