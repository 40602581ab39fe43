"""One image as the resolver sees it: bodies and their candidates, call-site records, tail calls, code.

A *body* is the code of one function, or of all functions that a linker folded into one. Its *candidates*
are the members of its fold class, in table order, and, unless membership is known to be complete, a last
*anonymous* one that stands for a function which no table lists. It distinguishes "all others are excluded" from "a
record names it": the first leaves the anonymous candidate, the second does not.

    body 0x1000   members a, b            complete     candidates a b        mask 0b011
    body 0x2000   members p, q            incomplete   candidates p q ?      mask 0b111

Every candidate of every body has a number of its own, its *node*: a body's nodes are consecutive and start
at `first_node`, so a set of candidates of one body is a bit mask and a set across bodies a set of ints. The programs
of one process number theirs together, so such a set may span modules.

A `Program` is made from plain data (tests do that), or from an image, another tool's tables or a symcache.
`functions` adds bodies that are in no fold class, as addresses need them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from icf.code.imports import comes_back, goes_on_to
from icf.model import (
    ALL_MEMBERS,
    Callback,
    ClassFlag,
    Evidence,
    FoldClass,
    Member,
    MemberFlag,
    MemberRef,
    ObjectType,
    PointerJump,
    TailCall,
    TypedObject,
    Vtable,
)
from unwind.program.bound_slots import BoundSlots
from unwind.program.dispatch import Dispatch
from unwind.program.exports import Export, Exports, ListedExports
from unwind.program.parts import CallRecord, Code, Functions, Lines, ListedCode, ListedRecords, Records, SlotCalls
from unwind.program.slots import Slots
from unwind.program.ways import ANY_WAY, Reach, Way, bits

Callees = Mapping[int, list[tuple[int, Evidence]]]  # by the caller's place in its class
_OF_CXX_LIBRARY = "_ZSt9terminatev"  # which libstdc++ and libc++abi define
_KEPT_CALLS = 1 << 14
_COLD = ".cold"  # after the name of a function: what a compiler has moved out of it


@dataclass(slots=True, eq=False)
class Body:
    """One body and the numbers of its candidates."""

    fold: FoldClass
    first_node: int
    listed: int  # mask of the members
    domain: int  # mask of all candidates
    class_idx: int  # in the tables; -1: they do not list it
    program: Program

    @property
    def start(self) -> int:
        return self.fold.vaddr

    @property
    def end(self) -> int:
        return self.fold.vaddr + self.fold.size_bytes

    @property
    def members(self) -> tuple[Member, ...]:
        return self.fold.members

    @property
    def is_fragment(self) -> bool:
        return bool(self.fold.flags & ClassFlag.FRAGMENT)

    @property
    def nodes(self) -> range:
        return range(self.first_node, self.first_node + self.domain.bit_length())

    @property
    def settled(self) -> bool:
        """Whether no stack can change the answer: there is one candidate."""
        return self.domain == 1

    def mask_of(self, nodes: Iterable[int]) -> int:
        """Return the candidates of this body among `nodes`."""
        first, width = self.first_node, self.domain.bit_length()
        mask = 0
        for node in nodes:
            if 0 <= node - first < width:
                mask |= 1 << (node - first)
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class VtableGroup:
    """The vtables of the same object, under one symbol."""

    home: Program  # whose image they are in
    addresses: range  # from the start of the symbol to the last address point, as linked there
    symbol: str
    vtables: tuple[Vtable, ...] = ()  # with addresses and functions of the module that borrows them; none: its own


class Linkage(Protocol):
    """The process that a program's image is loaded in; `unwind.process.process` implements it.

    A program without one stands alone: its neighbours are not known, and its run-time addresses are those of the
    link.
    """

    @property
    def path(self) -> str:
        """The path of the module."""

    @property
    def bias(self) -> int:
        """Run-time less link-time addresses."""

    @property
    def candidates(self) -> list[tuple[Body, int]]:
        """The candidates of all modules, by node."""

    @property
    def is_whole(self) -> bool:
        """Whether all modules of the process are known."""

    def dispatches(self) -> Iterable[Dispatch]:
        """Return the dispatches, pointer targets, of each module."""

    def nodes_named(self, symbol: str) -> list[int]:
        """Return the candidates that an import can mean; none if no module defines it, or one does so ambiguously."""

    def replaces(self, name: str) -> bool:
        """Return whether a module has a definition of its own of a function of the runtime, or of one of `prefix*`."""

    def is_replaced(self, symbol: str) -> bool:
        """Return whether this module's definition of a function may give way to one of which too little is known."""

    def imports(self, body: Body) -> Mapping[int, Reach]:
        """Return what is within reach of each jump of a body to an import, by its address, as far as that is known."""

    def borrowed(self, vptr: int) -> VtableGroup | None:
        """Return the group of vtables of another module that a vtable pointer, as linked in this one, points into."""


