"""The kinds of builds that accuracy is measured for: compiler and flags, linker, and what the pass is given.

image     `icf pass IMAGE`
report    `icf pass --icf-report FILE`: the linker's report it folded
objects   `icf pass --objects FILE...`: with LTO, those that --save-temps kept
link      `icf link -- LINK-COMMAND`
distinct  `icf link --distinct -- LINK-COMMAND`: which functions it keeps apart, its list beside the image says
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.truth.builds import Build
from tests.truth.tool import run_link, run_pass

EVIDENCE = ("image", "report", "objects", "link")
LINKED_TWICE = "distinct"  # measured only where it is chosen


@dataclass(frozen=True)
class Kind:
    """One way to build; `evidence` lists what is tried with it."""

    compiler: str
    linker: str
    evidence: tuple[str, ...]

    @property
    def has_call_sites(self) -> bool:
        """Whether the compiler describes calls: not without -g, nor without optimisation; under LTO not all."""
        return "-" not in self.compiler or self.compiler.endswith(
            ("-fatlto", "-aarch64", "-split", "-compressed", "-dwz")
        )

    def names_every_direct_call(self, evidence: str) -> bool:
        """Whether what the pass gets says which function each direct call means."""
        return evidence in ("objects", "link", LINKED_TWICE) or (self.linker == "lldr" and self.has_call_sites)

    def names_every_call_site(self, evidence: str) -> bool:
        """Whether each direct call has its name that has a call site in DWARF: lld and mold overwrite some of it."""
        return self.names_every_direct_call(evidence) or (self.linker == "gold" and self.has_call_sites)


_USUAL = (
    ("gold", ("image", "objects", "link", LINKED_TWICE)),
    ("lld", ("image", "objects", "link", LINKED_TWICE)),
    ("lldr", ("image",)),
    ("mold", ("report", "objects", "link", LINKED_TWICE)),
)
_ELSEWHERE = (("gold", ("image", "objects")), ("lld", ("image", "objects")))  # debug information in another form
_LLD_LTO = (("lld", ("image", "objects", "link")), ("lldr", ("image",)))
_PLUGIN_LTO = (("gold", ("image", "objects", "link")), ("mold", ("report", "objects", "link")))
_MATRIX = {
    **dict.fromkeys(("clang", "gcc"), _USUAL),
    **dict.fromkeys(("clang-g1", "gcc-g1", "clang-g0", "gcc-g0", "clang-O0", "gcc-O0"), _USUAL),
    "clang-thinlto": _LLD_LTO,
    "clang-lto": (*_LLD_LTO, *_PLUGIN_LTO),
    "gcc-lto": _PLUGIN_LTO,
    "gcc-fatlto": _LLD_LTO,
    **dict.fromkeys(("clang-split", "gcc-split", "gcc-compressed", "gcc-dwz"), _ELSEWHERE),
    **dict.fromkeys(("clang-aarch64", "gcc-aarch64"), _USUAL),
    **dict.fromkeys(("clang-noplt", "gcc-noplt", "gcc-aarch64-noplt"), _USUAL),
}
KINDS = [Kind(compiler, linker, evidence) for compiler, row in _MATRIX.items() for linker, evidence in row]


def add_tables(command: Sequence[str], build: Build, evidence: str, out: Path) -> float:
    """Make `out` from the folded image with the pass; wall time in seconds. Raises ToolError."""
    if evidence == "link":
        return run_link(command, build.link_command("all", out), build.folder)
    if evidence == LINKED_TWICE:
        return run_link(command, build.link_command("all", out), build.folder, ["--distinct"])
    options: list[str] = []
    if evidence == "report":
        options = ["--icf-report", str(build.report)]
    elif evidence == "objects":
        listed = out.with_suffix(".objects")
        listed.write_text("".join(f"{path}\n" for path in build.objects))
        options = ["--objects", f"@{listed}"]
    return run_pass(command, build.folded, out, options)
