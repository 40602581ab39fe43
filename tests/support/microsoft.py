"""Images and PDBs that Microsoft's compiler and linker made: those of the npm package node-pty, without its scripts.

Release builds of MSVC 14.4x: /O2, /OPT:ICF, /GL for node-pty's and winpty's own code, /guard:cf; five of x86-64 and the
same five of ARM64. tools/setup installs the package, of the version in tools/npm.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT

_PREBUILDS = ROOT / ".cache" / "npm" / "node_modules" / "node-pty" / "prebuilds"
_NAMES = ("winpty-agent.exe", "winpty.dll", "conpty.node", "pty.node", "conpty_console_list.node")
X86_64 = tuple(f"win32-x64/{name}" for name in _NAMES)
ARM64 = tuple(f"win32-arm64/{name}" for name in _NAMES)
IMAGES = (*X86_64, *ARM64)


def microsoft(name: str) -> Path:
    """Return one of IMAGES; its PDB is beside it. Skips the test where it is not installed."""
    path = _PREBUILDS / name
    if not path.exists() or not path.with_suffix(".pdb").exists():
        pytest.skip("needs node-pty, which tools/setup installs with npm")
    return path
