"""Finds the functions that would have to stay unfolded so that every frame has one name, and their cost.

Two members of a body are indistinguishable if both are reached by calls that name no callee: through pointers and
vtables (`icf.tables.pointed`), or by calls that no record explains. Of k such members k - 1 have to be kept; the last
may share the body with all those that recorded calls reach. The choice makes no difference in size: the copies
are alike.

A kept function unfolds its callers, too: they are no longer identical to the callers of another
member. So callees come first, and members that already differ by their callees need nothing:

    grow<A> grow<B>   both in vtables                        keep grow<A>
    add<A>  add<B>    both in vtables, call grow<A>, <B>     they differ now, as nothing else folds them

gold folds first, and then takes what is to be kept out again. So there callers stay folded, and the function that gold
has folded the others into stays with them, named or not. Where it is not known which one that is, all are named.

gold and lld have the option, for symbols that are global in the objects, hidden ones too; mold does not. A response
file has no comments. Both split it as GNU does (`icf.linkinputs.responsefile`), so quotes, backslashes and blanks are
escaped. A name with a control character is left out: a newline that one reader takes as the end of an option would let
a name in an object give the linker options of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from icf.linkers import Linker
from icf.linkinputs.responsefile import escaped
from icf.model import ALL_MEMBERS, ClassFlag, FoldClass, Member, MemberFlag, TailCall
from icf.tables.dcall import DirectCalls
from icf.tables.pointed import pointed_at

_Node = tuple[int, int]  # class and member, by their indices
_INTERNAL = ("_ZL", "_ZZL")
_ANONYMOUS = "12_GLOBAL__N_1"


class Kept(NamedTuple):
    """A function that has to stay unfolded."""

    linkage_name: str
    symbols: tuple[str, ...]  # all that it has
    size_bytes: int  # of the copy that is no longer saved


class KeepUnique(NamedTuple):
    """The functions to keep so that every frame has one name, and what that costs."""

    functions: list[Kept]
    caller_bytes: int  # of functions that are no longer folded because what they call is not
    impossible: list[str]  # local functions, which no linker option can name: their frames stay ambiguous
    linker: Linker
    unlisted: int  # bodies that may have members which no evidence names: their frames stay ambiguous
    unwritable: list[str]  # symbols that have a control character, or no name: the response file leaves them out

    @property
    def size_bytes(self) -> int:
        """Return how many bytes the code of the image grows by."""
        return self.caller_bytes + sum(kept.size_bytes for kept in self.functions)

    def response_file(self) -> str:
        """Return the linker's options, one a line."""
        symbols = [symbol for kept in self.functions for symbol in kept.symbols if _is_writable(symbol)]
        return "".join(f"--keep-unique={escaped(symbol)}\n" for symbol in symbols)


def find_keep_unique(
    classes: Sequence[FoldClass], tail_calls: Sequence[TailCall], calls: DirectCalls, linker: Linker
) -> KeepUnique:
    """Return the fewest functions to keep, by the calls in the tables."""
    return _Planner(classes, tail_calls, calls, linker).plan()


