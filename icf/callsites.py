"""Write call sites as the YAML that `llvm-gsymutil --callsites-yaml-file` takes (LLVM 20 and later).

    functions:
      - name: 'main'
        callsites:
          - return_offset: 0x1f
            match_regex: ['^_ZN4ListI5OrderE3addEv$']
            flags: [InternalCall]

A GSYM file that has merged functions then says for a return address which of them the call means. `return_offset`
counts from the start of the function; the regular expressions match linkage names (LLVM, lib/DebugInfo/GSYM/
CallSiteInfo.cpp).

Where all members of a merged caller have debug information at its address, as gold leaves it, each has its own calls.
Else GSYM has the kept one alone, which stands for all of them: a call of its has what any of them calls there, if that
is recorded for each. Functions that a callee leaves to by a tail call are in the list, as the frame at the call can be
theirs; a call whose callee jumps through a pointer is left out.

GSYM finds a function by its name, and refuses a whole file for a name that it does not find: a caller counts if a
symbol of its name stands at its start, and no other function has the name.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icf.elf.image import Image
from icf.model import ALL_MEMBERS, FoldClass, MemberFlag, MemberRef
from icf.tables.load import Tables

_SPECIAL = re.compile(r"([^\w])", re.ASCII)


class CallSite(NamedTuple):
    """A call in a function."""

    return_offset: int  # of the return address, from the start of the function
    callees: tuple[str, ...]  # linkage names


def call_sites(tables: Tables, image: Image) -> dict[str, list[CallSite]]:
    """Return the calls that reach merged functions, by linkage name of the caller."""
    functions, reach = _Functions(image, tables.icf.classes), _Reach(tables)
    called: dict[int, dict[int, set[int]]] = {}  # return address -> DIE of the caller -> those of the callees
    calls = tables.direct
    for site, caller, callee in zip(
        calls.call_site.tolist(), calls.caller_die.tolist(), calls.callee_die.tolist(), strict=True
    ):
        called.setdefault(site, {}).setdefault(caller, set()).add(callee)
    found: dict[str, list[CallSite]] = {}
    for site, callees_of in sorted(called.items()):
        start = functions.start(site)
        for name, callees in _by_name(tables, functions.classes.get(start), callees_of):
            names = reach.names(callees)
            if names and functions.at.get(name) == start:
                found.setdefault(name, []).append(CallSite(site - start, tuple(sorted(names))))
    return found


def _by_name(
    tables: Tables, fold_class: FoldClass | None, callees_of: dict[int, set[int]]
) -> Iterator[tuple[str, set[int]]]:
    """Yield the names that a caller has in GSYM, each with the DIEs of its callees."""
    if fold_class is None or not fold_class.merged:
        if len(callees_of) == 1:
            for caller, callees in callees_of.items():
                yield (tables.die_name(caller) if caller else ""), callees
        return
    kept = next((each for each in fold_class.members if each.flags & MemberFlag.KEPT), None)
    if kept is None:
        for member in fold_class.members:
            if member.die in callees_of and not member.flags & MemberFlag.SYNTHETIC:
                yield member.name, callees_of[member.die]
    elif all(member.die in callees_of for member in fold_class.members):
        yield kept.name, set[int]().union(*[callees_of[member.die] for member in fold_class.members])


def yaml_lines(sites: dict[str, list[CallSite]]) -> Iterator[str]:
    """Yield the lines of the file."""
    yield "functions:" if sites else "functions: []"
    for name, calls in sorted(sites.items()):
        yield f"  - name: {_quoted(name)}"
        yield "    callsites:"
        for return_offset, callees in calls:
            yield f"      - return_offset: {return_offset:#x}"
            yield f"        match_regex: [{', '.join(_quoted(f'^{_escaped(callee)}$') for callee in callees)}]"
            yield "        flags: [InternalCall]"


def _escaped(name: str) -> str:
    return _SPECIAL.sub(r"\\\1", name)


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


class _Functions:
    """The functions of the symbol table."""

    def __init__(self, image: Image, classes: Sequence[FoldClass]) -> None:
        symbols = image.symbols if len(image.symbols) else image.dynamic_symbols
        rows = symbols.functions
        names = symbols.names(rows.tolist())
        starts, sizes = symbols.value[rows].tolist(), symbols.size_bytes[rows].tolist()
        counts = Counter(names)
        self.classes: dict[int, FoldClass] = {each.vaddr: each for each in classes}
        self.at = {name: start for name, start in zip(names, starts, strict=True) if counts[name] == 1}
        self._ends: dict[int, int] = {}
        for start, size_bytes in zip(starts, sizes, strict=True):
            self._ends[start] = max(self._ends.get(start, 0), start + size_bytes)
        self._starts = sorted(self._ends)

    def start(self, site: int) -> int:
        """Return the start of the function with the call that returns to `site`; -1 if there is none."""
        at = bisect_right(self._starts, site - 1) - 1
        return self._starts[at] if at >= 0 and site <= self._ends[self._starts[at]] else -1


class _Reach:
    """Which functions the frame at a call can be: the callee, and those that it leaves to by tail calls."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._classes = classes = tables.icf.classes
        starts = [each.vaddr for each in classes]
        self._leave_anywhere = {bisect_right(starts, each.jump) - 1 for each in tables.icf.pointer_jumps}
        self._of_die: dict[int, MemberRef] = {
            member.die: MemberRef(class_idx, member_idx)
            for class_idx, each in enumerate(classes)
            for member_idx, member in enumerate(each.members)
            if member.die
        }
        self._jumps: dict[MemberRef, set[MemberRef]] = {}
        for call in tables.icf.tail_calls:
            for caller in self._members(call.caller):
                self._jumps.setdefault(caller, set()).update(self._members(call.callee))

    def names(self, dies: set[int]) -> set[str]:
        """Return the linkage names; nothing if they are not all known."""
        refs = {self._of_die[die] for die in dies if die in self._of_die}
        names = {self._tables.die_name(die) for die in dies if die not in self._of_die}
        waiting = list(refs)
        while waiting:
            for ref in self._jumps.get(waiting.pop(), set()) - refs:
                refs.add(ref)
                waiting.append(ref)
        if "" in names or any(ref.class_idx in self._leave_anywhere for ref in refs):
            return set()
        return names | {self._classes[class_idx].members[member_idx].name for class_idx, member_idx in refs}

    def _members(self, ref: MemberRef) -> list[MemberRef]:
        if ref.member_idx != ALL_MEMBERS:
            return [ref]
        return [MemberRef(ref.class_idx, idx) for idx in range(len(self._classes[ref.class_idx].members))]
