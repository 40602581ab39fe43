"""Finds the image of a module that a recording or a list names: one place for all that need it.

A recording is read where its modules may be elsewhere, or where other files have taken their paths. In this order:

    the image that `-e` names
    below each directory R of the user, if a build id was recorded: `--module-root`, then `--debug-root`:
        R/.build-id/ab/cdef          where the build id is abcdef
        R/.build-id/ab/cdef/elf
        R/usr/lib/libx.so            the path below R, as in a copy of the file system
        R/libx.so
    /proc/PID/root/usr/lib/libx.so   as a process that still runs sees the path, if it sees other files than this one
    /usr/lib/libx.so                 the path itself
    below each R                     if no build id was recorded
    below ~/.debug                   where perf keeps copies, stripped ones, too
    /usr/bin/libx.so, /usr/lib/...   of a module without a directory, as Crashpad names libraries: beside the program,
                                     and where this machine has its libraries
    debuginfod servers               by build id (`icf.remote.debuginfod`)

PE images, which have no build ids, are looked for in other places (`unwind.process.pe_images`).

A file is the module's if its build id is the recorded one; of a file without a build id, what a minidump has in its
place must fit, too (`unwind.process.build_ids`). If none was recorded, the file at the path must have the device and
inode that were recorded; a file below R is taken by its name, as the user has named R. Of a module without either, as
in most text formats, the file at the path is taken, but never one of another mount namespace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from icf.errors import IcfError
from icf.log import warn
from unwind.process.build_ids import is_of_build
from unwind.process.library_folders import library_folders

if TYPE_CHECKING:
    from icf.elf.image import Image
    from icf.pe.identity import PeIdentity
    from icf.pe.image import PeImage
    from unwind.samples.recording import RecordedModule

PERF_CACHE = "~/.debug"
_PADDED_BYTES = (16, 8)  # sizes of build ids that perf fills up to 20 bytes with zeros


class Sought(NamedTuple):
    """What is known of a module."""

    path: str
    build_id: bytes = b""
    file_id: tuple[int, int] | None = None  # device and inode, as `Mapping.file_id`
    root: str = ""  # where its process sees its root directory, "" if that is ours
    pe: PeIdentity | None = None  # of a PE image

    @classmethod
    def of(cls, module: RecordedModule, root: str = "") -> Self:
        """Return what identifies a recorded module: all mappings of a file are one."""
        return cls(module.path, module.build_id, None if module.build_id else module.file_id, root, module.pe)


class ImageFinder:
    """Finds images, and opens each once; to be closed."""

    def __init__(
        self, module_roots: Sequence[str] = (), debug_roots: Sequence[str] = (), image: str | None = None
    ) -> None:
        self._own_roots = (*module_roots, *debug_roots)
        self.roots = (*self._own_roots, os.path.expanduser(PERF_CACHE))
        self.program_folders: tuple[str, ...] = ()  # where libraries of which only the name is known may be, too
        self.given_path = image  # what the user has named
        self.given: Image | None = None  # the image that the user has named, once it was needed
        self._is_given_used = False
        self._found: dict[Sought, Image | str] = {}
        self._pe_images: dict[Sought, PeImage | str] = {}
        self._of_build: dict[tuple[str, bytes], Image] = {}  # whichever container they are of
        self._opened = ExitStack()
        self._unknown: dict[str, set[int]] = {}  # by the problem: addresses in modules that were not found
        self._ends: set[str] = set()

    def find(self, sought: Sought) -> Image | str:
        """Return the image of a module, or why there is none, which begins with a path."""
        known = self._found.get(sought)
        if known is None:
            build = sought.path, sought.build_id
            known = self._of_build.get(build) or self._given_image(sought) or self._search(sought)
            self._found[sought] = known
            if sought.build_id and not isinstance(known, str):
                self._of_build[build] = known
        return known

    def find_pe(self, sought: Sought) -> PeImage | str:
        """Return the PE image of a module, or why there is none, which begins with a path."""
        known = self._pe_images.get(sought)
        if known is None:
            from unwind.process.pe_images import find_pe

            assert sought.pe is not None
            given = () if self.given_path is None else (self.given_path,)
            known = self._pe_images[sought] = find_pe(sought.path, sought.pe, self.roots, given)
            if not isinstance(known, str):
                self._opened.enter_context(known)
        return known

    def find_file(self, sought: Sought) -> tuple[int, str]:
        """Return a descriptor and the path of a file other than an image; raises `IcfError` if it is not found."""
        problem = f"{sought.path}: no such file"
        for candidate, is_there in self._candidates(sought):
            try:
                fd = os.open(candidate, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except (OSError, ValueError):
                continue
            wrong = _wrong_file(fd, sought) if is_there else ""
            if not wrong:
                return fd, candidate
            os.close(fd)
            problem = f"{candidate}: {wrong}"
        raise IcfError(problem)

    def lack(self, problem: str, address: int) -> None:
        """Count a frame of a module that was not found; `address` in its file, or as the recording has it."""
        self._unknown.setdefault(problem, set()).add(address)

    def end_stacks(self, problem: str) -> None:
        """Take note that stacks that are unwound end in a module that was not found."""
        self._ends.add(problem)

    def report(self) -> None:
        """Report each module that was not found, once, and how many frames lack it; and that `-e` names none."""
        if self.given is not None and not self._is_given_used:
            warn(f"{self.given_path}: matches none of the modules by build id or name: it was not used")
            self._is_given_used = True
        for problem in dict.fromkeys((*self._unknown, *sorted(self._ends))):
            count = len(self._unknown.get(problem, ()))
            parts = [f"{count:,} distinct frame{'s are' if count != 1 else ' is'} unknown"] if count else []
            parts += ["copied stacks end there"] if problem in self._ends else []
            warn(f"{problem}: {', '.join(parts)}")
        self._unknown.clear()
        self._ends.clear()

    def close(self) -> None:
        """Close the images."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _given_image(self, sought: Sought) -> Image | None:
        """Return the image that the user has named, if it can be this module; `IcfError` if it cannot be read."""
        if self.given_path is None:
            return None
        if self.given is None:
            from icf.elf.image import Image

            self.given = self._opened.enter_context(Image.open(self.given_path))
        if sought.build_id:
            is_meant = is_of_build(self.given, sought.build_id)
        else:
            is_meant = os.path.basename(self.given_path) == os.path.basename(sought.path)
        self._is_given_used |= is_meant
        return self.given if is_meant else None

    def _search(self, sought: Sought) -> Image | str:
        from icf.elf.image import Image

        problem = f"{sought.path}: no such file"
        for candidate, is_there in self._candidates(sought):
            if not os.path.isfile(candidate):
                continue
            try:
                image = Image.open(candidate)
            except IcfError as error:
                problem = str(error)
                continue
            wrong = _wrong_image(image, sought.build_id)
            if not wrong and is_there and not (sought.build_id and image.build_id):
                wrong = _wrong_file(image.fileno(), sought)
            if not wrong:
                if is_there and sought.root:  # its process may end, and the path with it
                    image.path = f"/proc/self/fd/{image.fileno()}"
                return self._opened.enter_context(image)
            problem = f"{candidate}: {wrong}"
            image.close()
        fetched = _fetched(sought.build_id)
        return problem if fetched is None else self._opened.enter_context(fetched)

    def _candidates(self, sought: Sought) -> Iterator[tuple[str, bool]]:
        """Yield paths, and whether the file there must be the one that was mapped."""
        path, build_id, root = sought.path, sought.build_id, sought.root
        below = [(each, False) for one in self._own_roots for each in _below(one, path, build_id)]
        if build_id:
            yield from below
        if root:
            yield os.path.join(root, path.lstrip("/")), True
        yield path, True
        if not build_id:
            yield from below
        yield from ((each, False) for each in _below(os.path.expanduser(PERF_CACHE), path, build_id))
        if build_id and "/" not in path:
            yield from ((os.path.join(each, path), False) for each in (*self.program_folders, *library_folders()))


