"""Which function is in each slot of the vftables of a PE image.

    objects   ??_7Book@@6B@  slot 0  ?price@Book@@UEAAHH@Z          what compilers put there
    PDB       ??_7Book@@6B@  at 0x140002118                         where the vftable is
    image     0x140002118: 0x140001000                              must be the body of that function

lld-link folds equal vftables, which those without RTTI can be. Their names are then at one address, and a slot for
which they have different functions is one for all members of the body.

A vftable whose name the PDB does not have was not linked. If the image still has words like those that it would have,
that is not certain, and the functions in it count as taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from icf.model import ALL_MEMBERS
from icf.pe.image import PeImage
from icf.pe.vftables import find_vftables
from linkpass.pe.members import Function, Members
from linkpass.pe.references import References

_WORD_BYTES = 8
_Table = dict[int, set[Function | None]]  # by slot; None: one that is not known


@dataclass(slots=True)
class Slots:
    """What the slots hold, by address of the vftable and slot."""

    held: dict[tuple[int, int], Function] = field(default_factory=dict)  # its member may be ALL_MEMBERS
    virtual: set[Function] = field(default_factory=set)
    taken: set[Function] = field(default_factory=set)  # in vftables of which the place is not known
    are_those_of_objects: bool = True

    @property
    def places(self) -> set[int]:
        """Where the words are."""
        return {vaddr + slot * _WORD_BYTES for vaddr, slot in self.held}


def find_slots(image: PeImage, members: Members, references: References, words: dict[int, int]) -> Slots:
    """Return the slots; `words` are all addresses that the image holds in data, by place."""
    places, found = find_vftables(image), Slots()
    tables: dict[str, _Table] = {}
    for (name, slot), functions in references.slots.items():
        tables.setdefault(name, {})[slot] = functions
    at: dict[int, list[_Table]] = {}
    unplaced = []
    for name, table in tables.items():
        vaddrs = places.get(name, set())
        if len(vaddrs) == 1:
            at.setdefault(min(vaddrs), []).append(table)
        else:
            unplaced.append((table, bool(vaddrs)))
    row_of = {image.base + body.start: row for row, body in enumerate(members.bodies)}
    for name in places.keys() - tables.keys():  # of an object that was not given, maybe folded with another one
        for vaddr in places[name] & at.keys():
            at[vaddr].append({})
    for vaddr, folded in at.items():
        for slot in sorted(set().union(*folded)):
            _hold(found, members, vaddr, slot, folded, row_of.get(words.get(vaddr + slot * _WORD_BYTES, 0), -1))
    explained = found.places
    left = {place: row_of[word] for place, word in words.items() if word in row_of and place not in explained}
    places_of: dict[int, list[int]] = {}
    for place, row in left.items():
        places_of.setdefault(row, []).append(place)
    for table, is_linked in unplaced:
        if is_linked or _may_be_in(left, places_of, table):
            found.taken |= {each for functions in table.values() for each in functions if each is not None}
    return found


def _hold(found: Slots, members: Members, vaddr: int, slot: int, folded: list[_Table], row: int) -> None:
    """Add a slot of one or more folded vftables, in which the image has the body `row`; -1: none."""
    functions = set().union(*(table.get(slot, {None}) for table in folded))
    named = {each for each in functions if each is not None}
    if any(each.body != row for each in named):
        found.are_those_of_objects = False
    elif row >= 0:
        is_one = len(functions) == len(named) == 1
        found.virtual |= members.of_body(row) if None in functions else named
        found.held[vaddr, slot] = next(iter(named)) if is_one else Function(row, ALL_MEMBERS)


def _may_be_in(rows: dict[int, int], places_of: dict[int, list[int]], table: _Table) -> bool:
    """Return whether bodies are in a row, by the place of a word, as a vftable has them."""
    wanted = {slot: {each.body for each in functions if each is not None} for slot, functions in table.items()}
    wanted = {slot: bodies for slot, bodies in wanted.items() if bodies}
    if not wanted:
        return False
    # the slot that fewest words may be: thousands of vftables can have one body for their destructors
    rarest = min(wanted, key=lambda slot: sum(len(places_of.get(row, ())) for row in wanted[slot]))
    starts = (place - rarest * _WORD_BYTES for row in wanted[rarest] for place in places_of.get(row, ()))
    return any(
        all(rows.get(start + slot * _WORD_BYTES, -1) in each for slot, each in wanted.items()) for start in starts
    )
