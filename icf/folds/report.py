"""The report of `--print-icf-sections`: which input sections a linker folded into which.

It is the only witness of a fold that leaves no symbol and no debug information. gold (on stderr), then
lld and mold (on stdout):

    ld.gold: ICF folding section '.text._Z3twov' in file 'a.o' into '.text._Z3onev' in file 'lib.a(b.o)'

    selected section lib.a(b.o):(.text._Z3onev)
      removing identical section a.o:(.text._Z3twov)

A line is recognized by its own words, so the parser accepts a build log with other output between the lines, and
with several links. gold translates its messages: run it with LC_ALL=C.

One rule holds whatever the order of the lines: two sections are in one class if a chain of lines joins them.
The order does vary, mold's from run to run, so classes are united first and sorted after, and the kept
section of a class is the one that no line removes. A "removing" line belongs to the last "selected" line.
A report that starts with a "removing" line is truncated and is refused, as is a line that begins in the right words
and does not go on in the right form. Guessing there would put functions into the wrong classes.

File and name identify a section. In objects that have many sections of one name (clang's
`-fno-unique-section-names`, assembly) the name does not identify the function: such names are `.text` or end in a
dot, and have no function name. An object without functions has an empty `.text`, which folds as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from icf.elf.archive import map_file
from icf.errors import FormatError

_SECTION = "icf report"
_GOLD = re.compile(r"ICF folding section '(.+?)' in file '(.+)' into '(.+?)' in file '(.+)'")
_PLACE = re.compile(r"(.+):\((.+)\)")  # greedy: the file may have :( in it, the section hardly
_GOLD_WORDS = "ICF folding section "
_SELECTED_WORDS = "selected section "
_REMOVED_WORDS = "removing identical section "
_LINE_WORDS = (_GOLD_WORDS, _SELECTED_WORDS, _REMOVED_WORDS)

# what compilers put between ".text" and the function; a trailing dot is clang's for "no function named"
_TEXT_KINDS = ("unlikely", "hot", "startup", "exit", "split", "unknown", "sorted")
_TEXT_PREFIXES = (".text.", ".ltext.", ".gnu.linkonce.t.")
_WITHOUT_TEXT = ("/crti.o", "/crtn.o")  # of the C runtime: what is identical to their .text is empty, too
_DATA_PREFIXES = (".rodata", ".lrodata", ".data", ".gcc_except_table")


class SectionRef(NamedTuple):
    """An input section of a link."""

    file: str  # as the linker prints it: main.o, lib.a(member.o)
    section: str

    @property
    def function_name(self) -> str:
        """Return the symbol of the function that the section was made for, empty if the name does not contain it."""
        return function_name(self.section)

    @property
    def has_function_name(self) -> bool:
        return bool(function_name(self.section))


class FoldedSections(NamedTuple):
    """Sections that share one body: the one in the output, and the removed ones."""

    kept: SectionRef
    removed: tuple[SectionRef, ...]  # sorted

    @property
    def has_function_name(self) -> bool:
        """Whether every section of the class was made for one function."""
        return all(ref.has_function_name for ref in (self.kept, *self.removed))

    @property
    def hides_functions(self) -> bool:
        """Whether functions were folded that the class does not name: of `.text`, or of a section named by hand."""
        refs = (self.kept, *self.removed)
        is_empty = any(ref.file.endswith(_WITHOUT_TEXT) for ref in refs)
        return not self.has_function_name and not is_empty and not self.kept.section.startswith(_DATA_PREFIXES)


def parse_icf_report(report: str | bytes | os.PathLike[str], path: str = "") -> list[FoldedSections]:
    """Return the classes of a report, sorted by their kept section.

    `report` is a path, or the text itself: a `str` of one line that is not a line of a report is taken for a path.
    """
    if isinstance(report, os.PathLike):
        report = os.fspath(report)
        return _classes(_pairs(_read_text(report), path or report))
    if isinstance(report, bytes):
        report = report.decode("utf-8", "surrogateescape")
    elif report and "\n" not in report and not any(word in report for word in _LINE_WORDS):
        path, report = path or report, _read_text(report)
    return _classes(_pairs(report, path or "<report>"))


def _read_text(path: str) -> str:
    return str(map_file(path, may_be_pipe=True), "utf-8", "surrogateescape")


def function_name(section: str) -> str:
    """Return `_Zfoo` of `.text._Zfoo` and its like.

    Empty for `.text`, `.text.hot.` and sections of no single function.
    """
    for prefix in _TEXT_PREFIXES:
        if section.startswith(prefix):
            name = section[len(prefix) :]
            kind, dot, rest = name.partition(".")
            if kind not in _TEXT_KINDS:
                return name
            if kind == "sorted":  # .text.sorted.NUMBER.NAME
                rest = rest.partition(".")[2]
            return rest if dot else ""
    return ""


def _pairs(text: str, path: str) -> Iterator[tuple[SectionRef, SectionRef]]:
    """Yield (kept, removed) of each line that reports a folding."""
    if (nul := text.find("\0")) >= 0:  # a section may not have one in its name
        raise FormatError(path, _SECTION, text.rfind("\n", 0, nul) + 1, "line has a NUL")
    selected: SectionRef | None = None
    offset = 0
    for raw in text.split("\n"):
        start, offset = offset, offset + len(raw) + 1
        line = raw.rstrip("\r")
        if _GOLD_WORDS in line:
            match = _GOLD.fullmatch(line, line.index(_GOLD_WORDS))
            if match is None:
                raise FormatError(path, _SECTION, start, f"line names no two sections: {line[:200]!r}")
            section, file, kept_section, kept_file = match.groups()
            yield SectionRef(kept_file, kept_section), SectionRef(file, section)
        elif _begins(line, _SELECTED_WORDS):
            selected = _place(line, _SELECTED_WORDS, path, start)
        elif _begins(line, _REMOVED_WORDS):
            removed = _place(line, _REMOVED_WORDS, path, start)
            if selected is None:
                raise FormatError(path, _SECTION, start, "section is removed before one is selected")
            yield selected, removed


def _begins(line: str, words: str) -> bool:
    """Return whether the line begins with one of these words, after only blanks or the name of the linker."""
    head, found, _ = line.partition(words)
    return bool(found) and (not head.strip() or head.rstrip().endswith(":"))


def _place(line: str, words: str, path: str, offset: int) -> SectionRef:
    match = _PLACE.fullmatch(line.partition(words)[2])
    if match is None:
        raise FormatError(path, _SECTION, offset, f"line names no section as file:(section): {line[:200]!r}")
    return SectionRef(match[1], match[2])


def _classes(pairs: Iterable[tuple[SectionRef, SectionRef]]) -> list[FoldedSections]:
    parent: dict[SectionRef, SectionRef] = {}
    removed_refs: set[SectionRef] = set()

    def root(ref: SectionRef) -> SectionRef:
        above = parent.setdefault(ref, ref)
        while above != parent[above]:
            parent[above] = parent[parent[above]]
            above = parent[above]
        parent[ref] = above
        return above

    for kept, removed in pairs:
        if kept != removed:  # two sections of one name in one file
            removed_refs.add(removed)
            parent[root(removed)] = root(kept)
    members: dict[SectionRef, list[SectionRef]] = {}
    for ref in parent:
        members.setdefault(root(ref), []).append(ref)
    classes = []
    for refs in members.values():
        # one section is never removed; several are when the text holds several links, none if these disagree
        kept = min((ref for ref in refs if ref not in removed_refs), default=min(refs))
        classes.append(FoldedSections(kept, tuple(sorted(ref for ref in refs if ref != kept))))
    return sorted(classes, key=lambda folded: folded.kept)
