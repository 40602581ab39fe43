"""Threads of another process, stopped and let go again: ptrace(2) and process_vm_readv(2), as libc has them.

Every call must come from the thread that has seized. A thread that is seized goes on when its tracer ends, whatever
ended that.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from ctypes import c_int, c_long, c_size_t, c_ssize_t, c_ulong, c_void_p
from functools import cache

import numpy as np
from numpy.typing import NDArray

from unwind.process.proc_files import has_ended

_SEIZE, _INTERRUPT, _GETREGSET, _DETACH = 0x4206, 0x4207, 0x4204, 17
_EVENT_STOP = 128
_NT_PRSTATUS = 1
_WALL = 0x40000000  # of waitpid: threads, too
_REGISTERS_BYTES = 512
_TOGETHER = 1024  # ranges of one process_vm_readv: IOV_MAX
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class _Iovec(ctypes.Structure):
    _fields_ = (("base", c_void_p), ("size_bytes", c_size_t))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes, libc.ptrace.restype = [c_long, c_int, c_void_p, c_void_p], c_long
    libc.process_vm_readv.argtypes = [c_int, c_void_p, c_ulong, c_void_p, c_ulong, c_ulong]
    libc.process_vm_readv.restype = c_ssize_t
    return libc


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends."""
    _libc().prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def seize(tid: int) -> bool:
    """Seize a thread and ask it to stop; False if it has ended. Raises PermissionError."""
    try:
        _call(_SEIZE, tid)
        _call(_INTERRUPT, tid)
    except ProcessLookupError:
        return False
    except PermissionError:  # of a thread that has ended but is still listed, too
        if has_ended(tid):
            return False
        raise
    return True


def stopped_by(tid: int) -> int | None:
    """Return what has stopped a thread that was asked to: a signal that it is to get, or 0; None if nothing has so far.

    Raises ProcessLookupError for one that has ended.
    """
    try:
        pid, status = os.waitpid(tid, os.WNOHANG | _WALL)
    except ChildProcessError:
        raise ProcessLookupError from None
    if pid == 0:
        return None
    if not os.WIFSTOPPED(status):
        raise ProcessLookupError
    return 0 if status >> 16 == _EVENT_STOP else os.WSTOPSIG(status)


def detach(tid: int, signal: int) -> None:
    """Let a thread that has stopped go on, with the signal that it was to get."""
    with suppress(OSError):
        _call(_DETACH, tid, 0, signal)


def registers_of(tid: int) -> bytes:
    """Return struct user_regs_struct of a thread that has stopped; empty if it has ended."""
    content = ctypes.create_string_buffer(_REGISTERS_BYTES)
    part = _Iovec(ctypes.addressof(content), _REGISTERS_BYTES)
    try:
        _call(_GETREGSET, tid, _NT_PRSTATUS, ctypes.addressof(part))
    except ProcessLookupError:
        return b""
    return content.raw[: part.size_bytes]


def read_memory(pid: int, start: int, size_bytes: int) -> bytes:
    """Return the memory from an address on, as much of it as can be read in one piece."""
    content = ctypes.create_string_buffer(size_bytes)
    own, other = _Iovec(ctypes.addressof(content), size_bytes), _Iovec(start, size_bytes)
    count = _libc().process_vm_readv(pid, ctypes.addressof(own), 1, ctypes.addressof(other), 1, 0)
    return content.raw[: max(count, 0)]


def read_words(pid: int, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words at some addresses, up to the first that cannot be read."""
    words = np.zeros(len(addresses), np.uint64)
    done = 0
    while done < len(addresses):
        some = addresses[done : done + _TOGETHER]
        ranges = np.empty((len(some), 2), np.uint64)
        ranges[:, 0], ranges[:, 1] = some, 8
        own = _Iovec(words.ctypes.data + 8 * done, 8 * len(some))
        count = _libc().process_vm_readv(pid, ctypes.addressof(own), 1, ranges.ctypes.data, len(some), 0)
        done += max(count, 0) // 8
        if count < 8 * len(some):
            break
    return words[:done]


def _call(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _libc().ptrace(request, tid, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))  # EPERM: PermissionError, ESRCH: ProcessLookupError
