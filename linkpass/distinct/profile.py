"""The functions that occur in a profile and that no evidence tells apart there.

The profile is resolved as `icf resolve` resolves it, in a process of its own: stacks are read and resolved by code
that a link needs for nothing else. Stacks of addresses alone are those of the last output of the link.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import TemporaryFile

from icf.errors import IcfError

_CERTAIN = frozenset(("unmerged", "unique", "unknown"))


def open_functions(profile: str, output: str) -> frozenset[frozenset[str]]:
    """Return the sets of linkage names that frames of the profile leave open.

    Args:
        profile: any input of `icf resolve`.
        output: the program that it may be of; it need not exist.

    Raises:
        IcfError: the profile cannot be resolved.
    """
    image = ["-e", output] if os.path.isfile(output) else []
    command = [sys.executable, "-m", "icf", "resolve", *image, "--out", "json", "--no-lines", "--", profile]
    with TemporaryFile() as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        found: set[frozenset[str]] = set()
        try:
            for line in process.stdout:
                for frame in json.loads(line)["frames"]:
                    if frame["verdict"] not in _CERTAIN:
                        found.add(frozenset(frame["candidates"]))
        except (ValueError, KeyError, TypeError) as error:
            raise IcfError(f"{profile}: cannot be resolved: {error}") from error
        process.wait()
        errors.seek(0)
        problem = os.fsdecode(errors.read()).strip().splitlines()
    if process.returncode:
        reason = problem[-1].removeprefix("icf: error: ") if problem else f"exit status {process.returncode}"
        raise IcfError(f"{profile}: cannot be resolved: {reason}")
    return frozenset(found)
