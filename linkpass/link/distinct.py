"""A link that is done again until no frame of its program is left open (`icf link --distinct`).

    link 1    folds; the tables say which members of a body no evidence tells apart (`linkpass.distinct.evidence_sets`)
    link 2    of copies of the inputs in which all but one of them are marked (`linkpass.distinct.copies`)
    ...       until nothing is open, or nothing is left to mark

What was marked stands in a list beside the program (`linkpass.distinct.kept_list`), with which the next link begins: if
that leaves nothing open, it is the only one. Every link shortens the list of what is open or is the last, so this
ends; callers of functions that are kept apart no longer fold either, which can only take members from bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from icf.demangle import demangle
from icf.linkinputs.inputs import split_member
from icf.printable import printable
from linkpass.distinct.command import names_file, with_copies
from linkpass.distinct.copies import ApartFunction, Copies
from linkpass.distinct.kept_list import SUFFIX, KeptList
from linkpass.distinct.profile import open_functions
from linkpass.link.command import LinkCommand

if TYPE_CHECKING:
    from icf.tables.dcall import DirectCalls
    from icf.tables.foldtable import IcfTable
    from linkpass.distinct.open_frames import OpenFrames
    from linkpass.linked import Linked
    from linkpass.objects.functions import LinkObjects

_LINK_LIMIT = 8
_LISTED_COUNT = 5


class Distinct:
    """The links of one command, and what they keep apart; a context.

    `profile`: only functions that occur in it and stay open are kept apart; "" for all.
    """

    def __init__(self, command: LinkCommand, profile: str) -> None:
        self._given = command
        self._list_path = command.output + SUFFIX
        self._kept = KeptList.read(self._list_path)
        self._names = open_functions(profile, command.output) if profile else None
        self._functions = dict.fromkeys(self._kept.functions)
        self._impossible: set[str] = set()  # files, and members of archives, of which no copy can be linked
        self._saved_bytes: list[int] = []  # by folding, in each link
        self._open: OpenFrames | None = None
        self._folders = ExitStack()
        self._copies = Copies("")
        self.link_count = 0
        self.wants_another = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.close()

    @property
    def names(self) -> dict[str, str]:
        """The user's names of the files that the link reads in their place."""
        return self._copies.names()

    def begin(self) -> LinkCommand:
        """Return the command of the next link: where functions are marked, its inputs are copies."""
        self._folders.close()
        folder = self._folders.enter_context(TemporaryDirectory(prefix="icf-distinct-"))
        self.link_count += 1
        self.wants_another, self._open = False, None
        copies = self._copies = Copies(folder)
        copies.make(self._functions)
        words, unused = with_copies(self._given.command, copies.by_path, folder)
        for path in unused:
            del copies.by_path[path]
        self._impossible |= {*unused, *copies.impossible}
        missing = {*copies.missing, *(each for each in self._functions if split_member(each.input)[0] in unused)}
        self._functions = {each: None for each in self._functions if each not in missing}
        return self._given._replace(command=words)

    def inspect(self, linked: Linked, table: IcfTable, calls: DirectCalls, objects: LinkObjects) -> None:
        """Find what the link has left open, and whether another one is needed."""
        from linkpass.distinct.open_frames import find_open_frames

        found = find_open_frames(linked, table, calls, objects, self._copies.original, self._can_mark, self._names)
        self._open = found
        self._saved_bytes.append(found.saved_bytes)
        if found.apart and self.link_count < _LINK_LIMIT:
            self._functions.update(dict.fromkeys(found.apart))
            self.wants_another = True

    def finish(self, report: Callable[..., None]) -> None:
        """Write the list and report the result of the last link."""
        found = self._open
        if found is None:
            return
        new_bytes = self._saved_bytes[0] - self._saved_bytes[-1]
        before = self._kept.given_back_bytes if self._functions.keys() & {*self._kept.functions} else 0
        kept = KeptList(tuple(self._functions), before + max(new_bytes, 0))
        try:
            kept.write(self._list_path)
        except OSError as error:
            report(f"icf link: warning: {self._list_path}: {error.strerror}: the next link begins anew")
        report(*map(printable, self._lines(found, kept)))

    def _lines(self, found: OpenFrames, kept: KeptList) -> Iterator[str]:
        output, back_bytes = self._given.output, kept.given_back_bytes
        total_bytes = found.saved_bytes + back_bytes
        share = 100 * back_bytes / total_bytes if total_bytes else 0.0
        links = "1 link" if self.link_count == 1 else f"{self.link_count} links"
        count = len(kept.functions)
        yield (
            f"icf link: {output}: {count} function{' stays' if count == 1 else 's stay'} apart ({links}): of"
            f" {total_bytes:,} bytes that folding saves, {back_bytes:,} are given back ({share:.1f} %)"
        )
        by_reason: dict[str, list[tuple[str, ...]]] = {}
        for reason, names in found.remaining:
            by_reason.setdefault(reason, []).append(names)
        for reason, sets in by_reason.items():
            which = "1 set of functions stays" if len(sets) == 1 else f"{len(sets)} sets of functions stay"
            yield f"icf link: {output}: {which} together ({reason}):"
            for names in sets[:_LISTED_COUNT]:
                yield f"  {' = '.join(sorted(map(demangle, names)))}"
            if len(sets) > _LISTED_COUNT:
                yield f"  and {len(sets) - _LISTED_COUNT} more"
        if found.apart:
            yield f"icf link: {output}: {len(found.apart)} functions are still open after {links}"
        if found.lacking:
            bodies = "1 body is" if found.lacking == 1 else f"{found.lacking} bodies are"
            yield f"icf link: {output}: {bodies} left as folded: no evidence names some of their calls, which stay open"

    def _can_mark(self, function: ApartFunction) -> bool:
        """Return whether a function can still be marked."""
        file, _ = split_member(function.input)
        return (
            function not in self._functions
            and self._impossible.isdisjoint((file, function.input))
            and names_file(self._given.command, file)
        )
