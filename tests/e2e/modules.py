"""A program of several modules, each linked with folding and without: its stacks, by run-time addresses, and the truth.

Both variants are made of the same objects and run in the same way, so that stack k of the one is stack k of the other,
frame by frame. They are at `folded/` and `unfolded/`, under the same names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.program import Frame, Functions, Names, icf, resolved
from tests.e2e.workshop import Workshop

FOLDED, UNFOLDED = "folded", "unfolded"


@dataclass(frozen=True, slots=True)
class Part:
    """One module: its source, and what it is linked with; a name without `.so` is the program."""

    name: str
    source: str
    needs: Sequence[str] = ()
    link_flags: Sequence[str] = ()


@dataclass(slots=True)
class Seen:
    """A frame of a stack: what was said of it, and what it truly is."""

    frame: Frame
    truth: Names
    module: str

    @property
    def verdict(self) -> str:
        return str(self.frame["verdict"])


@dataclass(slots=True)
class Modules:
    """The modules of one program, built in a workshop."""

    workshop: Workshop
    names: list[str]
    flags: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def list_path(self) -> Path:
        """Where the folded program left the list of its modules."""
        return self.workshop.folder / f"{FOLDED}.json"

    def path(self, name: str, variant: str = FOLDED) -> Path:
        return self.workshop.folder / variant / name

    def add_tables(self, name: str) -> None:
        """`icf pass` on a module that was built without tables."""
        image = self.path(name)
        report = ("--icf-report", image.with_name(f"{name}.icf")) if self.workshop.toolchain.linker == "mold" else ()
        icf("pass", image, *report)

    def stacks(self, variant: str = FOLDED, *, with_vptrs: bool = False) -> list[str]:
        """What the program prints: run-time addresses, which differ in every run."""
        preload = " ".join(str(self.path(name, variant)) for name in self.environment.get("LD_PRELOAD", "").split())
        modules = self.workshop.folder / f"{variant}.json"
        environment = {**os.environ, **self.environment, "LD_PRELOAD": preload, "SAMPLE_MODULES": str(modules)}
        environment |= {"SAMPLE_VPTRS": "1"} if with_vptrs else {}
        done = subprocess.run(
            [str(self.path("program", variant))], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def truth(self) -> list[list[tuple[Names, str]]]:
        """The true function and the module of each frame; no names outside of our modules."""
        stacks = self.stacks(UNFOLDED)
        loaded = self.loaded(UNFOLDED)
        functions = {name: Functions(self.path(name, UNFOLDED)) for name in self.names}
        found = []
        for stack in stacks:
            frames = []
            for address in (int(word, 16) for word in stack.split()):
                base, path = max((base, path) for base, path in loaded if base <= address)
                name = os.path.basename(path)
                known = functions.get(name) if path == str(self.path(name, UNFOLDED)) else None
                frames.append((known.at(f"{address - base:#x}") if known else frozenset[str](), name))
            found.append(frames)
        return found

    def loaded(self, variant: str = FOLDED) -> list[tuple[int, str]]:
        """Load address and path of every module of the last run."""
        listed: list[dict[str, Any]] = json.loads((self.workshop.folder / f"{variant}.json").read_text())
        return [(int(module["load_address"], 16), module["path"]) for module in listed]

    def check(self, *options: str | Path, with_vptrs: bool = False) -> list[list[Seen]]:
        """Resolve everything: no claim may be wrong, nor the truth be missing from the candidates."""
        stacks, truths = self.stacks(with_vptrs=with_vptrs), self.truth()
        path = self.workshop.folder / "stacks"
        path.write_text("".join(f"{stack}\n" for stack in stacks))
        stacks_found = resolved("--modules", self.list_path, *options, path)
        found = []
        for frames, truth in zip(stacks_found, truths, strict=True):
            seen = [Seen(frame, *each) for frame, each in zip(frames, truth, strict=True)]
            for each in seen:
                claimed = {each.frame["linkage_name"]} if each.frame["linkage_name"] else set(each.frame["candidates"])
                right = not each.truth or not claimed or any(name.partition(".")[0] in each.truth for name in claimed)
                assert right, f"{each.frame}: {sorted(each.truth)}"
                if each.frame["module"] is not None:
                    assert os.path.basename(each.frame["module"]) == each.module
            found.append(seen)
        return found


def build_modules(
    workshop: Workshop,
    parts: Sequence[Part],
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    with_tables: bool = True,
) -> Modules:
    """Compile each part once and link it twice, in order, with what it needs."""
    sampler = workshop.sampler("-fPIC")
    for variant in (FOLDED, UNFOLDED):
        (workshop.folder / variant).mkdir()
        workshop.link(f"{variant}/libsampler.so", [sampler], "none", ["-shared", "-Wl,-soname,libsampler.so"])
    for part in parts:
        (objects,) = workshop.compile({f"{Path(part.name).stem}.cpp": part.source}, "-fPIC", *flags)
        for variant in (FOLDED, UNFOLDED):
            folder = workshop.folder / variant
            shared = ["-shared", f"-Wl,-soname,{part.name}"] if part.name.endswith(".so") else []
            inputs = [objects, *(folder / name for name in (*part.needs, "libsampler.so"))]
            options = [*shared, "-Wl,-rpath,$ORIGIN", *part.link_flags]
            image, report = workshop.link(
                f"{variant}/{part.name}", inputs, "all" if variant == FOLDED else "none", options
            )
            if variant == FOLDED and with_tables:
                icf("pass", image, *(("--icf-report", report) if workshop.toolchain.linker == "mold" else ()))
    return Modules(workshop, [part.name for part in parts], flags, environment or {})
