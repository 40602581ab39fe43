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
from functools import lru_cache
from typing import NamedTuple

from icf.elf.archive import map_file
from icf.errors import FormatError

_SECTION = "icf report"
_GOLD = re.compile(r"ICF folding section '(.+?)' in file '(.+)' into '(.+?)' in file '(.+)'")
_PLACE = re.compile(r"(.+):\((.+)\)")  # greedy: the file may have :( in it, the section hardly
_GOLD_WORDS = "ICF folding section "
_SELECTED_WORDS = "selected section "
_REMOVED_WORDS = "removing identical section "
_REMOVED_LINE = f"  {_REMOVED_WORDS}"  # most lines are this one
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
        if self.has_function_name or self.kept.section.startswith(_DATA_PREFIXES):
            return False
        return not any(ref.file.endswith(_WITHOUT_TEXT) for ref in (self.kept, *self.removed))


class IcfReport:
    """A report that is read while its linker still runs: text is added as it comes, in whole lines.

    `path` is what errors name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self._selected = -1  # a number
        self._classes = _Classes()

    def add(self, text: str) -> None:
        """Read some more lines. Raise FormatError if one of them begins in the right words and does not go on so."""
        if (nul := text.find("\0")) >= 0:  # a section may not have one in its name
            start = self._offset + text.rfind("\n", 0, nul) + 1
            raise FormatError(self._path, _SECTION, start, "line has a NUL")
        for line in text.split("\n"):
            if line.startswith(_REMOVED_LINE):
                self._remove(line, line[len(_REMOVED_LINE) :])
            elif _GOLD_WORDS in line:
                kept, removed = self._sections_of_gold(line.rstrip("\r"))
                self._classes.unite(self._classes.number(kept), self._classes.number(removed))
            elif (place := _after(line, _SELECTED_WORDS)) is not None:
                self._selected = self._classes.number(self._section(line, place))
            elif (place := _after(line, _REMOVED_WORDS)) is not None:
                self._remove(line, place)
            self._offset += len(line) + 1
        self._offset -= 1  # after the last line there is no line feed

    def classes(self) -> list[FoldedSections]:
        """Return the classes of all lines, sorted by their kept section."""
        return self._classes.sorted()

    def _remove(self, line: str, place: str) -> None:
        removed = self._section(line, place)
        if self._selected < 0:
            raise FormatError(self._path, _SECTION, self._offset, "section is removed before one is selected")
        self._classes.unite(self._selected, self._classes.number(removed))

    def _sections_of_gold(self, line: str) -> tuple[SectionRef, SectionRef]:
        """Return the kept and the removed section of a line of gold's."""
        match = _GOLD.fullmatch(line, line.index(_GOLD_WORDS))
        if match is None:
            raise FormatError(self._path, _SECTION, self._offset, f"line names no two sections: {line[:200]!r}")
        section, file, kept_section, kept_file = match.groups()
        return SectionRef(kept_file, kept_section), SectionRef(file, section)

    def _section(self, line: str, place: str) -> SectionRef:
        place = place.rstrip("\r")
        file, _, section = place.rpartition(":(")  # the file may have :( in it, the section hardly
        if file and len(section) > 1 and section[-1] == ")":
            return SectionRef(file, section[:-1])
        match = _PLACE.fullmatch(place)
        if match is None:
            text = line.rstrip("\r")[:200]
            raise FormatError(self._path, _SECTION, self._offset, f"line names no section as file:(section): {text!r}")
        return SectionRef(match[1], match[2])


def parse_icf_report(report: str | bytes | os.PathLike[str], path: str = "") -> list[FoldedSections]:
    """Return the classes of a report, sorted by their kept section.

    `report` is a path, or the text itself: a `str` of one line that is not a line of a report is taken for a path.
    """
    if isinstance(report, os.PathLike):
        path = path or os.fspath(report)
        text = _read_text(os.fspath(report))
    elif isinstance(report, bytes):
        path, text = path or "<report>", report.decode("utf-8", "surrogateescape")
    elif report and "\n" not in report and not any(word in report for word in _LINE_WORDS):
        path, text = path or report, _read_text(report)
    else:
        path, text = path or "<report>", report
    whole = IcfReport(path)
    whole.add(text)
    return whole.classes()


def _read_text(path: str) -> str:
    return str(map_file(path, may_be_pipe=True), "utf-8", "surrogateescape")


@lru_cache(maxsize=1 << 16)
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


def _after(line: str, words: str) -> str | None:
    """Return what follows these words; None if more than blanks or the name of the linker is before them."""
    head, found, place = line.partition(words)
    return place if found and (not head.strip() or head.rstrip().endswith(":")) else None


class _Classes:
    """Classes of sections that grow together, with sections as numbers in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[SectionRef, int] = {}
        self._above: list[int] = []  # of a class the sections form a tree
        self._removed: set[int] = set()

    def number(self, ref: SectionRef) -> int:
        """Return the number of a section."""
        number = self._numbers.setdefault(ref, len(self._above))
        if number == len(self._above):
            self._above.append(number)
        return number

    def unite(self, kept: int, removed: int) -> None:
        """Put two sections into one class."""
        if kept == removed:  # two sections of one name in one file
            return
        above = self._root(kept)
        self._removed.add(removed)
        self._above[self._root(removed)] = above

    def _root(self, number: int) -> int:
        above = self._above
        while number != above[number]:
            above[number] = number = above[above[number]]
        return number

    def sorted(self) -> list[FoldedSections]:
        """Return them all, sorted by their kept section."""
        members: dict[int, list[SectionRef]] = {}
        kept_of: dict[int, SectionRef] = {}
        for ref, number in self._numbers.items():
            root = self._root(number)
            members.setdefault(root, []).append(ref)
            # one section is never removed; several are when the text holds several links
            if number not in self._removed and (root not in kept_of or ref < kept_of[root]):
                kept_of[root] = ref
        classes = []
        for root, refs in members.items():
            refs.sort()
            kept = kept_of.get(root, refs[0])  # all are removed where several links disagree
            refs.remove(kept)
            if refs:
                classes.append(FoldedSections(kept, tuple(refs)))
        return sorted(classes, key=lambda folded: folded.kept)
