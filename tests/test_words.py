"""Plain words: what is written for readers has no word of `BANNED`, and the docstring of a function begins with a verb.

CONTRIBUTING.md has the rules. `BANNED` holds words that made sentences hard to read, with what to write instead.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("icf", "linkpass", "unwind")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")

BANNED = {
    r"told|said": "reported, recorded",
    r"nobody|somebody|whoever": "no evidence, a function, which function",
    r"who\b(?! (?:owns|runs|wants|reads|writes|links|builds|debugs))": "which function, what",
    r"behind": "after",
    r"fell": "excluded",
    r"jumps? on": "tail-calls",
    r"gives": "returns, has",
    r"(?<!there )(?:is|are) no(?! (?:longer|more|larger|smaller|other))\b(?= \w)": "is not a, has no",
    r"(?:has|have|had|is|are|may) lost|lost its|lost their": "is tombstoned, was dropped",
    r"hub": "class node",
    r"likewise": "the same holds for",
}
ANY_BANNED = re.compile(rf"\b(?:{'|'.join(f'({pattern})' for pattern in BANNED)})\b", re.IGNORECASE)
NO_VERBS = (  # what begins a docstring that is a fragment
    "A An The This That These Those All Each Some One No None It Its Their Whether What When Where Which Who Why How "
    "As By For From Of With Without Likewise True False Address Addresses Bytes Bodies Classes Functions Members Names "
    "Places Rows Symbols"
).split()


def banned(text: str) -> Iterator[str]:
    """Yield each banned word of a text, and what to write instead; names in backticks are code."""
    text = re.sub(r"`[^`\n]*`", "`", text)
    for found in ANY_BANNED.finditer(text):
        yield f"{found[0]!r}: write {list(BANNED.values())[(found.lastindex or 0) - 1]}"


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each comment and string of a Python file: docstrings, help, messages."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    # a file is split into tokens, which takes as long as all else, only if one of its comments may be worth reading
    if any(ANY_BANNED.search(line, line.find("#")) for line in source.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def fragments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and first word of docstrings that do not begin with a verb; a property has a noun."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not (text := ast.get_docstring(node)):
            continue
        is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
        first = text.split()[0]
        if not is_property and (first in NO_VERBS or not first[0].isupper()):
            yield node.body[0].lineno, first


def sources() -> list[Path]:
    """Return the files of the packages."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_no_source_has_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sources()
        for line, text in texts(path.read_text())
        for what in banned(text)
    ]
    assert found == []


def test_no_page_has_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}"
        for pattern in PAGES
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for what in banned(line)
    ]
    assert found == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}" for path in sources() for line, word in fragments(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Whoever calls this."""',
        "x = 1  # what nobody reads",
        "def f():\n    '''Return x.\n\n    It is no symbol.\n    '''",
        "fail(f'{path}: {name} fell')",
    ],
)
def test_a_banned_word_is_found(source: str) -> None:
    assert [what for _, text in texts(source) for what in banned(text)]


@pytest.mark.parametrize("text", ["there is no symbol", "it is no longer there", "a file that is not a symcache"])
def test_other_words_are_free(text: str) -> None:
    assert list(banned(text)) == []


def test_a_fragment_is_found() -> None:
    source = "def f():\n    '''{}'''\n"
    assert list(fragments(source.format("The frames of an answer."))) == [(2, "The")]
    assert list(fragments(source.format("`x` and its kind."))) == [(2, "`x`")]
    assert list(fragments(source.format("Return the frames of an answer."))) == []
    assert list(fragments("@property\n" + source.format("The frames of an answer."))) == []
