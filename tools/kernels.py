"""Compiles in place the kernels whose sources changed; `make` runs it before everything else.

tools/shared.py writes each `.pxd`, setup.py says how kernels are built. Cython knows which `.pxd` a kernel uses: it
translates to C again what depends on a change, and leaves the other C files as they are. A kernel that is older than
its C file is compiled. Without a C compiler a stale kernel is removed: the sources then run as plain Python, and what
runs is always what the sources say.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import shared  # noqa: E402

from icf.kernels import KERNELS  # noqa: E402

SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
SETUP = runpy.run_path(str(ROOT / "setup.py"))


def main() -> int:
    sources = [ROOT / (kernel.replace(".", "/") + ".py") for kernel in KERNELS]
    built = [source.with_suffix(SUFFIX) for source in (*sources, ROOT / "icf/_cyutility.c")]
    shared.write(ROOT)
    declarations = [path for package in ("icf", "unwind") for path in (ROOT / package).rglob("*.pxd")]
    newest = max(path.stat().st_mtime_ns for path in (*sources, *declarations))
    if all(kernel.exists() and kernel.stat().st_mtime_ns >= newest for kernel in built):
        return 0
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not (shutil.which(compiler) or shutil.which("cc")):
        for kernel in built:
            kernel.unlink(missing_ok=True)
        print(f"setup: no C compiler ({compiler}): the kernels run as plain Python, which is slow", file=sys.stderr)
        return 0
    print("setup: compiles the kernels", file=sys.stderr)
    _compile(dict(zip((*KERNELS, SETUP["MEMORYVIEWS"]), built, strict=True)))
    for kernel in built:  # those that were up to date count as looked at
        kernel.touch()
    return 0


def _compile(built: dict[str, Path]) -> None:
    """Translate and compile what is stale of the kernels, given by name with the file that each is compiled to."""
    from setuptools import Distribution

    os.chdir(ROOT)
    for source in (ROOT / (name.replace(".", "/") + ".py") for name in KERNELS):
        translated = source.with_suffix(".c")
        shared_at = max((path.stat().st_mtime_ns for path in source.parent.glob("*.pxd")), default=0)
        if translated.exists() and translated.stat().st_mtime_ns < shared_at:
            translated.unlink()  # Cython does not see that a kernel depends on what it cimports by another name
    extensions = SETUP["translated"](KERNELS)
    stale = [each for each in extensions if _is_older(built[each.name], Path(each.sources[0]))]
    # not `setup()`: that would compile all
    command = Distribution({"ext_modules": stale}).get_command_obj("build_ext")
    command.inplace = True
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def _is_older(kernel: Path, source: Path) -> bool:
    return not kernel.exists() or kernel.stat().st_mtime_ns < source.stat().st_mtime_ns


if __name__ == "__main__":
    raise SystemExit(main())
