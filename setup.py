"""The kernels of the package, its man pages and completions; all else about it is in pyproject.toml.

Cython translates each `_name.py` to C. What it adds to every module that takes buffers, 1.1 MB of C, is one module that
all kernels import (MEMORYVIEWS): with a copy in each of them they take three times as long to compile. Cython must
write that module before a compiler reads it, and translates kernels in parallel only within one call, so one call
translates all. Without a C compiler the install succeeds, and the kernels run as plain Python.

tools/pages.py writes man pages and completions when the package is installed or becomes a wheel.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from setuptools import Extension, setup  # first: from Python 3.12 on distutils is a part of it

from distutils.command.install_data import install_data  # isort: skip

MEMORYVIEWS = "icf._cyutility"


def translated(kernels: Sequence[str]) -> list[Extension]:
    """Return the extensions of these kernels and MEMORYVIEWS; run it in the directory of this file.

    What is newer than its C is translated.
    """
    from Cython.Build import cythonize

    sources = {MEMORYVIEWS: "icf/_cyutility.c", **{kernel: f"{kernel.replace('.', '/')}.py" for kernel in kernels}}
    # with debug information a kernel has 1.2 MB, without 0.2; warnings would be about what Cython writes
    options = ["-g0", "-w"]
    extensions: list[Extension] = cythonize(
        [Extension(name, [path], extra_compile_args=options, optional=True) for name, path in sources.items()],
        quiet=True,
        nthreads=os.cpu_count() or 1,
        compiler_directives={"show_performance_hints": False},
        shared_utility_qualified_name=MEMORYVIEWS,
    )
    return extensions


class InstallPages(install_data):
    def run(self) -> None:
        sys.path.insert(0, "tools")
        import pages

        self.outfiles += [str(path) for path in pages.write(Path(self.install_dir))]


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    setup(
        ext_modules=translated(runpy.run_path("icf/kernels.py")["KERNELS"]),
        cmdclass={"install_data": InstallPages},
        # the files are not there yet; with an empty list there would be nothing to install
        data_files=[("share/man/man1", [])],
    )
