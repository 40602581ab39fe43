"""The disassembler's notes about an instruction: facts as data, which the writers turn into text or JSON.

Functions are given by linkage names, and where several are possible by all of them: a note never picks one.
"""

from __future__ import annotations

from dataclasses import dataclass

from icf.model import Evidence


@dataclass(frozen=True, slots=True)
class Meaning:
    """Which functions are meant, in some members of the function that has the instruction."""

    callees: tuple[str, ...]  # one: that one; several: one of them
    callers: tuple[int, ...] = ()  # members of the body with the instruction, by index; none: in each of them
    may_be_another: bool = False  # one that the tables do not list
    evidence: Evidence | None = None

    @property
    def is_certain(self) -> bool:
        return len(self.callees) == 1 and not self.may_be_another


@dataclass(frozen=True, slots=True)
class Function:
    """A place in a body."""

    vaddr: int
    offset: int  # from the start of the body
    member_count: int  # functions that share the body
    meanings: tuple[Meaning, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """What the loader binds: `g`, or `g@V1`."""

    symbol: str


@dataclass(frozen=True, slots=True)
class Data:
    """A place outside of all functions."""

    vaddr: int
    names: tuple[str, ...] = ()  # symbols that begin at one place around it; several: data folds, too
    offset: int = 0  # from there, or from the start of the section
    section: str = ""
    text: str | None = None  # the string constant there


Place = Function | Import | Data


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place whose first word is an address."""

    place: Data
    target: Place
    is_constant: bool  # else it may have been changed since the program was loaded
    is_current: bool = False  # it was read from the memory of a process


@dataclass(frozen=True, slots=True)
class Likely:
    """A number that is the address of something."""

    place: Place


@dataclass(frozen=True, slots=True)
class VirtualCall:
    """A call or jump through a slot of the object's vtable."""

    slot: int
    merged: tuple[str, ...]  # functions in merged bodies that are possible there
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class JumpTable:
    """A jump by a table of places in the function."""

    vaddr: int
    targets: tuple[int, ...]  # by entry, up to the first that leads out of the known function
    entry_count: int | None  # None: not known, and the last targets may not belong to the table


Note = Function | Import | Data | Pointer | Likely | VirtualCall | JumpTable
