"""What a page of figures says about where they come from."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from icf import __version__
from tests.support.paths import ROOT
from tests.support.toolchain import find

_VERSION = re.compile(r"\d\.\d")


def versions(*tools: str) -> Iterator[tuple[str, str]]:
    """Yield what is measured, the machine, and the version of each tool that is there."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    yield "icf", f"{__version__} ({commit.stdout.strip()}), Python {platform.python_version()}"
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    yield "machine", ", ".join([f"{os.cpu_count()} processors", *models[:1]])
    for name in tools:
        if path := find(name):
            done = subprocess.run([path, "--version"], capture_output=True, text=True)
            numbered = [line.strip() for line in done.stdout.splitlines() if _VERSION.search(line)]
            yield name, numbered[0] if numbered else "of no version"
