"""The image of a mapping: the very file that was mapped, or its contents in memory.

The file at the path may be another one by now: replaced by an update, deleted, or in the process's own mount namespace
somewhere else. So the candidates come in this order, and one is taken if its device and inode are those of the mapping,
or, where the file system shows another device to `stat` (btrfs, overlays), if the code in memory is the file's:

    /proc/PID/map_files/START-END      the mapped file itself; for root
    /proc/PID/exe                      the mapped program itself
    /proc/PID/root/PATH                the path in the process's own name space

Without any, the image is read from memory, as is the vdso, which never was a file. The image stays open as long
as it is known, so that no other file can get its inode number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from icf.elf.image import Image
from icf.errors import IcfError
from unwind.process.live.memory_image import read_image
from unwind.process.live.procfs import Target
from unwind.process.maps import VDSO, Mapping

_COMPARED_BYTES = 4096
_OWN_FILES = "/proc/self/fd/"


def open_module(target: Target, mapping: Mapping, of_file: Sequence[Mapping]) -> Image | None:
    """Return the image that was mapped there; `of_file` are all mappings of the same file.

    None for a file that is not an ELF image. Raise IcfError for an image that cannot be read.
    """
    fd = open_mapped(target, mapping) if mapping.path != VDSO else -1
    if fd < 0:
        fd = _read_back(target, mapping, of_file)
    try:
        if os.pread(fd, 4, 0) != b"\x7fELF":
            return None
        return _open_image(fd, mapping.path_once)
    finally:
        os.close(fd)


def is_read_back(image: Image) -> bool:
    """Return whether an image was made of memory, so that its file is new each time."""
    return image.path.startswith(_OWN_FILES) and os.readlink(image.path).startswith("/memfd:")


def open_mapped(target: Target, mapping: Mapping) -> int:
    """Return a descriptor of the file that is mapped there; -1 if it is not available."""
    itself = f"map_files/{mapping.start:x}-{mapping.end:x}"
    for name in (itself, "exe", f"root{mapping.path_once}"):
        try:
            if not stat.S_ISREG(target.status(name).st_mode):
                continue  # opening a device may have side effects
            fd = target.open(name)
        except OSError:
            continue
        if name == itself or _is_mapped(fd, target, mapping):
            return fd
        os.close(fd)
    return -1


def _is_mapped(fd: int, target: Target, mapping: Mapping) -> bool:
    status = os.fstat(fd)
    if status.st_ino != mapping.inode:
        return False
    if status.st_dev == mapping.device:
        return True
    code = target.read(mapping.start, min(_COMPARED_BYTES, mapping.end - mapping.start))
    return bool(code) and code == os.pread(fd, len(code), mapping.offset)


def _read_back(target: Target, mapping: Mapping, of_file: Sequence[Mapping]) -> int:
    """Return a file in memory, made of the mapped bytes."""
    begins = [each for each in of_file if each.offset == 0 and each.start <= mapping.start]
    if not begins:
        raise IcfError(f"{mapping.path}: cannot be opened, and its beginning is not in memory")
    first = begins[-1]
    limit_bytes = sum(each.end - each.start for each in of_file)
    content = read_image(target.read, first.start, first.end - first.start, limit_bytes, mapping.path)
    fd = os.memfd_create(os.path.basename(mapping.path)[:200], os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(content)
    return fd


def _open_image(fd: int, path: str) -> Image:
    """Return the image, by its path if that leads to it, else by a path that is valid as long as it is open."""
    try:
        status, named = os.fstat(fd), os.stat(path)
        is_there = (status.st_dev, status.st_ino) == (named.st_dev, named.st_ino)
    except (OSError, ValueError):
        is_there = False
    if is_there:
        return Image.open(path)
    try:
        image = Image.open(f"{_OWN_FILES}{fd}")
    except IcfError as error:
        raise IcfError(str(error).replace(f"{_OWN_FILES}{fd}", path)) from error
    image.path = f"{_OWN_FILES}{image.fileno()}"
    return image
