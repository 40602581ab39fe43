"""The page as text: nothing in it can act but its own scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

from unwind.report.data import Image, Kind, MergedBody, MergedFunction, Profile, Report, Row, Tree
from unwind.report.document import document_of
from unwind.report.page import page_of

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script> & \" ' \x00 \udcff  f()"
BODY = MergedBody(0, 0x1136, 16, (MergedFunction(HOSTILE, HOSTILE, True, False),) * 2, ())
TREE = Tree((Row(0, "all", Kind.SAME, 3), Row(1, HOSTILE, Kind.CHANGED, 3, HOSTILE)), 1)
REPORT = Report(
    HOSTILE,
    [Image(HOSTILE, "", True, True, 1, 2, 16, 0, 0)],
    [BODY],
    0,
    Profile("pcs", HOSTILE, "count", samples=3, weight=3, before=TREE, after=TREE),
)


class Reader(HTMLParser):
    """Collects elements, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style"):
            self.texts.append((self.elements[-1][0], data))


def test_names_stay_names() -> None:
    page = page_of(document_of(REPORT))
    found = Reader(page)
    assert not any(tag == "img" for tag, _ in found.elements)
    assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    (data,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', page, re.DOTALL)
    assert "<" not in data
    read: dict[str, Any] = json.loads(data)
    assert read == json.loads(json.dumps(document_of(REPORT)))
    assert read["profile"]["names"] == ["all", HOSTILE]


def test_the_page_loads_nothing() -> None:
    page = page_of(document_of(REPORT))
    found = Reader(page)
    assert not any({"src", "href", "style"} & attributes.keys() - {"href"} for _, attributes in found.elements)
    assert [attributes["href"] for _, attributes in found.elements if "href" in attributes] == ["#main"]
    assert "@import" not in page and "url(" not in page


def test_the_policy_allows_these_scripts_and_styles_alone() -> None:
    page = page_of(document_of(REPORT))
    (policy,) = [each["content"] or "" for _, each in Reader(page).elements if "http-equiv" in each]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'" and allowed["base-uri"] == "'none'"
    for directive, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        texts = re.findall(pattern, page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert allowed[directive].split() == [f"'sha256-{digest}'" for digest in digests]


def test_the_same_report_is_the_same_page() -> None:
    assert page_of(document_of(REPORT)) == page_of(document_of(REPORT))
