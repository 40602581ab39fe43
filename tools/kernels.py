"""Compiles in place the kernels whose sources changed; `make` runs it before everything else.

A kernel that is older than any kernel source counts as changed, because a `.pxd` may be used by several;
Cython itself then compiles only what depends on the change. Without a C compiler a stale kernel
is removed: the sources then run as plain Python, and what runs is always what the sources say.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from icf.kernels import KERNELS  # noqa: E402

SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")


def main() -> int:
    sources = [ROOT / (kernel.replace(".", "/") + ".py") for kernel in KERNELS]
    built = [source.with_suffix(SUFFIX) for source in sources]
    newest = max(
        path.stat().st_mtime_ns for source in sources for path in (source, source.with_suffix(".pxd")) if path.exists()
    )
    if all(kernel.exists() and kernel.stat().st_mtime_ns >= newest for kernel in built):
        return 0
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not (shutil.which(compiler) or shutil.which("cc")):
        for kernel in built:
            kernel.unlink(missing_ok=True)
        print(f"setup: no C compiler ({compiler}): the kernels run as plain Python, which is slow", file=sys.stderr)
        return 0
    print("setup: compiles the kernels", file=sys.stderr)
    cythonize = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "--quiet", *map(str, sources)]
    done = subprocess.run(cythonize, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        return done.returncode
    for kernel in built:  # Cython leaves alone what is up to date; say that we looked
        kernel.touch()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
