"""Work beside the steps of a pass."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from icf.elf.image import Image
from linkpass.background import Background
from tests.support.elf import Elf


def test_closing_waits_for_what_reads_the_image(tmp_path: Path) -> None:
    """Whoever closes an image may write the file again."""
    path = tmp_path / "image"
    path.write_bytes(Elf().build())
    begun, done = threading.Event(), threading.Event()

    def read(image: Image) -> int:
        begun.set()
        time.sleep(0.2)
        found = sum(image.data[-64:])
        done.set()
        return found

    with Image.open(path) as image, Background() as background:
        total = background.start(lambda: read(image))
        begun.wait()
    assert done.is_set() and total() == sum(path.read_bytes()[-64:])


def test_who_is_asked_to_end_does_not_wait() -> None:
    """The work may wait for a lock of this thread's, which then is never released."""
    released, done = threading.Event(), threading.Event()

    def work() -> bool:
        found = released.wait(60)
        done.set()
        return found

    with pytest.raises(KeyboardInterrupt), Background() as background:
        waiting = background.start(work)
        raise KeyboardInterrupt
    assert not done.is_set()
    released.set()
    assert waiting()


def test_a_failure_is_raised_to_who_waits() -> None:
    def work() -> None:
        raise ValueError("of the work")

    with Background() as background:
        waiting = background.start(work)
        with pytest.raises(ValueError, match="of the work"):
            waiting()
