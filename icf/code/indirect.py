"""The calls and jumps through pointers in the functions of an image, and the vtable slots that they take.

    mov (%rdi), %rax        call *16(%rax)      slot 2 of the vtable of the object in the first argument
    mov ops(%rip), %rax     jmp  *%rax          leaves the function through any pointer
    mov 8(%rdi), %rax       jmp  *%rax          the same, but not through a vtable
    movslq (%rdx,%rax,4)    jmp  *%rax          a switch: stays in the function, and has no row here
    lea f(%rip), %rbx       call *%rbx          a call of f, as `call f` is

A slot is proven by following the values of registers from the entry of the function on (icf.code._flow). C code with
tables of its own, whose address is the first word of what the first argument points to, looks just the same.

An argument never points to a vtable: compilers pass objects, and never the vtable pointer of one. So a jump to a target
loaded from there goes through a pointer that the program has stored, and not through a slot (STORED_POINTER). Outlined
parts of functions get whatever registers happen to hold, so nothing is known there.

The targets of a switch are read from its table. If a jump inside of a function leads to unknown places of it, or the
function cannot be decoded, nothing is proven there: its calls have no slot. A jump leaves the function unless the stack
pointer is known to differ from its value on entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code import operations as op
from icf.code.branches import executable_sections
from icf.code.flow import Flow
from icf.code.jump_tables import JumpTables
from icf.code.landings import find_landings
from icf.columns import I64, U8, U64, Mask
from icf.elf.types import Machine
from icf.model import STORED_POINTER
from icf.sets import distinct, distinct_rows, is_in, union

if TYPE_CHECKING:
    from icf.image import AnyImage

LandingPads = Callable[[U64], tuple[I64, U64]]
NO_SLOT = -1
NO_OBJECT = -1
PATH_COLUMNS = op.FOUND_COLUMN_COUNT - op.FOUND_ROOT
_LONGEST_CALL_BYTES = 8
_ROUNDS = 8  # of finding switches: some are in code that others lead to
_LIMIT = 1 << 62  # of addresses, so that sums fit 64 bits
_NO_EDGES: I64 = np.empty((0, 2), np.int64)
_NO_PLACES: U64 = np.empty(0, np.uint64)
_NO_LANDINGS: I64 = np.empty(0, np.int64)


class Indirect(NamedTuple):
    """Calls and jumps through pointers, each by address.

    An object is a row: a register, how many loads lead from what it holds on entry to the object, and the offset before
    each load and after the last one; NO_OBJECT where that is not known.
    """

    call_end: U64  # return address
    call_slot: I64  # NO_SLOT where none is proven
    call_object: I64
    jump: U64  # address of a jump that leaves its function
    jump_slot: I64  # STORED_POINTER: not through a vtable
    jump_object: I64
    jump_place: U64  # the fixed place in memory that holds its target, 0 if there is none
    holder: U64  # address of a call or jump by a slot, for each register that points to its object then, or into it
    holder_end: U64  # return address of that call; the address of a jump
    holder_register: I64
    holder_offset: I64  # from where the register points to, to the object
    known_end: U64  # return address of a call whose target one instruction has put into its register
    known_target: U64  # the function, one of `starts`; 0 where a fixed place in memory holds its address
    known_place: U64  # that place, or 0
    known_source: U64  # the address of that instruction, which may be the call


def find_indirect(
    image: AnyImage,
    starts: U64,
    ends: U64,
    parts: U64,
    landing_pads: LandingPads | None = None,
    keepers: U64 = _NO_PLACES,
    threads: int = 1,
) -> Indirect:
    """Follow the functions `starts`..`ends`; those at `parts` belong to others. All three columns ascend.

    `landing_pads` returns where exceptions enter functions, by their starts, and the functions of which that is not
    known; without it no call has a known target. A call of anything but `keepers`, if there are any, may change all
    registers.
    """
    tables = JumpTables(image)
    found: list[Indirect] = []
    landings = find_landings(image, starts, ends, parts)
    for section in executable_sections(image):
        if section.vaddr + section.size_bytes > _LIMIT:
            continue
        text = section.code
        first, last = np.searchsorted(starts, np.array([section.vaddr, section.vaddr + len(text)], np.uint64)).tolist()
        if first == last:
            continue
        limits = np.append(starts[first + 1 : last], np.uint64(section.vaddr + len(text)))
        functions = np.stack([starts[first:last], np.minimum(ends[first:last], limits)], axis=1).astype(np.int64)
        places, is_jump = _candidates(image.machine, text, section.vaddr)
        bounds = np.searchsorted(places, functions)
        functions = functions[bounds[:, 1] > bounds[:, 0]]
        if len(functions):
            code = _Section(
                image, text, section.vaddr, functions, places, is_jump, parts, starts, landing_pads, keepers, threads
            )
            found.append(code.follow(tables, landings))
    if not found:
        none, nothing, paths = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((0, PATH_COLUMNS), np.int64)
        return Indirect(
            none, nothing, paths, none, nothing, paths, none, none, none, nothing, nothing, none, none, none, none
        )
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    orders = [np.argsort(columns[at], kind="stable") for at in (0, 3, 7, 11)]
    return Indirect(*(column[orders[(at >= 3) + (at >= 7) + (at >= 11)]] for at, column in enumerate(columns)))


class Switch(NamedTuple):
    """A jump through a table of places in its function."""

    jump: int
    table: int
    targets: tuple[int, ...]  # one for each entry, and maybe some for what follows the table


def find_switches(image: AnyImage, start: int, end: int) -> list[Switch]:
    """Return the jumps through tables in the function `start`..`end`, by address."""
    for section in executable_sections(image):
        if section.vaddr <= start < end <= section.vaddr + section.size_bytes <= _LIMIT:
            tables, function = JumpTables(image), np.array([[start, end]], np.int64)
            nowhere, nothing = np.empty(0, np.int64), np.empty(0, np.bool_)
            contents, parts = section.code, np.empty(0, np.uint64)
            code = _Section(image, contents, section.vaddr, function, nowhere, nothing, parts, parts, None, parts)
            rows = code.find_switches(np.zeros(1, np.int64), tables)[:, op.FOUND_AT : op.FOUND_MORE + 1].tolist()
            return sorted(Switch(jump, table[0], tuple(tables.entries(*table).tolist())) for jump, *table in rows)
    return []


class _Section:
    """The functions of one section that have such calls or jumps."""

    def __init__(
        self,
        image: AnyImage,
        text: memoryview,
        vaddr: int,
        functions: I64,
        places: I64,
        is_jump: Mask,
        parts: U64,
        starts: U64,
        landing_pads: LandingPads | None,
        keepers: U64,
        threads: int = 1,
    ) -> None:
        self._parts, self._landing_pads = parts, landing_pads
        self._unread_pads = np.empty(0, np.uint64)  # functions into which exceptions may lead anywhere
        self._text, self._vaddr = text, vaddr
        self._is_part = np.append(is_in(functions[:, 0].astype(np.uint64), parts), True)
        self._functions = functions  # start and end of each
        self._places, self._is_jump = places, is_jump  # where such a call or jump may be
        self._flow = Flow(image, text, vaddr, starts, keepers, threads)

    def follow(self, tables: JumpTables, landings: I64) -> Indirect:
        """Follow them all; then follow those with switches again, with the targets of the switches.

        So are those with calls of known targets, with the places where exceptions enter them.

        The register with the address of a table is often set before a loop, and code that only the table leads to
        goes on in the loop. So switches are searched for in reached code, which grows with each switch.
        """
        rows, status = self._flow.follow(self._functions, landings, _NO_EDGES)
        kind, slot, stack = rows[:, op.FOUND], rows[:, op.FOUND_SLOT], rows[:, op.FOUND_STACK]
        is_doubtful = (kind == op.JUMPS_BY_TABLE) | (kind == op.JUMPS_TO_VALUE) & (slot == 0) & (
            stack != op.AS_ON_ENTRY
        )
        doubtful = distinct(self._owner_of_rows(rows[is_doubtful]))
        is_followed = rows[:, op.FOUND_AT] - rows[:, op.FOUND_MORE] > _LONGEST_CALL_BYTES  # else the call is the source
        again, edges = distinct(self._owner_of_rows(rows[self._are_known(rows) & is_followed])), _NO_EDGES
        if len(again) + len(doubtful) and self._landing_pads is not None:
            # code that only a switch leads to may have calls of known targets the next time
            followed = union(again, doubtful)
            pads, self._unread_pads = self._landing_pads(
                union(self._functions[followed, 0].astype(np.uint64), self._parts)
            )
            landings = union(landings, pads)
            again = again[is_in(again, distinct(self._owner(pads)))]
        if len(doubtful):
            tables.meet(rows[kind == op.JUMPS_BY_TABLE, op.FOUND_SLOT])
            edges = _edges(_targets_of(self.find_switches(doubtful, tables), tables))
            owner = self._owner(edges[:, 1])
            elsewhere = owner != self._owner(edges[:, 0])
            landings = union(landings, edges[elsewhere, 1])
            again = union(union(again, doubtful), owner[elsewhere & (owner >= 0)])
            edges = edges[~elsewhere]
        if not len(again):
            return self._interpret(rows, status, _NO_EDGES)
        new, status[again] = self._flow.follow(self._functions[again], landings, edges)
        rows = np.concatenate([rows[~is_in(self._owner_of_rows(rows), again)], new])
        return self._interpret(rows, status, edges)

    def _are_known(self, rows: U64) -> Mask:
        """Return which rows are calls whose target one instruction says, outside of outlined parts."""
        kind = rows[:, op.FOUND]
        found = np.zeros(len(rows), np.bool_)
        if self._landing_pads is not None:
            found = (kind == op.CALLS_FUNCTION) | (kind == op.CALLS_FIXED)
            found[found] = ~self._is_part[self._owner_of_rows(rows[found])]
        return found

    def find_switches(self, doubtful: I64, tables: JumpTables) -> U64:
        """Return jumps through tables in some of the functions, as rows of the kernel."""
        targets_of: dict[int, I64] = {}
        edges, rows, changed = _NO_EDGES, np.empty((0, op.FOUND_COLUMN_COUNT), np.uint64), doubtful
        # handlers of exceptions come last: the tables tell which other code has a path that leads to it
        for everything in (False, True):
            for _ in range(_ROUNDS):
                found, _ = self._flow.follow(self._functions[changed], _NO_LANDINGS, edges, everything=everything)
                rows = rows[~is_in(self._owner_of_rows(rows), changed)]
                rows = np.concatenate([rows, found[found[:, op.FOUND] == op.JUMPS_BY_TABLE]])
                tables.meet(rows[:, op.FOUND_SLOT])
                before = targets_of
                targets_of = _targets_of(rows, tables)
                jumps = [jump for jump in before.keys() | targets_of if before.get(jump) is not targets_of.get(jump)]
                if not jumps:
                    break
                changed = distinct(self._owner(np.array(jumps, np.int64)))
                edges = _edges(targets_of)
            changed = doubtful
        return rows

    def _owner(self, vaddrs: I64) -> I64:
        """Return the function that holds each address, -1 for none."""
        row = np.searchsorted(self._functions[:, 0], vaddrs, side="right") - 1
        return np.where((row >= 0) & (vaddrs < self._functions[np.maximum(row, 0), 1]), row, -1)

    def _owner_of_rows(self, rows: U64) -> I64:
        kind = rows[:, op.FOUND]
        is_end = (kind == op.CALLS_VALUE) | (kind == op.CALLS_FUNCTION) | (kind == op.CALLS_FIXED)
        return self._owner(rows[:, op.FOUND_AT].astype(np.int64) - is_end)

    def _interpret(self, rows: U64, status: U8, edges: I64) -> Indirect:
        known = rows[self._are_known(rows)]
        rows = rows[(rows[:, op.FOUND] != op.CALLS_FUNCTION) & (rows[:, op.FOUND] != op.CALLS_FIXED)]
        is_holder = rows[:, op.FOUND] == op.HOLDS_OBJECT
        holders, rows = rows[is_holder], _join(rows[~is_holder])
        owner = self._owner_of_rows(rows)
        kind, slot, stack = rows[:, op.FOUND], rows[:, op.FOUND_SLOT], rows[:, op.FOUND_STACK]
        is_switch = is_in(rows[:, op.FOUND_AT].astype(np.int64), edges[:, 0]) & (kind != op.CALLS_VALUE)
        is_call, is_fixed = kind == op.CALLS_VALUE, kind == op.JUMPS_TO_FIXED
        by_value = ((kind == op.JUMPS_TO_VALUE) | is_fixed) & ~is_switch
        # through a table of pointers to functions, or one that cannot be read
        by_table = (kind == op.JUMPS_BY_TABLE) & ~is_switch
        is_sure = by_value & (stack == op.AS_ON_ENTRY) | (kind == op.JUMPS_TO_VALUE) & (slot != 0) & (stack != op.MOVED)
        spoiled = np.zeros(len(self._functions) + 1, np.bool_)
        spoiled[owner[(by_value | by_table) & ~is_sure]] = True
        spoiled[:-1] |= status & op.UNREADABLE != 0
        slot = np.where(spoiled[owner] | ~(is_call | (kind == op.JUMPS_TO_VALUE)), np.uint64(0), slot)
        is_stored = (
            (kind == op.JUMPS_TO_VALUE)
            & (slot == 0)
            & (rows[:, op.FOUND_MORE] != 0)
            & ~spoiled[owner]
            & ~self._is_part[owner]
        )
        slot[is_stored] = STORED_POINTER + 1
        is_object = (slot > 0) & ~is_stored & (rows[:, op.FOUND_ROOT] > 0) & ~self._is_part[owner]
        path = rows[:, op.FOUND_ROOT :].astype(np.int64)
        path[:, 0] -= 1
        path[:, 2:][np.arange(op.LOADS_MAX + 1) > path[:, 1:2]] = 0
        path[~is_object] = NO_OBJECT
        calls, leaves = is_call, by_value & (stack != op.MOVED) | by_table
        # of a jump with several slots one row is left where none of them holds
        leaves[1:] &= (rows[1:, op.FOUND_AT] != rows[:-1, op.FOUND_AT]) | (slot[1:] != slot[:-1])
        fixed = np.where(is_fixed, rows[:, op.FOUND_SLOT], np.uint64(0))
        unread = self._unread(status)
        starts = self._functions[:, 0].astype(np.uint64)
        is_sound = ~spoiled[:-1] & ~is_in(starts, self._unread_pads)
        # a part of a function whose landing pads are not known may jump anywhere in it
        known = known[is_sound[self._owner_of_rows(known)] & (not is_in(self._unread_pads, self._parts).any())]
        by_memory = known[:, op.FOUND] == op.CALLS_FIXED
        return Indirect(
            rows[calls, op.FOUND_AT],
            slot[calls].astype(np.int64) - 1,
            path[calls],
            np.append(rows[leaves, op.FOUND_AT], unread),
            np.append(slot[leaves].astype(np.int64) - 1, np.full(len(unread), NO_SLOT)),
            np.concatenate([path[leaves], np.full((len(unread), PATH_COLUMNS), NO_OBJECT)]),
            np.append(fixed[leaves], np.zeros(len(unread), np.uint64)),
            holders[:, op.FOUND_AT],
            holders[:, op.FOUND_AT] + holders[:, op.FOUND_MORE],
            holders[:, op.FOUND_ROOT].astype(np.int64) - 1,
            holders[:, op.FOUND_OFFSET].astype(np.int64),
            known[:, op.FOUND_AT],
            np.where(by_memory, np.uint64(0), known[:, op.FOUND_SLOT]),
            np.where(by_memory, known[:, op.FOUND_SLOT], np.uint64(0)),
            known[:, op.FOUND_MORE],
        )

    def _unread(self, status: U8) -> U64:
        """Return the places of possible jumps in functions that cannot be decoded."""
        owner = self._owner(self._places)
        unread = (owner >= 0) & (np.append(status, 0)[owner] & 1 != 0)
        jumps: U64 = self._places[unread & self._is_jump].astype(np.uint64)
        return jumps


def _join(rows: U64) -> U64:
    """Replace jumps before which paths meet by what they are on each path, if that is a slot on all of them."""
    is_path = rows[:, op.FOUND] == op.JOINS_VALUE
    paths, rows = rows[is_path], rows[~is_path]
    is_sound = (paths[:, op.FOUND_SLOT] > 0) & (paths[:, op.FOUND_STACK] == op.AS_ON_ENTRY)
    is_open = (rows[:, op.FOUND] == op.JUMPS_TO_VALUE) & (rows[:, op.FOUND_SLOT] == 0)
    is_open &= (rows[:, op.FOUND_STACK] == op.AS_ON_ENTRY) & is_in(
        rows[:, op.FOUND_AT], distinct(paths[:, op.FOUND_AT])
    )
    is_open &= ~is_in(rows[:, op.FOUND_AT], distinct(paths[~is_sound, op.FOUND_AT]))
    paths = paths[is_in(paths[:, op.FOUND_AT], distinct(rows[is_open, op.FOUND_AT]))]
    paths[paths[:, op.FOUND_ROOT] == 0, op.FOUND_ROOT :] = 0
    paths[:, op.FOUND_OFFSET :][np.arange(op.LOADS_MAX + 1) > paths[:, op.FOUND_LOADS, None].astype(np.int64)] = 0
    paths[:, op.FOUND] = op.JUMPS_TO_VALUE
    paths = distinct_rows(paths)
    _, first, count = np.unique(paths[:, [op.FOUND_AT, op.FOUND_SLOT]], axis=0, return_index=True, return_counts=True)
    one = paths[first]
    one[count > 1, op.FOUND_ROOT :] = 0  # the same slot of different objects
    return np.concatenate([rows[~is_open], one])


def _targets_of(rows: U64, tables: JumpTables) -> dict[int, I64]:
    """Return each jump through a table, and its possible targets."""
    columns = rows[:, op.FOUND_AT : op.FOUND_MORE + 1].tolist()
    return {jump: tables.targets(*table) for jump, *table in columns}


def _edges(targets_of: dict[int, I64]) -> I64:
    """Return each jump and each of its targets, ascending."""
    jumps = sorted(targets_of)
    counts = [len(targets_of[jump]) for jump in jumps]
    targets = np.concatenate([np.empty(0, np.int64), *(targets_of[jump] for jump in jumps)])
    return np.stack([np.repeat(np.array(jumps, np.int64), counts), targets], axis=1)


def _candidates(machine: Machine, text: memoryview, vaddr: int) -> tuple[I64, Mask]:
    """Return where an indirect call or jump may be (`ff /2`, `ff /4`; blr, br and their kind), and which are jumps."""
    if machine is Machine.AARCH64:
        words = np.frombuffer(text[: len(text) // 4 * 4], "<u4")
        at = np.flatnonzero((words & 0xFE9FF000) == 0xD61F0000)
        is_jump = words[at] >> 21 & 1 == 0
        at *= 4
    else:
        code = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(code[:-1] == 0xFF)
        operation = code[at + 1] >> 3 & 7
        found = (operation == 2) | (operation == 4)
        at, is_jump = at[found], operation[found] == 4
    return at.astype(np.int64) + np.int64(vaddr), is_jump
