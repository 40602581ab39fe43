"""An environment with the wheel, made once: the wheel of an unpacked sdist, installed beside no checkout."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from icf.kernels import KERNELS, is_compiled
from tests.support.paths import ROOT

MODULES: tuple[str, ...] = (runpy.run_path(str(ROOT / "setup.py"))["MEMORYVIEWS"], *KERNELS)
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
COMPILED_HERE = "icf.tables._leb"  # the other kernels are those of the checkout


def run(*command: str | Path, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist of what git has of this tree, and of the C that Cython made of it, as that takes minutes."""
    folder = tmp_path_factory.mktemp("sdist")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    translated = [f"{module.replace('.', '/')}.c" for module in MODULES]
    for name in [*filter(None, listed.split("\0")), *translated]:
        if not name.startswith(("tests/", "testdata/", "docs/")) and (ROOT / name).exists():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "tree" / name)
    made = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    run(sys.executable, "-c", made, folder=folder / "tree")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist makes, with the machine code that the checkout has of the same sources."""
    if not all(map(is_compiled, KERNELS)):
        pytest.skip("the kernels of the checkout are not compiled")
    built = sdist / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for name in (module.replace(".", "/") for module in MODULES if module != COMPILED_HERE):
        (built / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / f"{name}{SUFFIX}", built / f"{name}{SUFFIX}")
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, ".", folder=sdist)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; the packages that it depends on are those of this one, this project is not."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-index")
    run(*pip, wheel, folder=folder)
    return folder