class _Planner:
    def __init__(
        self, classes: Sequence[FoldClass], tail_calls: Sequence[TailCall], calls: DirectCalls, linker: Linker
    ) -> None:
        self._classes = classes
        self._linker = linker
        self._is_late = linker.folds_before_keeping
        self._pointed = pointed_at(classes, tail_calls)
        self._callees = known_callees(classes, tail_calls, calls)
        self._group: dict[_Node, int] = {}  # members of a class that have one group are identical

    def plan(self) -> KeepUnique:
        found = KeepUnique([], 0, [], self._linker, 0, [])
        caller_bytes = unlisted = 0
        for class_idx in callees_first(self._classes, self._callees):
            fold = self._classes[class_idx]
            unlisted += not fold.flags & ClassFlag.MEMBERS_COMPLETE
            by_callees: dict[tuple[int, ...], list[int]] = {}
            for idx in range(len(fold.members)):
                by_callees.setdefault(self._signature(class_idx, idx), []).append(idx)
            caller_bytes += (len(by_callees) - 1) * fold.size_bytes
            for group, members in enumerate(by_callees.values()):
                self._group.update(((class_idx, idx), group) for idx in members)
                self._split(class_idx, members, found)
        return found._replace(caller_bytes=caller_bytes, unlisted=unlisted)

    def _split(self, class_idx: int, identical: list[int], found: KeepUnique) -> None:
        """Keep all but one of those members that are indistinguishable."""
        fold = self._classes[class_idx]
        doubtful = identical
        if fold.flags & ClassFlag.CALLS_COMPLETE:
            doubtful = [idx for idx in identical if self._pointed[class_idx] >> idx & 1]
        if len(doubtful) < 2:
            return
        staying = self._staying(fold, doubtful)
        together = [fold.members[idx].name for idx in staying if not self._can_be_named(fold.members[idx])]
        has_company = len(staying) > 1 or (self._is_late and not _kept(fold))
        found.impossible.extend(together if has_company else [])
        for idx in doubtful:
            if idx in staying:
                continue
            member = fold.members[idx]
            self._group[class_idx, idx] = -1 - idx
            symbols = [name for name in (member.name, *member.aliases) if "." not in name]  # leaves out foo.localalias
            kept = Kept(member.name, tuple(symbols) or (member.name,), fold.size_bytes)
            found.functions.append(kept)
            found.unwritable.extend(symbol for symbol in kept.symbols if not _is_writable(symbol))

    def _staying(self, fold: FoldClass, doubtful: list[int]) -> list[int]:
        """Return the members that stay together: those that cannot be named, or one."""
        staying = [idx for idx in doubtful if not self._can_be_named(fold.members[idx])]
        if self._is_late:
            known = _kept(fold)
            return sorted({*staying, *known} & {*doubtful}) or doubtful[: len(known)]
        return staying or doubtful[:1]

    def _can_be_named(self, member: Member) -> bool:
        if member.flags & MemberFlag.NAMELESS:
            return False
        if not member.flags & MemberFlag.LOCAL:
            return True
        # hidden functions are local in the image, and global in their object; C++ names distinguish them from local
        # ones
        return member.name.startswith("_Z") and not member.name.startswith(_INTERNAL) and _ANONYMOUS not in member.name

    def _signature(self, class_idx: int, idx: int) -> tuple[int, ...]:
        """Return the groups of a member's callees, at the places where all members have a known callee."""
        if self._is_late:
            return ()
        return tuple(self._group.get(callees[idx], 0) for callees in self._callees.get(class_idx, ()))


def _is_writable(symbol: str) -> bool:
    return bool(symbol) and not any(character < " " or character == "\x7f" for character in symbol)


def _kept(fold: FoldClass) -> list[int]:
    """Return the member whose section the linker kept, if that is known."""
    return [idx for idx, member in enumerate(fold.members) if member.flags & MemberFlag.KEPT][:1]


def callees_first(classes: Sequence[FoldClass], callees: Mapping[int, Sequence[Mapping[int, _Node]]]) -> list[int]:
    """Return the merged classes, each after those that it calls, apart from circles; see `known_callees`."""
    import networkx as nx  # takes a fifth of a second, and most passes do not need it

    merged = [idx for idx, fold in enumerate(classes) if fold.merged]
    calls: nx.DiGraph[int] = nx.DiGraph()
    calls.add_nodes_from(merged)
    for class_idx in merged:
        called = {callee for each in callees.get(class_idx, ()) for callee, _ in each.values()}
        calls.add_edges_from((class_idx, idx) for idx in sorted(called) if classes[idx].merged)
    return list(nx.dfs_postorder_nodes(calls))


def known_callees(
    classes: Sequence[FoldClass], tail_calls: Sequence[TailCall], calls: DirectCalls
) -> dict[int, list[dict[int, _Node]]]:
    """Return, for each merged class, the known calls and jumps of all its members: a dict of callees per member."""
    node_of: dict[int, _Node] = {}
    for class_idx, fold in enumerate(classes):
        for idx, member in enumerate(fold.members):
            if member.die and not fold.flags & ClassFlag.FRAGMENT:
                node_of[member.die] = (class_idx, idx)
    sites: dict[tuple[int, int], dict[int, set[_Node]]] = {}
    for site, caller, callee in zip(
        calls.call_site.tolist(), calls.caller_die.tolist(), calls.callee_die.tolist(), strict=True
    ):
        if caller in node_of and callee in node_of:
            class_idx, idx = node_of[caller]
            sites.setdefault((class_idx, site), {}).setdefault(idx, set()).add(node_of[callee])
    for call in tail_calls:
        class_idx, idx = call.caller
        if call.callee.member_idx != ALL_MEMBERS:
            callee_node = (call.callee.class_idx, call.callee.member_idx)
            callers = range(len(classes[class_idx].members)) if idx == ALL_MEMBERS else [idx]
            for caller in callers:
                sites.setdefault((class_idx, call.jump), {}).setdefault(caller, set()).add(callee_node)
    found: dict[int, list[dict[int, _Node]]] = {}
    for (class_idx, _), by_member in sorted(sites.items()):
        if len(by_member) == len(classes[class_idx].members) and all(len(each) == 1 for each in by_member.values()):
            found.setdefault(class_idx, []).append({idx: next(iter(each)) for idx, each in by_member.items()})
    return found
