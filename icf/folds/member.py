"""One source function at a body."""

from __future__ import annotations

from dataclasses import dataclass, field

NOWHERE = -1  # in place of an offset


@dataclass(slots=True)
class FoldMember:
    """One source function at a body."""

    name: str
    aliases: list[str] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)  # rows of the symbol table
    dies: list[int] = field(default_factory=list)  # concrete DIEs at this body
    roots: set[int] = field(default_factory=set)  # DIEs that declare it
    linkage: str = ""  # DW_AT_linkage_name, empty if DWARF has none
    local: bool = False
    kept: bool | None = None  # None: not known
    files: frozenset[str] = frozenset()  # source files of its local symbols
    nameless: bool = False  # `name` is not a linkage name: the image has none
    str_offset: int = NOWHERE  # of `name` in .debug_str, if that is known

    @property
    def die(self) -> int:
        """Return the DIE that stands for this member in the tables, 0 if it has none."""
        return min(self.dies, default=0)

    @property
    def names(self) -> list[str]:
        """Return the names of its symbols; none if the image has no linkage name for it."""
        return [] if self.nameless else [self.name, *self.aliases]

    def is_named(self, name: str) -> bool:
        """Return whether a symbol name is one of its own."""
        return bool(name) and not self.nameless and name in (self.name, self.linkage, *self.aliases)
