"""All that the tables say, against the machine code of the same objects linked without folding.

Sampled stacks show what ran; tables speak of all code:

    bodies        these members share a body, and no others; each is one function, whatever names it has
    calls         the call before this return address, in this member, is one of that member
    tail calls    the same of a jump
    slots         this slot of a vtable holds this member
    pointers      no pointer leads to this member, but those in vtables

Without folding each member has code of its own. There the call is at the same offset, and the function at its target is
the one that is meant. capstone decodes the code; the symbols of both images, and the linker's report, say which
functions share a body (`tests.truth.folding`). So each of these is

    right      the function there has a name of the member
    open       the tables name no member
    unseen     the code was not found: a local function of a name that several files have, a target in another module
    wrong      another function is there
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from icf.debugfiles.opening import open_with_debug
from icf.model import ALL_MEMBERS, ClassFlag, FoldClass, Member, MemberFlag, MemberRef, TailCall
from icf.sets import distinct
from icf.tables.load import Tables, load_tables
from tests.truth.folding import Folding
from tests.truth.names import is_same
from tests.truth.reached import WORD_BYTES, Reached
from unwind.program.from_image import load_program
from unwind.program.program import Body, Program

KINDS = ("bodies", "calls", "tail calls", "slots", "pointers")
OUTCOMES = ("right", "open", "unseen", "wrong")
_STUB = "$plt"  # after the name of an ifunc: mold's symbol for the code that jumps to what it chooses


@dataclass
class Records:
    """Counts by kind and outcome, and what is wrong."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    findings: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, said: str = "") -> None:
        self.counts[kind][outcome] += 1
        if outcome == "wrong":
            self.findings.append(f"wrong: {kind}: {said}")


class _Caller(NamedTuple):
    """A place in a member of a body."""

    fold: FoldClass
    member_idx: int
    vaddr: int

    @property
    def offset(self) -> int:
        return self.vaddr - self.fold.vaddr


def judge_records(image: Path, folding: Folding) -> Records:
    """Judge the tables of `image`, the folded one of `folding`."""
    with open_with_debug(str(image), None, ()) as opened:
        judge = _Judge(folding, load_tables(opened), load_program(opened))
        judge.bodies()
        judge.calls()
        judge.tail_calls()
        judge.slots()
        judge.pointers()
    return judge.records


