"""A link that repeats one that was done: its tables are known, so it needs no pass.

    same command, same inputs            the objects are not read while the linker works
    same output of the linker, too       the output of the pass is made from what was kept (`linkpass.link.kept_link`)

An input is the same if its stamp is, or its content. The linker's own output is compared as a whole, by its digest,
while the kernel copies it; it is never inferred from the inputs. Tables follow from the two and the linker's report.

What the pass reads besides is none of these: debug information in other files (.dwo, dwz), members of thin archives,
objects that the link makes (LTO). Such links are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from icf.elf.archive import is_thin
from icf.filedigest import digest_of, is_settled, stamp_of
from linkpass.background import Background
from linkpass.link.kept_link import KeptLink, Seen
from linkpass.rewrite.file import replace_file

if TYPE_CHECKING:
    from linkpass.link.command import LinkCommand
    from linkpass.link.kept_links import KeptLinks
    from linkpass.link.run import RunningLink
    from linkpass.rewrite.layout import Layout


LaidOut: TypeAlias = "Callable[[Layout], None]"  # is called with the layout of the output
Beside: TypeAlias = Callable[[], None]  # what a thread does beside the pass


_REMOVED = b"  removing identical section "  # it is identical to that of the last line that is not one of these


class Done(NamedTuple):
    """What a pass did."""

    lines: tuple[str, ...]  # the summary
    notes: tuple[str, ...]
    is_self_contained: bool  # all was read from the image, the report and the objects


class _Link(NamedTuple):
    """A link, as in `KeptLink`."""

    inputs: tuple[str, ...]
    files: dict[str, Seen]
    report_digest: str
    image_digest: str
    image_bytes: int


class _OtherOutputError(Exception):
    """The linker has written another file than last time."""


class Repeat:
    """What is known of a link command; made before the link starts."""

    def __init__(self, command: LinkCommand, links: KeptLinks, *, keeps_relocations: bool) -> None:
        self._command = [str(keeps_relocations), *command.command]
        self.links = links
        self._last = self.links.load(self._command)

    def is_likely(self) -> bool:
        """Return whether all inputs of the last link are as they were."""
        return self._last is not None and all(_is_same(path, seen) for path, seen in self._last.files.items())

    def again(self, link: RunningLink, path: str) -> Done | None:
        """Do to the linked file at `path` what the pass did last time.

        None, with the file as it was, unless the link, which has ended, is the same.
        """
        last = self._last
        if last is None or last.inputs != tuple(link.names) or last.report_digest != digest_of_report(link.report):
            return None
        if last.files.keys() != link.files.keys() or not all(
            _has_stamp(file, seen) or seen.digest == sha256(link.files[file]).hexdigest()
            for file, seen in last.files.items()
        ):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size != last.image_bytes:
                return None
            with Background() as background:
                digest = background.start(partial(digest_of, fd, last.image_bytes, path))

                def check(_: str) -> None:
                    if digest().hex() != last.image_digest:
                        raise _OtherOutputError

                replace_file(path, path, fd, last.layout, check)
        except _OtherOutputError:
            return None
        finally:
            os.close(fd)
        return Done(last.lines, last.notes, is_self_contained=True)

    def keep(self, link: RunningLink, path: str, run: Callable[[LaidOut, Beside], Done]) -> Done:
        """Run the pass over the linked file at `path` with `run`, and keep what it did.

        A thread identifies files beside most of the pass, which has one thread.
        """
        layouts: list[Layout] = []
        seen: list[_Link] = []
        with open(path, "rb", buffering=0) as image:
            done = run(layouts.append, lambda: seen.append(self._look_at(link, image.fileno(), path)))
            if done.is_self_contained and seen and not any(map(is_thin, link.files.values())):
                kept = KeptLink(*seen[0], layouts[0], done.lines, done.notes)
                self.links.save(self._command, kept)
        return done

    def _look_at(self, link: RunningLink, image_fd: int, path: str) -> _Link:
        before = self._last.files if self._last is not None else {}
        files = {
            file: _seen_now(file, content, link.start_ns, before.get(file)) for file, content in link.files.items()
        }
        image_bytes = os.fstat(image_fd).st_size
        digest = digest_of(image_fd, image_bytes, path, threads=1).hex()
        return _Link(tuple(link.names), files, digest_of_report(link.report), digest, image_bytes)


def _seen_now(path: str, content: memoryview, start_ns: int, before: Seen | None) -> Seen:
    """Return what identifies an input of the link that began at `start_ns`; `before`: of the last link.

    A stamp is enough for a file that no one writes. A file that has just been written, or differs from the last time,
    is likely to be written again, maybe with the same content: it has a digest.
    """
    stamp = ""
    with suppress(OSError):
        status = os.stat(path)
        stamp = stamp_of(status) if is_settled(status, start_ns) else ""
    if stamp and before is not None and before.stamp == stamp:
        return before
    return Seen(stamp, sha256(content).hexdigest() if not stamp or before is not None else "")


def _has_stamp(path: str, seen: Seen) -> bool:
    """Return whether nothing has written to a file."""
    try:
        return stamp_of(os.stat(path)) == seen.stamp
    except OSError:
        return False


def _is_same(path: str, seen: Seen) -> bool:
    """Return whether a file is as it was."""
    if _has_stamp(path, seen):
        return True
    if not seen.digest:
        return False
    try:
        with open(path, "rb", buffering=0) as file:
            return file_digest(file, "sha256").hexdigest() == seen.digest
    except OSError:
        return False


def digest_of_report(report: Iterable[bytes]) -> str:
    """Return the digest of a report in whatever order: each thread of mold prints its lines when it gets to them."""
    statements = []
    kept = b""
    for line in report:
        kept = kept if line.startswith(_REMOVED) else line
        statements.append(kept + line)
    return sha256(b"\n".join(sorted(statements))).hexdigest()
