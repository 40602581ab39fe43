"""Strip a program the way Fedora does: its functions stay in `.gnu_debugdata`."""

from __future__ import annotations

from pathlib import Path

from tests.support.toolchain import run, tool


def strip_to_minidebug(path: Path) -> None:
    """Take debug information and symbols from the program; what `.dynsym` does not name goes in an xz'd table."""
    listed = (run("nm", *options, "--defined-only", path).stdout.split("\n") for options in (("-D",), ()))
    dynamic, every = ({line.split()[2] for line in lines if line.split()[1:2] in (["T"], ["t"])} for lines in listed)
    keep, mini = path.with_suffix(".keep"), path.with_suffix(".mini")
    keep.write_text("\n".join(sorted(every - dynamic)))
    run("objcopy", "--only-keep-debug", path, mini)
    run("objcopy", "-S", "--remove-section=.comment", f"--keep-symbols={keep}", mini)
    run(tool("xz"), "-f", mini)
    run("strip", path)
    run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", path)
