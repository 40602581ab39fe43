"""Lists of `icf link --distinct` that are damaged: each is read, or counts as empty."""

from __future__ import annotations

import random
from pathlib import Path

from linkpass.distinct.copies import ApartFunction
from linkpass.distinct.kept_list import KeptList
from tests.fuzz.limits import many

COUNT = many(2000)
KEPT = KeptList((ApartFunction("a.o", "_Z1fv", 16), ApartFunction("l.a(\udcff.o)", 'q"\\', 8)), 24)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.distinct")
    KEPT.write(path)
    assert KeptList.read(path) == KEPT
    KeptList().write(path)
    assert not (tmp_path / "shop.distinct").exists() and KeptList.read(path) == KeptList()


def test_hostile_lists(tmp_path: Path) -> None:
    path, rng, read = tmp_path / "list", random.Random(7), 0
    KEPT.write(str(path))
    whole = path.read_bytes()
    for _ in range(COUNT):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice(b'0159-,.[]{}"eEntrfx\\\x00\xff')
        path.write_bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed))))])
        found = KeptList.read(str(path))
        read += bool(found.functions)
        for function in found.functions:
            assert isinstance(function.size_bytes, int) and "\0" not in function.input
    assert COUNT // 50 < read < COUNT
    path.write_text("[" * 100_000)
    assert KeptList.read(str(path)) == KeptList()
