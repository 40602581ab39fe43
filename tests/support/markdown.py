"""Markdown as the documentation uses it: headings with their anchors, links, fenced blocks with their notes.

A note is an HTML comment on the line above a fence:

    <!-- needs: cmake, ld.lld -->       the section is skipped where one of these is missing
    <!-- not run: REASON -->            the block is shown only
    <!-- status: 1 -->                  the commands of the block end with this exit status
    <!-- output differs: REASON -->     the commands run, and their output is not compared
    <!-- numbers vary: REASON -->       a number in the output stands for any, but 0 for itself alone

A fence with a title (```sh title="icf-cc") is a file of that name, for the commands of its section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?$")
_NOTE = re.compile(r"^<!-- (needs|not run|status|output differs|numbers vary): (.+) -->$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    line: int  # of its fence, from 1
    language: str
    title: str
    text: str
    notes: dict[str, str]

    @property
    def numbers_vary(self) -> bool:
        """Whether numbers in the output depend on the version of a tool."""
        return "numbers vary" in self.notes

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command of a console block, with the lines of output below it."""
        found: list[tuple[str, list[str]]] = []
        continues = False
        for line in self.text.splitlines():
            if continues:
                command, output = found[-1]
                found[-1] = (f"{command}\n{line.removeprefix('> ')}", output)
            elif line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
            continues = line.endswith("\\") and (continues or line.startswith("$ "))
        return found


@dataclass(slots=True)
class Section:
    """What stands below one heading of the second level, or above the first of them."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)  # outside of blocks, with their numbers


@dataclass(slots=True)
class Page:
    """A file of Markdown."""

    path: Path
    sections: list[Section] = field(default_factory=lambda: [Section("")])

    @property
    def blocks(self) -> Iterator[Block]:
        for section in self.sections:
            yield from section.blocks

    @property
    def prose(self) -> Iterator[tuple[int, str]]:
        """Lines that are in no block."""
        for section in self.sections:
            yield from section.lines

    @property
    def anchors(self) -> set[str]:
        """What a link to this page may name after `#`."""
        headings = (match[1] for _, line in self.prose if (match := re.match(r"#+ (.+)$", line)))
        return {slug(heading) for heading in headings}

    @property
    def links(self) -> Iterator[tuple[int, str]]:
        """Targets of links, with their lines."""
        for number, line in self.prose:
            for target in _LINK.findall(_CODE.sub("", line)):
                yield number, target


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and Python-Markdown make it."""
    plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"\s", "-", plain)


def read_page(path: Path) -> Page:
    """Split a page into sections and blocks."""
    page = Page(path)
    lines = iter(enumerate(path.read_text().splitlines(), 1))
    notes: dict[str, str] = {}
    for number, line in lines:
        if fence := _FENCE.match(line):
            body: list[str] = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            text = "".join(f"{inner}\n" for inner in body)
            page.sections[-1].blocks.append(Block(number, fence[1], fence[2] or "", text, notes))
            notes = {}
            continue
        if note := _NOTE.match(line):
            notes[note[1]] = note[2]
            continue
        if line.startswith("## "):
            page.sections.append(Section(line[3:]))
        page.sections[-1].lines.append((number, line))
    return page
