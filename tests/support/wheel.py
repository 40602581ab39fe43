"""The wheel of this checkout, installed beside no checkout, for all tests of a run that use it.

    git ls-files ──> sdist, unpacked ──> wheel ──> environment with `bin/icf`

One process of the run makes each; the others wait for it. The C and the machine code of the kernels are those of the
checkout but for one, as it takes minutes to make them.
"""

from __future__ import annotations

import fcntl
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from icf.kernels import KERNELS, is_compiled
from tests.support.paths import ROOT

MODULES: tuple[str, ...] = (runpy.run_path(str(ROOT / "setup.py"))["MEMORYVIEWS"], *KERNELS)
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
COMPILED_HERE = "icf.tables._leb"


def run(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder, as a user would; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of this run have."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def sdist(of_run: Path) -> Path:
    """The unpacked sdist of what git has of this tree, and of the C that Cython made of it."""
    return next(once(of_run / "sdist", _make_sdist).glob("icf_toolchain-*/"))


@pytest.fixture(scope="session")
def installed(of_run: Path, sdist: Path) -> Path:
    """An environment with the wheel; the packages that it depends on are those of this one, this project is not."""
    if not all(map(is_compiled, KERNELS)):
        pytest.skip("the kernels of the checkout are not compiled")
    (wheel,) = once(of_run / "wheel", lambda folder: _make_wheel(sdist, folder)).glob("*.whl")
    return once(of_run / "installed", lambda folder: _install(wheel, folder))


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder with what `make` puts there; if several processes ask, the first one makes it."""
    done = folder.with_suffix(".done")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def _make_sdist(folder: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    translated = [f"{module.replace('.', '/')}.c" for module in MODULES]
    for name in [*filter(None, listed.split("\0")), *translated]:
        if (ROOT / name).exists():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "tree" / name)
    made = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    run(sys.executable, "-c", made, folder=folder / "tree")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        opened.extractall(folder)


def _make_wheel(sdist: Path, folder: Path) -> None:
    built = sdist / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for name in (module.replace(".", "/") for module in MODULES if module != COMPILED_HERE):
        (built / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / f"{name}{SUFFIX}", built / f"{name}{SUFFIX}")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, ".", folder=sdist)


def _install(wheel: Path, folder: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-index")
    run(*pip, wheel, folder=folder)
