"""Attributes that the file system keeps of a file besides its bytes: copied to the file that replaces it.

    mode, owner                 without the right to keep the owner, set-id bits go, too
    system.posix_acl_access     the ACL; the new file has none that its directory would have given it
    security.capability         set by `setcap`; `chown` removes it, so it comes last
    user.*, security.selinux, trusted.*   as they are

A signature of the content (IMA, EVM) is not true of the new content, and the attributes of overlayfs are about one
inode.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_ACL = "system.posix_acl_access"
_OF_CONTENT = ("security.ima", "security.evm")
_OF_INODE = ("trusted.overlay.",)


def keep_attributes(source_fd: int, fd: int) -> list[str]:
    """Give a new file the attributes of another one; return the names of those that could not be kept."""
    lost = _keep_mode_and_owner(source_fd, fd)
    wanted, there = _attributes(source_fd), _attributes(fd)
    if _ACL in there and _ACL not in wanted:
        with suppress(OSError):
            os.removexattr(fd, _ACL)
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode))
    for name, value in wanted.items():
        if name.startswith(_OF_INODE) or there.get(name) == value:
            continue
        if name in _OF_CONTENT:
            lost.append(name)
            continue
        try:
            os.setxattr(fd, name, value)
        except OSError:
            lost.append(name)
    return lost


def _keep_mode_and_owner(source_fd: int, fd: int) -> list[str]:
    source, own = os.fstat(source_fd), os.fstat(fd)
    mode, lost = stat.S_IMODE(source.st_mode), []
    if (own.st_uid, own.st_gid) != (source.st_uid, source.st_gid):
        try:
            os.fchown(fd, source.st_uid, source.st_gid)
        except PermissionError:
            lost.append("owner")
            if mode & (stat.S_ISUID | stat.S_ISGID):
                mode &= ~(stat.S_ISUID | stat.S_ISGID)
                lost.append("set-id bits")
    os.fchmod(fd, mode)
    return lost


def _attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of a file; none where the file system has none."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
            return {}
        raise
    found = {}
    for name in names:
        with suppress(OSError):  # one that this user may not read
            found[name] = os.getxattr(fd, name)
    return found
