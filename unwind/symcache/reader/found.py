"""The answers of a symcache, and its records as the file has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from icf.model import MemberFlag


class CachedMember(NamedTuple):
    """A function that may be at a body."""

    name: str  # linkage name, as in the symbol table
    flags: MemberFlag
    aliases: tuple[str, ...]


class Located(NamedTuple):
    """A body and its members; merged if there are two or more.

    Attributes:
        start: link-time address.
        size_bytes: of the body.
        members: in the order of the tables.
        is_complete: whether there are no other members.
    """

    start: int
    size_bytes: int
    members: tuple[CachedMember, ...]
    is_complete: bool  # there are no other members


class Record(NamedTuple):
    """A body as the file has it."""

    start: int
    size_bytes: int
    is_complete: bool
    names: tuple[tuple[int, ...], ...]  # of each member: name, aliases
    flags: tuple[int, ...]
    payloads: tuple[tuple[int, int], ...]  # of each member: where in `records`
