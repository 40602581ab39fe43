"""The documentation as text: its links lead somewhere, the files that it names are there, the README stays short."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.markdown import Page, read_page
from tests.support.paths import ROOT

NAMES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [read_page(path) for path in (*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").rglob("*.md")))]
PATH = re.compile(r"`((?:icf|linkpass|unwind|tests|tools|demo|testdata|docs)/[\w./-]*)`")
SOURCE_LINES = 150  # of the README


def name_of(page: object) -> str:
    assert isinstance(page, Page)
    return str(page.path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Page) -> None:
    for line, target in page.links:
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        where, _, anchor = target.partition("#")
        path = (page.path.parent / where).resolve() if where else page.path
        assert path.exists(), f"{name_of(page)}:{line}: {target}: there is no such file"
        if anchor:
            assert anchor in read_page(path).anchors, f"{name_of(page)}:{line}: {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_of_docs_link_to_pages_of_docs(page: Page) -> None:
    if (ROOT / "docs") not in page.path.parents:
        return
    for line, target in page.links:
        if "://" not in target:
            path = (page.path.parent / (target.partition("#")[0] or page.path.name)).resolve()
            assert (ROOT / "docs") in path.parents, f"{name_of(page)}:{line}: {target} is outside of docs/"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Page) -> None:
    for line, text in page.prose:
        for path in PATH.findall(text):
            assert "NAME" in path or (ROOT / path).exists(), f"{name_of(page)}:{line}: {path}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= SOURCE_LINES


def test_each_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None or find_spec("material") is None or find_spec("mkdocstrings") is None:
        pytest.skip("needs mkdocs-material and mkdocstrings: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Resolver" in (tmp_path / "site" / "api" / "index.html").read_text()
    shutil.rmtree(tmp_path / "site")
