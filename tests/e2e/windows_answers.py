"""What `icf symbolize` says of every address of a PE image."""

from __future__ import annotations

import subprocess
from pathlib import Path

from icf.pe.image import PeImage
from tests.support.icf_command import icf_command


def icf(*words: str | Path, stdin: str = "") -> str:
    done = subprocess.run([*icf_command(), *map(str, words)], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def addresses_of(path: Path) -> list[int]:
    with PeImage.open(str(path)) as image:
        return [address for each in image.code_sections for address in range(each.vaddr, each.vaddr + each.size_bytes)]


def answers(said: str) -> list[list[tuple[str, ...]]]:
    """Return the candidates of each address: function, file and line of each frame."""
    found = []
    for block in said.strip("\n").split("\n\n"):
        candidates: list[list[str]] = []
        for line in block.splitlines():
            if not candidates or line.startswith("candidate "):
                candidates.append([])
            if not line.startswith("candidate "):
                candidates[-1].append(line)
        found.append(
            [
                tuple(f"{function} {place}" for function, place in zip(each[::2], each[1::2], strict=True))
                for each in candidates
            ]
        )
    return found
