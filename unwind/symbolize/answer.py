"""Answers: which function an address, or a frame of a stack, belongs to.

The symbolizer, the resolver and the symbolizer of running processes all answer with an `Answer`:

    answer.verdict                   what is certain about the function
    answer.name                      the demangled name, if it is certain
    answer.candidates                the functions that are still possible, otherwise
    answer.frames                    inlined functions and lines, innermost first, the function itself last

Lines are read on first use: a resolver answers thousands of frames whose lines no caller reads, and one body may be
that of thousands of functions. `read_frames` reads those of many answers at once: each function's record is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.demangle import demangle
from unwind.program.frame import Frame, Frames
from unwind.symcache.reader.symcache import SymCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from icf.model import Member, Verdict
    from unwind.process.jit.code import JitCode
    from unwind.program.parts import Lines
    from unwind.symbolize.reasons import Reason

_COMPARED = 16  # the frames that more functions have in common are of no use
_NAMELESS = Frame("", "", 0, 0, False)


class Candidate:
    """One of the functions that share a body, at an address in it.

    Attributes:
        linkage_name: as in the symbol table.
    """

    __slots__ = ("_lines", "_member_idx", "_vaddr", "linkage_name")

    def __init__(self, linkage_name: str, lines: Lines | None, vaddr: int, member_idx: int) -> None:
        self.linkage_name = linkage_name
        self._lines, self._vaddr, self._member_idx = lines, vaddr, member_idx

    @property
    def name(self) -> str:
        """The demangled name."""
        return demangle(self.linkage_name)

    @property
    def frames(self) -> Frames:
        """Its own inlined functions and lines; empty if the image has another function there."""
        return _read(self._lines, self._vaddr, self._member_idx, self.linkage_name)

    def __repr__(self) -> str:
        return f"<Candidate {self.name}>"


class Answer:
    """The answer for an address, or for a frame of a stack.

    Writers remember the text of an answer: equal answers of a resolver about one address are one object.

    Attributes:
        address: as it was given; None for a frame outside of the image, or one that tail calls left out.
        linkage_name: the function, of `unmerged` and `unique` answers; else None.
        source_name: in place of a linkage name that the image does not have.
        aliases: further symbols of the function.
        vaddr: link-time address; of a return address a byte inside the call.
        start: of the body, in the address space of `address`.
        size_bytes: of the body; 0: no function holds the address.
        is_complete: False if there may be more functions than these.
        linkage_names: the distinct ones of `candidates`.
        evidence: of the record that decided; "vptr": a vtable pointer in sampled memory.
        reason: why the answer is not one name; None if it is.
        module: path; "" for an unknown module, or the only one.
        member_idx: index of the member in its fold class; -1 if it is not known.
        missing: frames between this one and its caller that tail calls left out, innermost first.
        tail_call: whether it is such a frame: `address` is then that of its jump, None for one of several.
        members: all functions of its body, whatever the stack excludes; only resolvers set them.
    """

    __slots__ = (
        "_candidates",
        "_frames",
        "_lines",
        "_verdict",
        "address",
        "aliases",
        "evidence",
        "is_complete",
        "linkage_name",
        "linkage_names",
        "member_idx",
        "members",
        "missing",
        "module",
        "reason",
        "recorded_name",
        "size_bytes",
        "source_name",
        "start",
        "tail_call",
        "vaddr",
    )

    def __init__(
        self,
        address: int | None,
        verdict: Verdict | None = None,
        linkage_name: str | None = None,
        vaddr: int = 0,
        start: int = 0,
        size_bytes: int = 0,
        frames: Frames | None = None,
        is_complete: bool = True,
        linkage_names: tuple[str, ...] = (),
        candidates: Callable[[], Iterable[Candidate]] | None = None,
        evidence: str = "",
        reason: Reason | None = None,
        module: str = "",
        member_idx: int = -1,
        lines: Lines | None = None,
        source_name: str | None = None,
        aliases: tuple[str, ...] = (),
        missing: tuple[Answer, ...] = (),
        tail_call: bool = False,
        members: tuple[Member, ...] = (),
    ) -> None:
        self.address = address  # as it was given; None: a frame outside of the image, or one that tail calls left out
        self._verdict = verdict
        self.linkage_name = linkage_name  # only of `unmerged` and `unique` answers
        self.vaddr = vaddr  # as linked; of a return address a byte inside the call
        self.start = start  # of the body, in the address space of `address`
        self.size_bytes = size_bytes  # of the body; 0: no function holds the address
        self._frames = frames
        self.is_complete = is_complete  # else there may be more functions than these
        self.linkage_names = linkage_names  # the distinct ones of `candidates`
        self._candidates: tuple[Candidate, ...] | Callable[[], Iterable[Candidate]] = candidates or ()
        self.evidence = evidence  # what the record that decided rests on; "vptr": what memory held at the time
        self.reason = reason  # what keeps the answer from being one name
        self.module = module  # path; "" if it is in none that is known, or in the only one there is
        self.member_idx = member_idx  # the member of the body that it is, if that is known
        self._lines = lines
        self.source_name = source_name  # instead of a linkage name that the image does not have
        self.aliases = aliases  # further symbols of the function
        self.missing = missing  # frames between this one and its caller that tail calls left out, innermost first
        self.tail_call = tail_call  # is such a frame: `address` is that of its jump, None if it was one of several
        self.members = members  # all functions of its body, whatever the stack excludes; only resolvers give them
        self.recorded_name = ""  # what a recording calls a frame that is unknown

    def copy(self) -> Answer:
        """Return an answer of its own with the same contents.

        Returns:
            The copy; changes of it leave this answer as it is.
        """
        copied = Answer.__new__(Answer)
        for name in Answer.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    @property
    def verdict(self) -> Verdict:
        """What is certain about the function; for an address alone `unknown`, `unmerged` or `ambiguous`."""
        if self._verdict is None:
            from icf.model import Verdict

            alone = Verdict.UNMERGED if self.linkage_name is not None else Verdict.AMBIGUOUS
            self._verdict = alone if self.size_bytes else Verdict.UNKNOWN
        return self._verdict

    @property
    def name(self) -> str | None:
        """The demangled name, if it is certain."""
        return self.source_name if self.linkage_name is None else demangle(self.linkage_name)

    @property
    def is_named(self) -> bool:
        """Whether it is certain which function it is: the verdict is `unmerged` or `unique`."""
        return bool(self._own_name)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The functions that are still possible; empty if one is certain."""
        if not isinstance(self._candidates, tuple):
            self._candidates = tuple(self._candidates())
        return self._candidates

    @property
    def frames(self) -> Frames:
        """Inlined functions and lines, innermost first, the function itself last; empty if there is no function.

        With several candidates: what is the same in all of them, and the function itself has no name.
        """
        if self._frames is None:
            self._frames = self._read_frames()
        return self._frames

    def set_frames(self, frames: Frames) -> None:
        """Let these be its frames, whatever is known of its address.

        Args:
            frames: inlined functions and lines, innermost first, the function itself last.
        """
        self._frames = frames

    def _read_frames(self) -> Frames:
        name = self._own_name
        if name:
            read = _read(self._lines, self.vaddr, self.member_idx, name) if self._is_at_one_place else ()
            return read or (Frame(name, "", 0, 0, False),)
        if not self.linkage_names:
            return ()
        is_worth_it = self.is_complete and len(self.candidates) <= _COMPARED
        return agreed([each.frames for each in self.candidates]) if is_worth_it else (_NAMELESS,)

    @property
    def _own_name(self) -> str:
        return self.linkage_name or self.source_name or ""

    @property
    def _is_at_one_place(self) -> bool:
        """Whether it is one member at one address."""
        return self.member_idx >= 0 and (self.address is not None or not self.tail_call)

    def __repr__(self) -> str:
        at = "?" if self.address is None else f"{self.address:#x}"
        return f"<Answer {at} {self.verdict.value} {self.name or ' | '.join(self.linkage_names)}>"


