"""Which of the vtable pointers sampled with a stack still show how each frame was entered.

A frame's function was called through the vtable that its object pointed to at that moment. A sampler sees what the
object points to now, and constructors and destructors move that:

    Derived::close    called through Derived's vtable
      delete this
        ~Derived      the object points to Derived's vtable
          ~Base       the object points to Base's vtable, whose slots may hold other functions of the same body
            log       <- sampled here: `this` of Derived::close points to Base's vtable

At a function's first instruction nothing has happened yet. Later, and in frames further out, the pointer counts unless
one of the functions on the stack that ran since may have moved it: a constructor or a destructor, by its name, or
code that has one inlined, which shows by the address of that very group of vtables in it. A function without a symbol
may be anything that its module has, so there the address anywhere in the module counts. (A PLT stub has no symbol
either, but it is the linker's, and only jumps.) Functions that have returned count, too, if the frame's function passed
the object to them (`unwind.resolve.moved`). A pointer to a vtable that the tables do not list excludes nothing. A
destroyed object cannot be detected: its memory may already hold another object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from unwind.program.program import Body, Program, VtableGroup
from unwind.resolve.moved import SPECIAL, Moves
from unwind.resolve.places import Marked, Place, Sampled, is_hidden

Vptrs = tuple[tuple[int, int], ...]  # (frame index, link-time vtable pointer)
_WORD_BYTES = 8
_DESTRUCTOR = re.compile(r"D[0-5](?:E|B\d)|^~")  # Itanium C++ ABI, 5.1.4.3; of a function without linkage name: ~T


def read_vptrs(this: Mapping[int, int], read: Callable[[int, int], bytes | None], *, load_bias: int = 0) -> Vptrs:
    """Return the vtable pointers of objects, for `Resolver.resolve`.

    Args:
        this: run-time address of the object, by frame index, for each frame where it is known: from DWARF's location of
            `this` or, at a function's first instruction, the register of the first argument.
        read: `read(address, size_bytes)` returns memory of the process or core.
        load_bias: run-time less link-time addresses of the module.

    Returns:
        (frame index, link-time vtable pointer) of each object; objects that `read` cannot read (OSError, None, or
        fewer bytes) are left out.
    """
    vptrs = []
    for frame_idx, address in sorted(this.items()):
        try:
            word = read(address, _WORD_BYTES)
        except OSError:
            continue
        if word is not None and len(word) == _WORD_BYTES:
            vptr = int.from_bytes(word, "little") - load_bias
            if vptr > 0:
                vptrs.append((frame_idx, vptr))
    return tuple(vptrs)


class Trust:
    """Decides for one program which vtable pointers count."""

    def __init__(self, place_of: Callable[[int, bool], Place]) -> None:
        self._place_of = place_of  # by address and whether that is exact
        self._is_special: dict[int, bool] = {}  # by first node of the body
        self._groups: dict[tuple[Program, int], VtableGroup] = {}  # of vtables, by a pointer to one
        self._forms: dict[tuple[int, VtableGroup], bool] = {}
        self._moved_by: dict[VtableGroup, dict[int, bool]] = {}  # by first node of a body further in
        self._moved_in: dict[tuple[int, VtableGroup], bool] = {}  # by first node of the body itself
        self._moves = Moves(self._forms_address)

    def frames(self, frames: tuple[Sampled, ...], vptrs: Vptrs) -> tuple[Sampled, ...]:
        """Return the frames, with the vtable pointer beside each that has one that counts."""
        found = list(frames)
        inner: list[int] = []  # first nodes of the bodies of frames further in
        hidden: set[Program] = set()  # modules that have a frame further in, in a function that is not known
        inner_count = 0
        for frame_idx, vptr in sorted(vptrs):
            frame = frames[frame_idx] if 0 <= frame_idx < len(frames) else None
            place = self._place(frame, frame_idx)
            body = None if place is None else place.body
            if frame is None or place is None or body is None or body.settled:
                continue
            vptr -= body.program.bias
            if not body.program.knows_vtable(vptr):
                continue
            places = [self._place(frames[idx], idx) for idx in range(inner_count, frame_idx)]
            inner += [each.body.first_node for each in places if each is not None and each.body is not None]
            hidden.update(each.program for each in places if each is not None and each.program and is_hidden(each))
            inner_count = frame_idx
            is_entry = not place.return_address and place.vaddr == body.start
            if is_entry or not self._may_be_moved(inner, hidden, body, vptr):
                mark = frame if isinstance(frame, Marked) else Marked(frame)
                found[frame_idx] = mark._replace(vptr=vptr)
        return tuple(found)

    def _place(self, frame: Sampled, frame_idx: int) -> Place | None:
        if frame is None:
            return None
        if isinstance(frame, Marked):
            return self._place_of(frame.address, frame_idx == 0 or frame.is_exact)
        return self._place_of(frame, frame_idx == 0)

    def _may_be_moved(self, inner: list[int], hidden: set[Program], body: Body, vptr: int) -> bool:
        """Return whether the function of a frame in `body`, or one of the frames further in, may have moved its
        pointer.
        """
        group = self._groups.get((body.program, vptr))
        if group is None:
            group = self._groups[body.program, vptr] = body.program.vtable_group(vptr)
        if self._forms_address(body, group) or any(program.may_form(None, group) for program in hidden):
            return True
        moved_by = self._moved_by.setdefault(group, {})
        for node in inner:
            moves = moved_by.get(node)
            if moves is None:
                other, _ = body.program.candidates[node]
                moves = moved_by[node] = self._has_special(other) or self._forms_address(other, group)
            if moves:
                return True
        key = body.first_node, group
        if key not in self._moved_in:
            self._moved_in[key] = self._moves.may_be_moved(body, group)
        return self._moved_in[key]

    def _forms_address(self, body: Body, group: VtableGroup) -> bool:
        key = (body.first_node, group)
        if key not in self._forms:
            self._forms[key] = body.program.may_form(body, group)
        return self._forms[key]

    def _has_special(self, body: Body) -> bool:
        found = self._is_special.get(body.first_node)
        if found is None:
            found = any(SPECIAL.search(name) for member in body.members for name in (member.name, *member.aliases))
            self._is_special[body.first_node] = found
        return found


def destructors(body: Body) -> int:
    """Return the members of a body that are destructors, going by their names."""
    return sum(
        1 << idx
        for idx, member in enumerate(body.members)
        if any(_DESTRUCTOR.search(name) for name in (member.name, *member.aliases))
    )
