"""The program made of the three tables and the code that they are about: of an image, or of a symcache.

Nothing here opens a file. Call-site records stay columns: a stack needs few of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from icf.columns import U64
from icf.contents import Contents
from icf.model import Evidence
from icf.tables.dcall import DirectCalls, parse_dcall
from icf.tables.icftable import IcfTable, parse_icf
from icf.tables.vcall import VirtualCalls, parse_vcall
from unwind.program.bound_slots import BoundSlots
from unwind.program.code import DecodedCode
from unwind.program.exports import Exports
from unwind.program.parts import CallRecord, Functions, SlotCall
from unwind.program.program import Linkage, Program

if TYPE_CHECKING:
    from unwind.program.facts import CodeFacts

Bytes: TypeAlias = bytes | memoryview
_EVIDENCE = {int(evidence): evidence for evidence in Evidence}


class Tables(NamedTuple):
    """The three tables of an image."""

    icf: IcfTable
    calls: DirectCalls
    virtual: VirtualCalls


def parse_tables(icf: Bytes, dcall: Bytes, vcall: Bytes, path: str, strings: Bytes | Contents = b"") -> Tables:
    """Return the tables in the bytes of three sections; names of members may be in the pool `strings`."""
    return Tables(parse_icf(icf, path, strings), parse_dcall(dcall, path), parse_vcall(vcall, path))


def make_program(
    tables: Tables | None,
    facts: CodeFacts,
    functions: Functions,
    exports: Exports,
    folds_imports: bool,
    linkage: Linkage | None,
    *,
    jumps_known: bool = True,
    bound_slots: BoundSlots | None = None,
    has_classes: bool = False,
) -> Program:
    """Return the program made of the parts of an image, or of a symcache.

    `jumps_known`: the tables have every jump that leaves a function.
    """
    code = DecodedCode(facts)
    if tables is None:
        return Program(
            code=code,
            functions=functions,
            exports=exports,
            folds_imports=folds_imports,
            linkage=linkage,
            bound_slots=bound_slots,
            has_classes=has_classes,
        )
    table, calls, virtual = tables
    return Program(
        table.classes,
        ColumnRecords(calls.call_site, calls.caller_die, calls.callee_die, bytes(table.evidence)),
        table.tail_calls,
        code,
        functions,
        slot_calls=ColumnSlotCalls(virtual, table.vcall_evidence, table.columns.vcall_object),
        vtables=table.vtables,
        types=table.types,
        objects=table.objects,
        pointer_jumps=table.pointer_jumps if jumps_known else None,
        callbacks=table.callbacks,
        tail_calls_known=jumps_known,
        exports=exports,
        folds_imports=folds_imports,
        linkage=linkage,
        bound_slots=bound_slots,
        has_classes=has_classes,
    )


class ColumnRecords:
    """Records that stay columns, sorted by call site; few of them are ever needed."""

    def __init__(
        self,
        call_site: U64,
        caller_die: U64,
        callee_die: U64,
        evidence: bytes,
    ) -> None:
        order = np.argsort(call_site, kind="stable")
        self._call_site = call_site[order].data
        self._caller_die = caller_die[order]
        self._callee_die = callee_die[order]
        known = np.frombuffer(evidence, dtype=np.uint8)
        self._evidence = known[order] if len(known) == len(order) else None

    def at(self, return_address: int) -> Sequence[CallRecord]:
        first = bisect_left(self._call_site, return_address)
        last = bisect_right(self._call_site, return_address, first)
        if first == last:
            return ()
        callers, callees = self._caller_die[first:last].tolist(), self._callee_die[first:last].tolist()
        if self._evidence is None:
            return [CallRecord(return_address, caller, callee) for caller, callee in zip(callers, callees, strict=True)]
        evidence = map(_EVIDENCE.__getitem__, self._evidence[first:last].tolist())
        return list(map(CallRecord, repeat(return_address), callers, callees, evidence))

    def sites(self, start: int, end: int) -> Sequence[int]:
        first = bisect_right(self._call_site, start)
        return sorted(set(self._call_site[first : bisect_right(self._call_site, end, first)]))


class ColumnSlotCalls:
    """Calls by the slots of vtables, as columns sorted by call site."""

    def __init__(self, calls: VirtualCalls, evidence: bytes, objects: U64) -> None:
        order = np.argsort(calls.call_site, kind="stable")
        self._call_site, self._slot = calls.call_site[order].data, calls.vtable_slot[order].data
        known = np.frombuffer(evidence, dtype=np.uint8)
        self._evidence = known[order].data if len(known) == len(order) else None
        self._object = (objects[order] if len(objects) == len(order) else np.zeros(len(order), np.uint64)).data

    def get(self, return_address: int, /) -> SlotCall | None:
        """Return the slot; None where none is known, or several are."""
        first = bisect_left(self._call_site, return_address)
        last = bisect_right(self._call_site, return_address, first)
        slots = set(self._slot[first:last])
        if len(slots) != 1:
            return None
        evidence = Evidence.TABLE if self._evidence is None else _EVIDENCE[max(self._evidence[first:last])]
        objects = set(self._object[first:last])
        return SlotCall(slots.pop(), evidence, objects.pop() if len(objects) == 1 else 0)