class _Judge:
    def __init__(self, folding: Folding, tables: Tables, program: Program) -> None:
        self.records = Records()
        self._originals, self._members = folding.originals, folding.members
        self._body_starts = folding.bodies_of
        self._objects = {vaddr: name for name, vaddr, _ in folding.bodies.objects}
        self._tables, self._classes, self._program = tables, tables.icf.classes, program
        self._reached = Reached(folding.originals)
        self._originals_of: dict[tuple[int, str], list[int]] = {}

    def bodies(self) -> None:
        for start, originals in self._members.items():
            certain = [each for each in originals if self._body_starts[each] == {start}]
            body = self._program.body_at(start)
            if len(certain) < 2 or body is None or body.start != start:
                continue
            missing = [each for each in certain if not self._is_one_of(each, body.members)]
            outcome = "right" if not missing else "open" if _may_have_others(body) else "wrong"
            self.records.add("bodies", outcome, f"{start:#x} has {self._shown(missing)}, says {_shown(body.members)}")
            true_names = list(map(self._names_of, certain))
            for member in body.members:
                if not is_one_function((member.name, *member.aliases), true_names):
                    said = " or ".join(member.aliases)
                    self.records.add("bodies", "wrong", f"{start:#x}: {member.name} is not {said}")

    def calls(self) -> None:
        for return_address in distinct(self._tables.direct.call_site).tolist():
            body = self._program.body_at(return_address - 1)
            if body is None:
                continue
            for idx, callees in self._program.callees(return_address, body).items():
                if idx < len(body.members):
                    said = [self._candidate(node) for node, _ in callees]
                    caller = _Caller(body.fold, idx, return_address)
                    self._judge_call("calls", caller, [member for member in said if member is not None])

    def tail_calls(self) -> None:
        for call in self._tables.icf.tail_calls:
            callee = self._member(call.callee)
            for caller in self._callers(call):
                self._judge_call("tail calls", caller, [] if callee is None else [callee])

    def slots(self) -> None:
        groups = defaultdict[str, set[int]](set)
        for name, vaddr, _ in self._originals.objects:
            groups[name].add(vaddr)
        for vtable in self._tables.icf.vtables:
            name = self._objects.get(vtable.group, "")
            for slot in vtable.slots:
                member = self._member(slot.function)
                places = [group + vtable.vaddr - vtable.group + WORD_BYTES * slot.slot for group in groups[name]]
                targets = [self._reached.word(place) for place in places] if len(places) == 1 else []
                self._judge("slots", f"{name} slot {slot.slot}", targets, [] if member is None else [member])

    def pointers(self) -> None:
        pointed = self._reached.pointed
        for fold in self._classes if pointed else ():  # of an image that the loader relocates
            if not fold.flags & ClassFlag.ADDRESS_TAKEN_KNOWN:
                continue
            taken = [member for member in fold.members if member.flags & MemberFlag.ADDRESS_TAKEN]
            known = {each for member in taken for each in self._found(fold.vaddr, member)}
            for member in fold.members:
                if not member.flags & MemberFlag.ADDRESS_TAKEN:
                    originals = self._found(fold.vaddr, member)
                    # an alias counts as a member of its own: the pointer is known under the other name
                    is_wrong = bool(originals) and pointed.issuperset(originals) and not known.issuperset(originals)
                    outcome = "wrong" if is_wrong else "right" if originals else "unseen"
                    self.records.add("pointers", outcome, f"{fold.vaddr:#x} {member.name}")

    def _judge_call(self, kind: str, caller: _Caller, said: list[Member]) -> None:
        member = caller.fold.members[caller.member_idx]
        targets = [
            target
            for start in self._found(caller.fold.vaddr, member)
            for target in self._reached.targets(start, caller.offset, is_call=kind == "calls")
        ]
        self._judge(kind, f"{caller.vaddr:#x} in {member.name}", targets, said)

    def _judge(self, kind: str, place: str, targets: Iterable[int], said: list[Member]) -> None:
        starts = [target for target in targets if target in self._originals.keys_at]
        is_right = any(self._is_one_of(start, said) for start in starts)
        outcome = "open" if not said else "unseen" if not starts else "right" if is_right else "wrong"
        self.records.add(kind, outcome, f"{place}: is {self._shown(starts)}, says {_shown(said)}")

    def _callers(self, call: TailCall) -> Iterator[_Caller]:
        fold, idx = self._classes[call.caller.class_idx], call.caller.member_idx
        for member_idx in range(len(fold.members)) if idx == ALL_MEMBERS else [idx]:
            yield _Caller(fold, member_idx, call.jump)

    def _member(self, ref: MemberRef) -> Member | None:
        return None if ref.member_idx == ALL_MEMBERS else self._classes[ref.class_idx].members[ref.member_idx]

    def _candidate(self, node: int) -> Member | None:
        body, idx = self._program.candidates[node]
        return body.members[idx] if idx < len(body.members) else None

    def _found(self, body_start: int, member: Member) -> list[int]:
        """Where the member of a body is without folding; several functions may have its name."""
        key = body_start, member.name
        if key not in self._originals_of:
            originals = self._members.get(body_start, ())
            self._originals_of[key] = [each for each in originals if self._is_one_of(each, [member])]
        return self._originals_of[key]

    def _is_one_of(self, original: int, members: Iterable[Member]) -> bool:
        true_names = self._names_of(original)
        return any(is_same(name, true_names) for member in members for name in (member.name, *member.aliases))

    def _names_of(self, original: int) -> list[str]:
        return [key.partition(_STUB)[0] for key in self._originals.keys_at[original]]

    def _shown(self, originals: Iterable[int]) -> str:
        return " or ".join(self._originals.keys_at[each][0] for each in originals)


def is_one_function(names: Iterable[str], functions: Sequence[Sequence[str]]) -> bool:
    """Whether no two of the names are those of different functions, whose own names are given."""
    named = [{row for row, own in enumerate(functions) if is_same(name, own)} for name in names]
    found = [rows for rows in named if rows]
    return len(found) < 2 or bool(set.intersection(*found))


def _may_have_others(body: Body) -> bool:
    return body.domain.bit_length() > len(body.members)


def _shown(members: Iterable[Member]) -> str:
    return " or ".join(member.name for member in members)
