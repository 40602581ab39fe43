"""A headless Chromium for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.support.toolchain import tool
from unwind.report.data import Report
from unwind.report.document import document_of
from unwind.report.page import page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_OPTIONS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)

Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser; skips where Chromium or Playwright is missing."""
    chromium = tool("chromium", "chromium-browser", "google-chrome")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[test]'")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=_OPTIONS.split())
        yield started
        started.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a report from its file; it must report no error, and ask for nothing else."""
    problems: list[str] = []
    contexts = []

    def open_(report: Report, scheme: Literal["light", "dark"] = "light", size: tuple[int, int] = (1200, 800)) -> Page:
        path = tmp_path / "report.html"
        path.write_text(page_of(document_of(report)), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []
