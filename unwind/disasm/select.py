"""What to disassemble: functions by name or by an address in them, and ranges of addresses.

A name is a linkage name, or what it demangles to: all of it, or without parameters, return type, template arguments or
leading scopes, so `Ledger::post` and `post` both mean `Ledger::post(Payment*)`. The closest of these that anything
answers to is taken, with all functions that answer to it. Those are tried first whose mangled names spell the
identifier (`unwind.disasm.names`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from icf.demangle import demangle
from icf.errors import IcfError
from unwind.disasm.names import FunctionNames, Named
from unwind.program.facts import CodeFacts
from unwind.program.program import Body, Program

_RANGE = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})\.\.(?:0x)?([0-9a-fA-F]{1,16})")
_ADDRESS = re.compile(r"(0x)?([0-9a-fA-F]{1,16})")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_FUNCTIONS_AT_MOST = 64  # of one name
_SUGGESTIONS = 5
_EXACT, _FORM, _SCOPED = 0, 1, 2  # how closely a name fits


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of code: of one function, of a PLT stub, made at run time, or of none of these."""

    start: int
    end: int
    body: Body | None = None
    member_idx: int = 0  # the member that was asked for, if one was
    stub: str = ""  # the import that the stub calls
    made: str = ""  # the name of a function made at run time


class Selection:
    """Finds code in one image."""

    def __init__(self, path: str, names: FunctionNames, program: Program, facts: CodeFacts) -> None:
        self._path, self._names, self._program, self._facts = path, names, program, facts
        self._code = [(vaddr, vaddr + len(contents)) for vaddr, contents in facts.code()]

    def regions(self, argument: str) -> Iterator[Region]:
        """Yield the code that an argument means. Raise IcfError if it means none."""
        given = _RANGE.fullmatch(argument)
        if given:
            start, end = int(given[1], 16), int(given[2], 16)
            if start >= end:
                raise IcfError(f"{argument}: the range ends where it starts, or before")
            return self._in_range(argument, start, end)
        address = _ADDRESS.fullmatch(argument)
        named = [] if address and address[1] else self._named(argument)
        if named:
            return iter(named)
        if address:
            return iter([self._around(int(address[2], 16))])
        raise IcfError(f"{self._path}: no function {argument!r}", hint=self._suggestion(argument))

    def between(self, start: int, end: int) -> Iterator[Region]:
        """Yield all code between two addresses; IcfError if there is none."""
        return self._in_range(f"{start:#x}..{end:#x}", start, end)

    # By address

    def _around(self, vaddr: int) -> Region:
        body = self._program.body_at(vaddr)
        if body is not None:
            return Region(body.start, body.end, body)
        stub = self._stub_at(vaddr)
        if stub is not None:
            return stub
        if any(start <= vaddr < end for start, end in self._code):
            raise IcfError(
                f"{self._path}: no symbol or table tells of a function at {vaddr:#x}",
                hint=f"a range shows the code there: {vaddr:#x}..{vaddr + 64:#x}",
            )
        raise IcfError(f"{self._path}: no code at {vaddr:#x}")

    def _in_range(self, argument: str, start: int, end: int) -> Iterator[Region]:
        parts = [(max(start, low), min(end, high)) for low, high in self._code]
        parts = [(low, high) for low, high in parts if low < high]
        if not parts:
            raise IcfError(f"{self._path}: no code in {argument}")
        return (region for low, high in sorted(parts) for region in self._split(low, high))

    def _split(self, start: int, end: int) -> Iterator[Region]:
        """Yield the functions, stubs and the rest in a stretch of code."""
        while start < end:
            idx = bisect_right(self._starts, start)
            limit = min(end, self._starts[idx]) if idx < len(self._starts) else end
            body = self._program.body_at(start)
            stub = self._stub_at(start) if body is None else None
            if body is not None:
                limit = min(limit, max(body.end, start + 1))
                yield Region(start, limit, body)
            else:
                yield Region(start, limit, stub=stub.stub if stub else "")
            start = limit

    def _stub_at(self, vaddr: int) -> Region | None:
        stubs = self._stubs
        idx = bisect_right(stubs, vaddr) - 1
        section = next(((low, high) for low, high in self._code if low <= vaddr < high), None)
        if idx < 0 or section is None or stubs[idx] < section[0]:
            return None
        end = min(stubs[idx + 1], section[1]) if idx + 1 < len(stubs) else section[1]
        return Region(stubs[idx], end, stub=self._facts.stubs[stubs[idx]])

    @cached_property
    def _stubs(self) -> list[int]:
        return sorted(self._facts.stubs)

    @cached_property
    def _starts(self) -> list[int]:
        """Where functions and stubs begin."""
        starts = {*self._names.starts(), *self._facts.stubs}
        return sorted(starts | {body.start for body in self._program.bodies})

    # By name

    def _named(self, wanted: str) -> list[Region]:
        """Return the functions of that name, by address."""
        found: dict[int, Region] = {}
        for candidates in (self._called(wanted), self._spelling(wanted), self._all_names()):
            fits: dict[int, list[tuple[str, int]]] = {}
            for name, vaddr in dict.fromkeys(candidates):
                fit = _fit(wanted, name)
                if fit is not None:
                    fits.setdefault(fit, []).append((name, vaddr))
            for name, vaddr in fits[min(fits)] if fits else ():
                region = self._of_member(vaddr, name)
                found.setdefault(region.start, region)
            if found:
                break
        if len(found) > _FUNCTIONS_AT_MOST:
            some = sorted({region.body.members[region.member_idx].name for region in found.values() if region.body})
            raise IcfError(
                f"{self._path}: {len(found)} functions answer to {wanted!r}",
                hint=f"say more, as {', '.join(repr(demangle(name)) for name in some[:2])}, or name an address",
            )
        return [found[start] for start in sorted(found)]

    def _of_member(self, vaddr: int, name: str) -> Region:
        body = self._program.body_at(vaddr)
        if body is None:
            return Region(vaddr, vaddr + 1)
        for idx, member in enumerate(body.members):
            if name == member.name or name in member.aliases:
                return Region(body.start, body.end, body, idx)
        return Region(body.start, body.end, body)

    def _called(self, name: str) -> Iterator[Named]:
        """Yield the functions with exactly that linkage name."""
        yield from self._names.called(name)
        yield from (each for each in self._listed if each[0] == name)

    def _spelling(self, wanted: str) -> Iterator[Named]:
        """Yield the mangled names that spell the identifier of a demangled one."""
        identifiers = _identifiers(wanted)
        if identifiers:
            yield from self._names.spelling(identifiers[-1])
            yield from (each for each in self._listed if identifiers[-1] in each[0])

    def _all_names(self) -> Iterator[Named]:
        yield from self._names.all()
        yield from self._listed

    @cached_property
    def _listed(self) -> list[Named]:
        """Return the names in the tables, also of functions whose symbols the linker dropped."""
        return [
            (name, body.start)
            for body in self._program.bodies
            for member in body.members
            for name in (member.name, *member.aliases)
        ]

    def _suggestion(self, wanted: str) -> str | None:
        last = (_identifiers(wanted) or [wanted])[-1].lower()
        alike = {name for name, _ in self._all_names() if last in name.lower()}
        if not alike:
            return None
        return f"did you mean {', '.join(repr(demangle(name)) for name in sorted(alike, key=len)[:_SUGGESTIONS])}?"


def _fit(wanted: str, linkage_name: str) -> int | None:
    """Return how closely a name fits; None: not at all."""
    if linkage_name == wanted:
        return _EXACT
    name = demangle(linkage_name)
    if name == wanted:
        return _EXACT
    if wanted not in name:
        return None
    forms = set(_forms(name))
    if wanted in forms:
        return _FORM
    return _SCOPED if any(form.endswith(f"::{wanted}") for form in forms) else None


def _forms(name: str) -> Iterator[str]:
    """Yield a demangled name without what may be left out, one after the other.

    >>> list(_forms("void ns::f<int>(int) const"))
    ['ns::f<int>(int) const', 'ns::f<int>', 'ns::f']
    """
    if " for " in name or " to " in name:  # a vtable for a class, a thunk to a function
        return
    depths = _depths(name)
    operator = name.find("operator")
    blank = max(
        (at for at in range(len(name)) if name[at] == " " and depths[at] == 0 and _is_return(name, at)), default=-1
    )
    if 0 <= operator < blank:
        blank = -1
    name, depths = name[blank + 1 :], depths[blank + 1 :]
    yield name
    opening = [at for at in range(len(name)) if name[at] == "(" and depths[at] == 0 and at and name[at - 1] != ":"]
    if opening and not name.startswith("operator()", max(opening[-1] - 8, 0)):
        name, depths = name[: opening[-1]], depths[: opening[-1]]
        yield name
    if name.endswith(">") and "operator" not in name:
        at = max(at for at in range(len(name)) if name[at] == "<" and depths[at] == 0)
        yield name[:at]


def _is_return(name: str, at: int) -> bool:
    """Return whether the blank at `at` stands between a return type and a name, and not after parameters."""
    return ")" not in name[:at].rpartition("::")[2] and "(" in name[at:]


def _depths(name: str) -> list[int]:
    """Return how many brackets are open before each character."""
    depths, depth = [], 0
    for at, char in enumerate(name):
        if char in ")]}" or (char == ">" and name[at - 1 : at] != "-" and depth):
            depth -= 1
        depths.append(max(depth, 0))
        if char in "([{" or (char == "<" and not name[:at].endswith(("operator", "operator<"))):
            depth += 1
    return depths


def _identifiers(name: str) -> list[str]:
    """Return the identifiers of a name, those of template arguments and parameters left out."""
    plain = "".join(char for char, depth in zip(name, _depths(name), strict=True) if depth == 0)
    return [word for word in _IDENTIFIER.findall(plain) if word not in ("operator", "const", "volatile")]
