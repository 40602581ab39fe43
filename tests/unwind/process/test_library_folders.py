"""Where the dynamic linker looks for libraries: ld.so.conf(5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unwind.process import library_folders as module
from unwind.process.library_folders import library_folders


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    library_folders.cache_clear()
    yield
    library_folders.cache_clear()


def test_the_configuration_includes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "ld.so.conf").write_text("# first\n/opt/shop/lib # ours\n\ninclude conf.d/*.conf gone.conf\n/usr/lib\n")
    (tmp_path / "conf.d" / "b.conf").write_text("/opt/b\nrelative\n")
    (tmp_path / "conf.d" / "a.conf").write_text("/opt/a\n")
    monkeypatch.setattr(module, "_CONFIGURATION", str(tmp_path / "ld.so.conf"))
    assert library_folders() == ("/opt/shop/lib", "/opt/a", "/opt/b", "/usr/lib", "/lib64", "/usr/lib64", "/lib")


def test_a_circle_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ld.so.conf").write_text("/opt/shop/lib\ninclude *.conf\n")
    monkeypatch.setattr(module, "_CONFIGURATION", str(tmp_path / "ld.so.conf"))
    assert library_folders() == ("/opt/shop/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def test_without_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONFIGURATION", str(tmp_path / "gone"))
    assert library_folders() == ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
