"""No command writes over a file that it reads: a slip of the hand would cost a program, or a recording of hours."""

from __future__ import annotations

import os
from collections.abc import Iterable

from icf.errors import IcfError


def refuse_to_overwrite(output: str | None, inputs: Iterable[str | None]) -> None:
    """Raise `IcfError` if the file to write is one of those to read, by whatever path; devices may be both."""
    if output is None or not os.path.isfile(output):
        return
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.samefile(path, output):
            raise IcfError(
                f"{output}: is read by this command, and not overwritten", hint="give the output another name"
            )