def made_at_run_time(address: int, code: JitCode, module: str = "") -> Answer:
    """Return the answer for an address in a function that was made at run time."""
    own = Frame(code.name, code.path, code.line, code.column, False)
    return Answer(address, None, code.name, address, code.start, code.size_bytes, (own,), module=module)


def agreed(chains: list[Frames]) -> Frames:
    """Return what all chains have in common: it holds whichever of them is the right one."""
    first = chains[0]
    if not all(chains) or any(chain[:-1] != first[:-1] for chain in chains):
        return (_NAMELESS,)
    own = first[-1]
    is_same = all(chain[-1][1:] == own[1:] for chain in chains)
    return (*first[:-1], own._replace(linkage_name="") if is_same else _NAMELESS)


def read_frames(stacks: Iterable[Iterable[Answer]]) -> None:
    """Read the frames of all named answers of some stacks together: the record of each function is read once."""
    met = set[Answer]().union(*stacks)
    met.update([missing for answer in met for missing in answer.missing])
    of_cache: dict[SymCache, list[Answer]] = {}
    for answer in met:
        if answer._frames is None and answer._is_at_one_place and isinstance(answer._lines, SymCache):
            of_cache.setdefault(answer._lines, []).append(answer)
    for cache, asked in of_cache.items():
        for record, places in cache.by_body([answer.vaddr for answer in asked]):
            of_member: dict[int, list[Answer]] = {}
            for answer in map(asked.__getitem__, places):
                of_member.setdefault(answer.member_idx, []).append(answer)
            for member_idx, here in of_member.items():
                if member_idx < len(record.names):
                    chains = cache.chains(record, [answer.vaddr for answer in here], member_idx)
                    for answer, frames in zip(here, chains, strict=True):
                        if frames[-1].linkage_name == answer._own_name:  # else one by one: it has no line
                            answer._frames = frames


def _read(lines: Lines | None, vaddr: int, member_idx: int, name: str) -> Frames:
    """Return the frames of a member; none if the symbols of the image have another function there.

    The tables or the symbol table are then stale.
    """
    try:
        frames = tuple(lines.frames(vaddr, member_idx)) if lines is not None else ()
    except IndexError:
        return ()
    return frames if frames and frames[-1].linkage_name == name else ()
