"""The directory of kept links: its size limit, and one that can only be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from linkpass.link import kept_links
from linkpass.link.kept_link import KeptLink
from linkpass.link.kept_links import KeptLinks
from linkpass.rewrite.layout import Layout, Piece

KEPT = KeptLink((), {}, "", "", 0, Layout((Piece(0, 1000, bytes(1000)),), 1000), (), ())


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptLinks:
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    return KeptLinks()


def test_the_links_that_were_not_used_for_longest_go(
    links: KeptLinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_links, "_LIMIT_BYTES", 2 * len(KEPT.to_bytes()))
    for at, name in enumerate(("first", "second", "third")):
        links.save([name], KEPT)
        for path in (tmp_path / "cache" / "links").iterdir():
            os.utime(path, (at, path.stat().st_mtime if path.stat().st_mtime < 3 else at))
    assert [links.load([name]) for name in ("first", "second", "third")] == [None, KEPT, KEPT]


def test_a_link_with_more_than_a_file_may_have_is_not_kept(links: KeptLinks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_links, "_FILE_LIMIT_BYTES", 1000)
    links.save(["large"], KEPT)
    assert links.load(["large"]) is None


def test_a_directory_that_can_only_be_read(links: KeptLinks, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    links.save(["kept"], KEPT)
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(kept_links, "NewFile", refuse)
    links.save(["new"], KEPT)
    assert (links.load(["kept"]), links.load(["new"])) == (KEPT, None)
