"""What pointers point to, and what is at an offset of a class, by its members and bases.

    struct Each : Visitor { Visitor* then; };     at 8 of Each: a pointer to Visitor

Questions are generators: they yield the offset of a DIE and get its rows (`icf.dwarf.children`). `answer` asks some
thousand questions together and reads the DIEs of each round at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from icf.dwarf import columns as col
from icf.dwarf.children import ChildReader
from icf.dwarf.constants import (
    DW_TAG_atomic_type,
    DW_TAG_base_type,
    DW_TAG_const_type,
    DW_TAG_enumeration_type,
    DW_TAG_pointer_type,
    DW_TAG_reference_type,
    DW_TAG_restrict_type,
    DW_TAG_rvalue_reference_type,
    DW_TAG_typedef,
    DW_TAG_union_type,
    DW_TAG_volatile_type,
)

_NAMES = (DW_TAG_typedef, DW_TAG_const_type, DW_TAG_volatile_type, DW_TAG_restrict_type, DW_TAG_atomic_type)
_POINTERS = (DW_TAG_pointer_type, DW_TAG_reference_type, DW_TAG_rvalue_reference_type)
_CLASSES = (0x02, 0x13)  # class, structure
_CHAIN_LIMIT, _DEPTH_LIMIT, _PARTS_LIMIT, _ROUNDS = 16, 16, 64, 256
_QUESTIONS = 1 << 11  # asked together
_KEPT_ROWS = 1 << 14
_POINTER_BYTES = 8
_LARGEST_IN_REGISTERS_BYTES = 16  # System V ABI for x86-64, 3.2.3
_NO_ROW = (0,) * col.L_COUNT
_TYPE_OF_CHILD = (col.TAG_MEMBER, col.TAG_INHERITANCE)


class Rows(NamedTuple):
    """A DIE and those directly below it, each as a row of columns L_*."""

    own: tuple[int, ...]
    children: list[tuple[int, ...]]

    @property
    def tag(self) -> int:
        return self.own[col.L_TAG]

    @property
    def is_class(self) -> bool:
        """Whether this is a class, a structure or a union."""
        return self.tag in (*_CLASSES, DW_TAG_union_type)

    @property
    def is_known(self) -> bool:
        """Whether the DIE can be read, and its type if it has one."""
        return bool(self.own[col.L_TAG]) and not self.own[col.L_FLAGS] & col.L_FAILED


Answer = TypeVar("Answer")
Question = Generator[int, Rows, Answer]


class DieRows:
    """The rows of the DIEs of an image, kept until there are many."""

    def __init__(self, reader: ChildReader) -> None:
        self.reader = reader
        self._known: dict[int, Rows] = {}
        self._row_count = 0  # in `_known`

    def answer(self, questions: Iterable[Question[Answer]]) -> list[Answer | None]:
        """Return the answer of each question; None for one that does not end.

        Those of one unit should follow one another: then its DIEs are read once.
        """
        answers: list[Answer | None] = []
        remaining = iter(questions)
        while asked := list(islice(remaining, _QUESTIONS)):
            if self._row_count > _KEPT_ROWS:
                self._known, self._row_count = {}, 0
            answers.extend(self._answer(asked))
        return answers

    def _answer(self, asked: Sequence[Question[Answer]]) -> list[Answer | None]:
        answers: list[Answer | None] = [None] * len(asked)
        waiting: dict[int, list[int]] = {}
        self._go_on(((idx, None) for idx in range(len(asked))), asked, answers, waiting)
        for _ in range(_ROUNDS):
            if not waiting:
                break
            self._read(waiting)
            ready = [(idx, self._known[offset]) for offset, indexes in waiting.items() for idx in indexes]
            waiting = {}
            self._go_on(ready, asked, answers, waiting)
        return answers

    def _go_on(
        self,
        ready: Iterable[tuple[int, Rows | None]],
        asked: Sequence[Question[Answer]],
        answers: list[Answer | None],
        waiting: dict[int, list[int]],
    ) -> None:
        """Give each question what it waits for, until it asks for a DIE that has not been read."""
        for idx, rows in ready:
            try:
                offset = next(asked[idx]) if rows is None else asked[idx].send(rows)
                while offset in self._known:
                    offset = asked[idx].send(self._known[offset])
                waiting.setdefault(offset, []).append(idx)
            except StopIteration as end:
                answers[idx] = end.value

    def _read(self, wanted: Iterable[int]) -> None:
        offsets = np.array(sorted(wanted), np.uint64)
        for offset in offsets.tolist():
            self._known[offset] = Rows(_NO_ROW, [])
        rows = self.reader.read(offsets)
        self._row_count += len(rows)
        for row in map(tuple, rows.tolist()):
            offset = int(offsets[row[col.L_OWNER]])
            if self._known[offset].own is _NO_ROW:
                self._known[offset] = Rows(row, [])
            else:
                self._known[offset].children.append(row)


def named_type(offset: int) -> Question[Rows]:
    """Return the type that a DIE names, without typedefs and qualifiers; rows that are not known for `void`."""
    for _ in range(_CHAIN_LIMIT):
        if not offset:
            break
        rows = yield offset
        if rows.tag not in _NAMES:
            return rows
        offset = rows.own[col.L_TYPE]
    return Rows(_NO_ROW, [])


def pointee(offset: int) -> Question[Rows]:
    """Return what a type points or refers to; rows that are not known if that is not a pointer."""
    rows = yield from named_type(offset)
    if rows.tag not in _POINTERS or not rows.is_known:
        return Rows(_NO_ROW, [])
    return (yield from named_type(rows.own[col.L_TYPE]))


def pointee_at(holder: Rows, offset: int | None) -> Question[Rows]:
    """Return what the pointer at an offset of a class, or of an array of pointers, points to.

    None: at the place of any element of an array. An element that is a class is the pointer if it is no larger; a class
    that derives from it may have other pointers after it, which the caller must exclude.
    """
    if holder.tag in _POINTERS and holder.is_known and (offset is None or offset % _POINTER_BYTES == 0):
        return (yield from named_type(holder.own[col.L_TYPE]))
    if offset is None and holder.own[col.L_SIZE] != _POINTER_BYTES + 1:
        return Rows(_NO_ROW, [])
    return (yield from pointee((yield from pointer_at(holder, offset or 0))))


def is_result_in_memory(offset: int) -> Question[bool | None]:
    """Return whether a result of a type is in memory that the caller provides; None if that is not known."""
    if not offset:
        return False  # void
    rows = yield from named_type(offset)
    if rows.tag in (*_POINTERS, DW_TAG_base_type, DW_TAG_enumeration_type):
        return False
    return True if rows.own[col.L_SIZE] > _LARGEST_IN_REGISTERS_BYTES + 1 else None


def pointer_at(holder: Rows, offset: int) -> Question[int]:
    """Return the type of the pointer at an offset of a class; 0 if there is none, or if it is not known."""
    found: set[int] = set()
    parts = 0
    todo = [(holder, offset)]
    while todo:
        rows, at = todo.pop()
        parts += 1
        if rows.tag not in _CLASSES or not rows.is_known or parts > _PARTS_LIMIT:
            return 0
        for child in rows.children:
            place = child[col.L_OFFSET] - 1
            if child[col.L_TAG] not in _TYPE_OF_CHILD or child[col.L_FLAGS] & (col.L_STATIC | col.L_VIRTUAL):
                continue
            if place < 0 or place > at:
                continue
            type_ = yield from named_type(child[col.L_TYPE])
            size_bytes = type_.own[col.L_SIZE] - 1
            if type_.tag in _POINTERS:
                size_bytes = _POINTER_BYTES
            elif not type_.is_known or size_bytes < 0:
                return 0
            if at - place >= size_bytes:
                continue
            if type_.tag in _POINTERS:
                if place != at:
                    return 0
                found.add(child[col.L_TYPE])
            else:
                todo.append((type_, at - place))
    return found.pop() if len(found) == 1 else 0


def object_at(holder: Rows, offset: int) -> Question[Rows]:
    """Return the class of the object that begins at an offset of a class: a base, or a member that is not a pointer."""
    for _ in range(_DEPTH_LIMIT):
        if not offset or holder.tag not in _CLASSES or not holder.is_known:
            break
        inside = []
        for child in holder.children:
            place = child[col.L_OFFSET] - 1
            if child[col.L_TAG] in _TYPE_OF_CHILD and not child[col.L_FLAGS] & (col.L_STATIC | col.L_VIRTUAL):
                if 0 <= place <= offset:
                    type_ = yield from named_type(child[col.L_TYPE])
                    if offset - place < type_.own[col.L_SIZE] - 1:
                        inside.append((type_, offset - place))
        if len(inside) != 1:
            return Rows(_NO_ROW, [])
        holder, offset = inside[0]
    return holder if not offset else Rows(_NO_ROW, [])


def method_of(rows: Rows) -> int:
    """Return the DIE of a method of a class that has a linkage name; 0 if none is known."""
    return next((child[col.L_DIE] for child in rows.children if child[col.L_TAG] == col.TAG_SUBPROGRAM), 0)
