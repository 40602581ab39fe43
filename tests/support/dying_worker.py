"""A step of a job in which one worker ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any


def die_once(marker: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Pass batches on; the first worker that gets one ends."""
    for batch in batches:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield batch
        else:
            os._exit(7)