def _below(root: str, path: str, build_id: bytes) -> list[str]:
    """Return where a module may be below a directory."""
    of_build = paths_below((root,), build_id, ("", "elf"))
    return [*of_build, os.path.join(root, path.lstrip("/")), os.path.join(root, os.path.basename(path))]


def paths_below(roots: Sequence[str], build_id: bytes, names: Sequence[str]) -> Iterator[str]:
    """Yield where files of a build may be below directories; "" among the names is the file of the build itself."""
    for root in roots:
        for digits in map(bytes.hex, _possible_ids(build_id)):
            for name in names:
                yield os.path.join(root, ".build-id", digits[:2], digits[2:], name).rstrip("/")


def _possible_ids(build_id: bytes) -> list[bytes]:
    """Return the build ids that a recorded one may be."""
    sizes = (len(build_id), *(size for size in _PADDED_BYTES if not any(build_id[size:])))
    return list(dict.fromkeys(build_id[:size] for size in sizes if build_id[:size]))


def _fetched(build_id: bytes) -> Image | None:
    """Return the image of a build from a server; None if none has it."""
    from icf.elf.image import Image
    from icf.remote.debuginfod import Kind, find

    for each in _possible_ids(build_id):
        path = find(each, Kind.EXECUTABLE)
        if path is not None:
            return Image.open(path)
    return None


def _wrong_image(image: Image, build_id: bytes) -> str:
    """Return why an image is not of that build; empty if it may be."""
    if image.is_debug_file:
        return "is a separate debug file, without code"
    if build_id and not is_of_build(image, build_id):
        return f"has build id {image.build_id.hex() or 'none'}, not {build_id.hex()}"
    return ""


def _wrong_file(fd: int, sought: Sought) -> str:
    """Return why an open file is not the one that was mapped; empty if it may be."""
    if sought.file_id is None:
        return "nothing that was recorded shows that it is the same file" if sought.root else ""
    device, inode = sought.file_id
    status = os.fstat(fd)
    has_own_device = os.major(status.st_dev) != 0  # else it is of btrfs or an overlay: the record has another device
    if status.st_ino == inode and (status.st_dev == device or not has_own_device):
        return ""
    return "" if _file_id(fd) == sought.file_id else f"is another file than the one that was mapped, inode {inode}"


def _file_id(fd: int) -> tuple[int, int] | None:
    """Return what the kernel says of a mapping of an open file; None if the file cannot be mapped."""
    import mmap

    import numpy as np

    from unwind.process.maps import parse_maps

    try:
        with mmap.mmap(fd, 1, mmap.MAP_PRIVATE, mmap.PROT_READ) as page:
            bytes_there = np.frombuffer(page, np.uint8)
            address = int(bytes_there.__array_interface__["data"][0])
            del bytes_there
            with open("/proc/self/maps", "rb") as file:
                mappings = parse_maps(file.read(), "/proc/self/maps")
    except (OSError, ValueError):
        return None
    return next((each.file_id for each in mappings if each.start == address), None)