class Program:
    """Everything that the resolver needs of one image."""

    def __init__(
        self,
        classes: Sequence[FoldClass] = (),
        records: Records | Iterable[CallRecord] = (),
        tail_calls: Iterable[TailCall] = (),
        code: Code | None = None,
        functions: Functions | None = None,
        *,
        slot_calls: SlotCalls | None = None,
        vtables: Sequence[Vtable] = (),
        types: Sequence[ObjectType] = (),
        objects: Sequence[TypedObject] = (),
        pointer_jumps: Sequence[PointerJump] | None = None,
        callbacks: Sequence[Callback] = (),
        tail_calls_known: bool = True,
        exports: Exports | None = None,
        folds_imports: bool = False,
        linkage: Linkage | None = None,
        bound_slots: BoundSlots | None = None,
        has_classes: bool = False,
    ) -> None:
        self.code: Code = code or ListedCode()
        self._records: Records = ListedRecords(records) if isinstance(records, Iterable) else records
        self._functions = functions
        self.exports: Exports = exports or ListedExports()
        self.folds_imports = folds_imports
        self._linkage = linkage
        self.path, self.bias = (linkage.path, linkage.bias) if linkage else ("", 0)
        self.is_whole = linkage is not None and linkage.is_whole  # all modules of the process are known
        self.slot_calls: SlotCalls = {} if slot_calls is None else slot_calls
        self.vtables = tuple(vtables)
        self.bound_slots = bound_slots or BoundSlots()
        self.types, self.objects = tuple(types), tuple(objects)
        self.pointer_jumps = tuple(pointer_jumps or ())
        self.pointer_jumps_known = pointer_jumps is not None  # else code shows jumps, and not their targets
        self.tail_calls_known = tail_calls_known  # else jumps count as far as the code shows them
        self.dropped_records = 0  # of a foreign table, which did not fit the code
        self.lines: Lines | None = None  # what is inlined in its functions, and where
        # node -> its body and its place there; of all modules, where they share the list
        self.candidates: list[tuple[Body, int]] = linkage.candidates if linkage else []
        in_order = sorted(classes, key=lambda fold: fold.vaddr)
        self.bodies = [self._add(fold, idx) for idx, fold in enumerate(in_order)]
        # it has methods, and no table has their jumps; those of the C++ library are not known to tail-call others
        self.hides_jumps = has_classes and not self.bodies and not self.exports.find(_OF_CXX_LIBRARY)
        self._starts = [body.start for body in self.bodies]
        self._found: dict[int, Body] = {}
        self._callees: dict[tuple[int, int], Callees] = {}
        self._known_vtables: dict[int, bool] = {}  # whether their functions are known, by vtable pointer
        self._nodes_of_die: dict[int, list[int]] = {}
        for body in self.bodies:
            for node, member in zip(body.nodes, body.members, strict=False):
                if member.die:
                    self._nodes_of_die.setdefault(member.die, []).append(node)
        listed = tuple(tail_calls)
        everybody = linkage.dispatches if linkage and linkage.is_whole else None
        self.dispatch = Dispatch(
            Slots(in_order, listed, pointer_jumps or (), vtables),
            types,
            objects,
            everybody,
            self.borrowed_vtables,
            self.bound_slots.names_in,
            self._exported,
            self._imports_of_class,
            self._located,
            hides_jumps=self.hides_jumps,
        )
        self._given: dict[int, list[tuple[MemberRef | None, int, Evidence]]] = {}  # by return address
        for given in callbacks:
            row = (given.caller, self._node(given.callee), given.evidence)
            self._given.setdefault(given.call_site, []).append(row)
        self.tail_calls = [  # (address of the jump, caller node, callee node or the class node of its body)
            (call.jump, caller, callee)
            for call in listed
            for callee in [
                self.class_node(call.callee) if call.callee.member_idx == ALL_MEMBERS else self._node(call.callee)
            ]
            for caller in self._nodes_of(call.caller)
        ]

    def body_at(self, vaddr: int) -> Body | None:
        """Return the body whose code holds `vaddr`."""
        idx = bisect_right(self._starts, vaddr) - 1
        if idx >= 0 and vaddr < self.bodies[idx].end:
            return self.bodies[idx]
        fold = self._functions.find(vaddr) if self._functions else None
        if fold is None:
            return None
        if idx >= 0 and fold.vaddr == self.bodies[idx].start and not self.bodies[idx].settled:
            return self.bodies[idx]  # the tables have another size for it, as of a symbol without one
        body = self._found.get(fold.vaddr)
        if body is None:
            body = self._found[fold.vaddr] = self._add(fold)
        return body

    def callees(self, return_address: int, caller: Body) -> Callees:
        """Return the callees recorded for the call before `return_address`, by the caller's place in its class.

        A callee that no class lists is left out: then the code has to name it.
        """
        key = return_address, caller.first_node
        found = self._callees.get(key)
        if found is None:
            if len(self._callees) >= _KEPT_CALLS:
                self._callees.clear()
            found = self._callees[key] = self._find_callees(return_address, caller)
        return found

    def _find_callees(self, return_address: int, caller: Body) -> Callees:
        records = self._records.at(return_address)
        found: dict[int, list[tuple[int, Evidence]]] = {}
        for record in records:
            # a function that is not merged is the only caller there can be, whatever DIE of it the record names
            idx = 0 if caller.settled else self._idx_of_die(record.caller, caller)
            callees = self.nodes_of_die(record.callee)
            if idx >= 0 and callees:
                found.setdefault(idx, []).extend((callee, record.evidence) for callee in callees)
        return found

    @property
    def has_callbacks(self) -> bool:
        """Whether some functions are known that callers pass to imports that call them back."""
        return bool(self._given)

    def given(self, return_address: int, caller: Body) -> dict[int, tuple[int, Evidence]]:
        """Return what the call before `return_address` is given to call back, by the caller's place in its class.

        The call is that of an import, and calls back before it returns. A caller of which that is not known is left
        out.
        """
        found: dict[int, tuple[int, Evidence]] = {}
        for ref, callee, evidence in self._given.get(return_address, ()):
            nodes = caller.nodes if ref is None else [self._node(ref)]
            places = (node - caller.first_node for node in nodes if node in caller.nodes)
            found.update((idx, (callee, evidence)) for idx in places)
        return found

    def has_record(self, return_address: int) -> bool:
        """Return whether there is a record for the call before `return_address`."""
        return bool(self._records.at(return_address))

    def call_sites(self, body: Body) -> Sequence[int]:
        """Return the return addresses of the calls in a body that have a record."""
        return self._records.sites(body.start, body.end)

    def _idx_of_die(self, die: int, body: Body) -> int:
        """Return the member of a body that `die` describes; -1: none."""
        for node in reversed(self._nodes_of_die.get(die, ())):
            if 0 <= node - body.first_node < len(body.members):
                return node - body.first_node
        return -1

    def nodes_of_die(self, die: int) -> list[int]:
        """Return the members that `die` describes: functions, not the outlined parts that share its DIE."""
        nodes = self._nodes_of_die.get(die, [])
        return [node for node in nodes if not self.candidates[node][0].is_fragment] or nodes

    def parts(self, node: int) -> list[int]:
        """Return the nodes of the same source function in other bodies: outlined parts, or what they come from."""
        body, idx = self.candidates[node]
        die = body.members[idx].die if idx < len(body.members) else 0
        return [other for other in self._nodes_of_die.get(die, ()) if other != node]

    def cold_parts(self, body: Body, idx: int) -> list[int]:
        """Return the nodes of outlined parts of a candidate, those among them to which only an exception leads."""
        parts = self.parts(body.first_node + idx)
        found = [node for node in parts if self.candidates[node][0].is_fragment]
        if self._functions is None:
            return found
        names = [name + _COLD for member in body.members[idx : idx + 1] for name in (member.name, *member.aliases)]
        starts = [start for name in names for start in self._functions.named(name)]
        return found + [node for part in map(self.body_at, starts) if part is not None for node in part.nodes]

    def by_ways(self, body: Body, ways: Iterable[Way] = (ANY_WAY,), vptr: int = 0) -> int:
        """Return the candidates of a body that a call by one of `ways` can reach; `vptr` is the frame's, or 0."""
        if body.class_idx < 0:
            return body.domain
        return self.dispatch.members(ways, body.class_idx, vptr)

    def ways_of_call(self, return_address: int, caller: Body, callers: int) -> dict[Way, int]:
        """Return the ways that the call through a pointer before `return_address` takes, with the callers of each."""
        call = self.slot_calls.get(return_address)
        if call is None:
            return {ANY_WAY: callers}
        return self.dispatch.ways(call.slot, call.object, caller.class_idx, callers)

    def in_slot(self, slot: int) -> list[int]:
        """Return the candidates that a call by `slot`, or by ANY_POINTER, enters directly."""
        entered = self.dispatch.slots.in_slot(slot).items()
        return [self.bodies[class_idx].first_node + idx for class_idx, mask in entered for idx in bits(mask)]

    def ways_left_by(self, body: Body, idx: int, but: Collection[int] = ()) -> frozenset[Way]:
        """Return the ways by which a candidate is known to tail-call, ANY_WAY among them, except the jumps at `but`."""
        return self.dispatch.ways_left_by(body.class_idx, 1 << idx, but)

    def slot_jumps(self, body: Body) -> list[tuple[int, int]]:
        """Return the jumps by which a body is known to leave through a slot of some vtable: address and slot."""
        return self.dispatch.slots.slot_jumps(body.class_idx)

    def vtable_name(self, vptr: int) -> str:
        """Return the symbol of the vtable that `vptr`, as linked, points into; "" if that is not known."""
        own = self._functions.vtable_name(vptr) if self._functions else ""
        group = None if own or self._linkage is None else self._linkage.borrowed(vptr)
        return group.symbol if group is not None else own

    def vtable_group(self, vptr: int) -> VtableGroup:
        """Return the group that `vptr`, as linked, points into; `dispatch` knows it."""
        addresses = self.dispatch.slots.own_group(vptr)
        borrowed = None if addresses or self._linkage is None else self._linkage.borrowed(vptr)
        return borrowed or VtableGroup(self, addresses or range(0), self.vtable_name(vptr))

    def knows_vtable(self, vptr: int) -> bool:
        """Return whether it is known which functions of this module are in the vtable that `vptr` points to.

        It is not if another module may define a function of the same name (`LD_PRELOAD`) that jumps back here.
        """
        known = self._known_vtables.get(vptr)
        if known is None:
            known = self.dispatch.knows(vptr)
            bound = self.bound_slots.group_of(vptr) if known and self._linkage is not None else ()
            for symbol in (symbol for vtable in bound for _, symbol in vtable.slots):
                known = known and self._linkage is not None and not self._linkage.is_replaced(symbol)
            self._known_vtables[vptr] = known
        return known

    def may_form(self, body: Body | None, group: VtableGroup) -> bool:
        """Return whether the code of a body here may form the address of a group of vtables, of whichever module.

        None: the code of a function here that is not known.
        """
        if group.home is self:
            return body is None or self.code.may_form(body.start, body.end, group.addresses)
        if body is None:
            return bool(group.symbol) and self.code.some_may_load(group.symbol)
        return bool(group.symbol) and self.code.may_load(body.start, body.end, group.symbol)

    def borrowed_vtables(self, vptr: int) -> tuple[Vtable, ...]:
        """Return the vtables of the group of another module that `vptr` points into, with functions of this one."""
        group = None if self._linkage is None else self._linkage.borrowed(vptr)
        return () if group is None else group.vtables

    def nodes_named(self, symbol: str, caller: Body) -> list[int]:
        """Return the candidates that an import, `g` or `g@V1`, in code of `caller` can mean in all modules.

        None: not known.

        If the linker folds callers of different imports, the name is that of one of them.
        """
        if self._linkage is not None:
            nodes = self._linkage.nodes_named(symbol)
        else:
            nodes, is_certain = self.nodes_exported(symbol)
            nodes = nodes if is_certain else []
        if caller.settled or not self.folds_imports:
            return nodes
        bodies = dict.fromkeys(self.candidates[node][0] for node in nodes)
        return [node for body in bodies for node in body.nodes]

    def comes_back(self, symbol: str) -> bool:
        """Return whether a jump to an import may lead to functions of known modules other than those that it means."""
        return comes_back(symbol, self._replaces)

    def nodes_behind(self, symbol: str, caller: Body) -> list[int]:
        """Return the candidates of known modules that the runtime's function of that name tail-calls by their names."""
        names = sorted(filter(self._replaces, goes_on_to(symbol) or ()))
        return [node for name in names for node in self.nodes_named(name, caller)]

    @property
    def _replaces(self) -> Callable[[str], bool]:
        return (self._linkage or self.exports).replaces

    def nodes_exported(self, symbol: str) -> tuple[list[int], bool]:
        """Return the candidates that an import can mean here, and whether it can mean no others of this image."""
        nodes: list[int] = []
        is_certain = True
        for export in self.exports.find(symbol):
            body = None if export.is_chosen else self.body_at(export.vaddr)
            named = _named(body, export) if body is not None and body.start == export.vaddr else []
            nodes += named
            is_certain &= bool(named)
        return nodes, is_certain

    def _imports_of_class(self, class_idx: int) -> Mapping[int, Reach]:
        """Return what jumps of a class to imports reach, in a process of which all modules are known."""
        return self._linkage.imports(self.bodies[class_idx]) if self._linkage and self.is_whole else {}

    def _located(self, nodes: Iterable[int]) -> dict[int, int]:
        """Return the members of classes here among some candidates, by class."""
        found: dict[int, int] = {}
        for body, idx in map(self.candidates.__getitem__, nodes):
            if body.program is self and body.class_idx >= 0:
                found[body.class_idx] = found.get(body.class_idx, 0) | 1 << idx
        return found

    def _exported(self, symbol: str) -> dict[int, int] | None:
        """Return the functions that a name means here, by class; None: it is not certain which."""
        nodes, is_certain = self.nodes_exported(symbol)
        return self._located(nodes) if is_certain else None

    def _add(self, fold: FoldClass, class_idx: int = -1) -> Body:
        first_node = len(self.candidates)
        listed = (1 << len(fold.members)) - 1
        is_complete = fold.flags is ClassFlag.MEMBERS_COMPLETE or fold.flags & ClassFlag.MEMBERS_COMPLETE
        domain = listed if is_complete else listed << 1 | 1
        body = Body(fold, first_node, listed, domain, class_idx, self)
        self.candidates += [(body, idx) for idx in range(domain.bit_length())]
        return body

    @staticmethod
    def class_node(ref: MemberRef) -> int:
        """Return a negative number, the class node: it stands for any function of a body.

        Enumerating the functions would cost too much: jumps between bodies with thousands of members multiply.
        """
        return -1 - ref.class_idx

    def body_of_class_node(self, class_node: int) -> Body:
        """Return the body that a class node stands for."""
        return self.bodies[-1 - class_node]

    def nodes_of_class_node(self, class_node: int) -> range:
        """Return the candidates that a class node stands for."""
        return self.body_of_class_node(class_node).nodes

    def _nodes_of(self, ref: MemberRef) -> range | list[int]:
        body = self.bodies[ref.class_idx]
        return body.nodes[: len(body.members)] if ref.member_idx == ALL_MEMBERS else [self._node(ref)]

    def _node(self, ref: MemberRef) -> int:
        body = self.bodies[ref.class_idx]
        if not 0 <= ref.member_idx < len(body.members):
            raise ValueError(f"class {ref.class_idx} has no member {ref.member_idx}")
        return body.first_node + ref.member_idx


def _named(body: Body, export: Export) -> list[int]:
    """Return the candidates of a body that an exported symbol at its start names."""
    if body.settled:
        return [body.first_node]
    versioned = {f"{export.name}@{export.version}", f"{export.name}@@{export.version}"}
    for names in (versioned, {export.name}):
        members = [
            (node, member)
            for node, member in zip(body.nodes, body.members, strict=False)
            if not names.isdisjoint((member.name, *member.aliases))
        ]
        if members:  # a static function of that name is not the exported one
            return [n for n, member in members if not member.flags & MemberFlag.LOCAL] or [n for n, _ in members]
    return []
