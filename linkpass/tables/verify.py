"""Checks the tables of an image against its machine code.

For every entry it checks: a call ends at the return address, and the body it calls, directly or through a register, is
the callee's; a jump
stands at the address of a tail call and goes to the callee's body; the caller is one of the functions of
the body that holds the instruction; an import that calls back is called where a callback is passed, after code that
forms its address; sections fit together; and `linkpass.tables.verify_virtual` checks vtables and pointers. An image
that passes makes no statement that its own code contradicts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain

import numpy as np

from icf.code.callbacks import is_passed
from icf.code.calls import CallKind, call_ending_at, direct_targets
from icf.code.jumps import jump_at
from icf.columns import I64, U64, Mask
from icf.debugfiles.stripped import STRIPPED_HINT, is_stripped
from icf.elf.image import Image
from icf.errors import IcfError
from icf.model import Callback, ClassFlag
from icf.pairs import PairIndex
from icf.sets import distinct
from icf.tables.dcall import DirectCalls
from icf.tables.icftable import IcfTable
from icf.tables.load import Tables, load_tables
from icf.tables.place import are_stale, stale_line
from icf.tables.vcall import VirtualCalls
from linkpass.pointer_jumps import known_calls
from linkpass.tables.verify_virtual import check_slots, check_virtual, decode_pointers


def verify_image(image: Image) -> list[str]:
    """Check the tables of an image against its machine code.

    Args:
        image: an open image.

    Returns:
        One line for each statement that the code contradicts; empty if there is none.

    Raises:
        IcfError: the image has no tables, or they are about other code.
        FormatError: a table breaks its format.
    """
    tables = check_present(image)
    problem = tables.check_evidence()
    problems = [problem] if problem else []
    bodies, found = decode_pointers(image, tables.icf)
    known = known_calls(image, found)
    by_register = dict(zip(known.end.tolist(), known.target.tolist(), strict=True))
    unread = distinct(tables.direct.call_site[bodies.starts_at(tables.direct.call_site - np.uint64(1)) == 0])
    by_register |= dict.fromkeys(unread.tolist())
    problems += check_tables(image, tables.icf, tables.direct, tables.virtual, by_register)
    return problems + list(check_slots(found, tables.virtual))


def check_present(image: Image) -> Tables:
    """Return the tables of an image. Raise IcfError if it has none, or they are about other code."""
    if are_stale(image):
        raise IcfError(stale_line(image.path), hint="link the program again")
    tables = load_tables(image)
    if not tables.present:
        hint = f"it is stripped: {STRIPPED_HINT}" if is_stripped(image) else "run icf pass first"
        raise IcfError(f"{image.path}: has no .debug_icf, .debug_dcall or .debug_vcall", hint=hint)
    return tables


def check_tables(
    image: Image,
    table: IcfTable,
    calls: DirectCalls,
    virtual_calls: VirtualCalls,
    by_register: Mapping[int, int | None],
) -> list[str]:
    """Return the statements of these tables that the code of `image` contradicts, a line each; slots of calls apart.

    `by_register` has the targets of calls through registers, by return address; None in code that cannot be followed.
    """
    return _Checker(image, table, by_register).check(calls) + list(check_virtual(image, table, virtual_calls))


class _Checker:
    def __init__(self, image: Image, table: IcfTable, by_register: Mapping[int, int | None]) -> None:
        self.image = image
        self.table = table
        self.by_register = by_register
        self.starts: list[int] = table.class_vaddr.tolist()
        self._names: dict[int, frozenset[str]] = {}  # by class

    @cached_property
    def _by_die(self) -> tuple[U64, I64]:
        """The DIEs of the members of whole functions, ascending, and their classes."""
        whole = (self.table.class_flags[self.class_of_member] & ClassFlag.FRAGMENT) == 0
        dies, classes = self.table.member_die[whole], self.class_of_member[whole]
        order = np.argsort(dies, kind="stable")
        return dies[order], classes[order]

    def _bodies_of(self, die: int) -> list[int]:
        """Return the classes that have the function of a DIE as a member."""
        dies, classes = self._by_die
        first, last = (np.searchsorted(dies, np.uint64(die), side=side) for side in ("left", "right"))
        found: list[int] = classes[first:last].tolist()
        return found

    def _names_at(self, class_idx: int) -> frozenset[str]:
        """Return all names of the members of a class: the call of a folded caller has the name of another one's."""
        names = self._names.get(class_idx)
        if names is None:
            members = self.table.fold_class(class_idx).members
            names = self._names[class_idx] = frozenset(chain(*((each.name, *each.aliases) for each in members)))
        return names

    @cached_property
    def class_of_member(self) -> I64:
        return np.repeat(np.arange(len(self.starts)), np.diff(self.table.member_start).astype(np.intp))

    def check(self, calls: DirectCalls) -> list[str]:
        problems = [
            f"class at {vaddr:#x}: the address is not in the file"
            for vaddr in self.starts
            if not self.image.read(vaddr, 1)
        ]
        problems += self._sizes()
        open_rows = np.flatnonzero(~self._plainly_right(calls))
        columns = (calls.call_site, calls.callee_die, calls.caller_die)
        for site, callee, caller in zip(*(column[open_rows].tolist() for column in columns), strict=True):
            problem = self._call(site, callee, caller)
            if problem:
                problems.append(f".debug_dcall: call site {site:#x}, callee {callee:#x}: {problem}")
        for tail in self.table.tail_calls:
            caller_class, callee_class = tail.caller.class_idx, tail.callee.class_idx
            target = jump_at(self.image, tail.jump)
            if not 0 <= tail.jump - self.starts[caller_class] < int(self.table.class_size[caller_class]):
                problems.append(f".debug_icf: tail call at {tail.jump:#x} is outside of its caller's body")
            elif target != self.starts[callee_class]:
                problems.append(
                    f".debug_icf: tail call at {tail.jump:#x}: no direct jump to {self.starts[callee_class]:#x}"
                )
        return problems + [problem for call in self.table.callbacks if (problem := self._callback(call))]

    def _sizes(self) -> Iterator[str]:
        """Yield the classes that are smaller than one of their functions."""
        symbols, table = self.image.symbols, self.table
        rows = symbols.functions
        at = np.minimum(np.searchsorted(table.class_vaddr, symbols.value[rows]), max(len(self.starts) - 1, 0))
        if not self.starts:
            return
        is_larger = (table.class_vaddr[at] == symbols.value[rows]) & (symbols.size_bytes[rows] > table.class_size[at])
        for row, idx in zip(rows[is_larger].tolist(), at[is_larger].tolist(), strict=True):
            sizes = f"{int(table.class_size[idx])} bytes, {symbols.name(row)} has {int(symbols.size_bytes[row])}"
            yield f".debug_icf: class at {self.starts[idx]:#x} of {sizes}"

    def _callback(self, call: Callback) -> str:
        """Return what is wrong with a callback; "" if nothing is."""
        callee = self.starts[call.callee.class_idx]
        at = f".debug_icf: callback at {call.call_site:#x}"
        if call.caller is not None:
            caller = call.caller.class_idx
            if not 0 < call.call_site - self.starts[caller] <= int(self.table.class_size[caller]):
                return f"{at} is outside of its caller's body"
        is_known = is_passed(self.image, call.call_site, callee)
        return "" if is_known else f"{at}: no import is called there with {callee:#x}"

    def _plainly_right(self, calls: DirectCalls) -> Mask:
        """Return the records, most of all, whose direct call goes to the start of the callee's body."""
        table = self.table
        if not self.starts:
            return np.zeros(len(calls), np.bool_)
        members = PairIndex(self.class_of_member.astype(np.uint64), table.member_die)
        target = direct_targets(self.image, calls.call_site)
        called = np.minimum(np.searchsorted(table.class_vaddr, target), len(self.starts) - 1)
        ok = (table.class_vaddr[called] == target) & (table.class_flags[called] & ClassFlag.FRAGMENT == 0)
        ok &= members.find(called.astype(np.uint64), calls.callee_die) >= 0
        place = calls.call_site - np.uint64(1)
        around = np.searchsorted(table.class_vaddr, place, side="right") - 1
        listed = around >= 0
        around = np.maximum(around, 0)
        listed &= place - table.class_vaddr[around] < table.class_size[around]
        ok &= ~listed | (calls.caller_die == 0) | (members.find(around.astype(np.uint64), calls.caller_die) >= 0)
        return np.asarray(ok)

    def _class_at(self, vaddr: int) -> int | None:
        """Return the class whose body holds an address."""
        idx = bisect_right(self.starts, vaddr) - 1
        return idx if idx >= 0 and vaddr < self.starts[idx] + int(self.table.class_size[idx]) else None

    def _call(self, site: int, callee: int, caller: int) -> str:
        call = call_ending_at(self.image, site)
        if call.kind is CallKind.NONE:
            return "no call ends there"
        target = self.by_register.get(site, call.target)
        if target is None and call.target is None and site in self.by_register:
            return ""
        target = call.target if target is None else target
        if target is None:
            return "the call is not a direct one"
        around = self._class_at(site - 1)
        if caller and around is not None and caller not in self.table.dies_of_class(around):
            return f"caller {caller:#x} is not a function at {self.starts[around]:#x}"
        bodies = self._bodies_of(callee)
        if not bodies:
            return "the callee is in no class" if self.starts else ""
        if any(self.starts[class_idx] == target for class_idx in bodies):
            return ""
        symbol = self.image.plt_stubs.get(target)
        if symbol and any(symbol in self._names_at(class_idx) for class_idx in bodies):
            return ""
        return f"the code calls {target:#x}"
