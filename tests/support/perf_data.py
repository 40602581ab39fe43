"""perf.data files put together from records."""

from __future__ import annotations

import os
from struct import pack

ATTR_BYTES = 128
SAMPLE_ID_ALL, USE_CLOCK_ID = 1 << 18, 1 << 25
USER, KERNEL = 2, 1
MMAP2, COMM, FORK, SAMPLE, NAMESPACES, DEFERRED, COMPRESSED = 10, 3, 7, 9, 16, 22, 81
IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD = 1 << 0, 1 << 1, 1 << 2, 1 << 5, 1 << 6, 1 << 7, 1 << 8
BRANCH_STACK = 1 << 11
BRANCH_USER, BRANCH_CALL_STACK, BRANCH_HW_INDEX, BRANCH_COUNTERS = 1 << 0, 1 << 11, 1 << 17, 1 << 19
LBR = BRANCH_USER | BRANCH_CALL_STACK | BRANCH_HW_INDEX  # what `--call-graph lbr` asks for
CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED = ((1 << 64) - each for each in (128, 512, 640))
PLAIN = IP | TID | TIME | CALLCHAIN
_EXECUTE, _EXEC = 5, 1 << 13


def attr(
    sample_type: int = PLAIN,
    *,
    config: int = 0,
    kind: int = 1,
    period: int = 1000,
    read_format: int = 0,
    flags: int = SAMPLE_ID_ALL,
    branches: int = 0,
    regs_user: int = 0,
    regs_intr: int = 0,
    clock_id: int = 0,
) -> bytes:
    """Return a `perf_event_attr`."""
    head = pack("<II5Q", kind, ATTR_BYTES, config, period, sample_type, read_format, flags)
    rest = pack("<II4QIiQ", 0, 0, 0, 0, branches, regs_user, 0, clock_id, regs_intr)
    return (head + rest).ljust(ATTR_BYTES, b"\0")


def record(kind: int, contents: bytes, misc: int = USER) -> bytes:
    """Return a record."""
    return pack("<IHH", kind, misc, 8 + len(contents)) + contents


def words(*values: int) -> bytes:
    """Return numbers of 64 bits."""
    return pack(f"<{len(values)}Q", *values)


def text(string: str) -> bytes:
    """Return a string as records have it: with NUL, padded to 8 bytes."""
    encoded = string.encode() + b"\0"
    return encoded.ljust(-(-len(encoded) // 8) * 8, b"\0")


def end_of(pid: int, time: int, tid: int = 0) -> bytes:
    """Return how a record that is no sample ends, with the `sample_type` PLAIN."""
    return pack("<IIQ", pid, tid or pid, time)


def mmap2(
    pid: int,
    start: int,
    size_bytes: int,
    path: str,
    time: int,
    offset: int = 0,
    build_id: bytes = b"",
    misc: int = USER,
    file_id: tuple[int, int] = (0x801, 17),
) -> bytes:
    """Return a mapping of code; `file_id` is device and inode."""
    file = (
        pack("<IIQQ", os.major(file_id[0]), os.minor(file_id[0]), file_id[1], 0)
        if not build_id
        else pack("<B3x20s", len(build_id), build_id)
    )
    contents = pack("<II3Q", pid, pid, start, size_bytes, offset) + file + pack("<II", _EXECUTE, 2) + text(path)
    return record(MMAP2, contents + end_of(pid, time), misc | (1 << 14 if build_id else 0))


def comm(pid: int, name: str, time: int, *, is_exec: bool = False, tid: int = 0) -> bytes:
    """Return the name of a thread."""
    contents = pack("<II", pid, tid or pid) + text(name) + end_of(pid, time, tid)
    return record(COMM, contents, USER | (_EXEC if is_exec else 0))


def namespaces(pid: int, mounts: int, time: int) -> bytes:
    """Return the namespaces of a process, of which the inode of that of mounts counts."""
    listed = [(4, 1), (4, 2), (4, 3), (4, 4), (4, 5), (4, mounts), (4, 7)]
    contents = pack("<IIQ", pid, pid, len(listed)) + b"".join(pack("<QQ", *each) for each in listed)
    return record(NAMESPACES, contents + end_of(pid, time))


def fork(pid: int, parent: int, time: int) -> bytes:
    """Return the start of a process."""
    return record(FORK, pack("<4IQ", pid, parent, pid, parent, time) + end_of(pid, time))


def sample(pid: int, time: int, *chain: int, ip: int = 0, misc: int = USER, tid: int = 0) -> bytes:
    """Return a sample of the `sample_type` PLAIN."""
    contents = pack("<QIIQ", ip, pid, tid or pid, time) + words(len(chain), *chain)
    return record(SAMPLE, contents, misc)


def lbr_sample(pid: int, time: int, branches: list[tuple[int, int]], *chain: int, misc: int = USER) -> bytes:
    """Return a sample of the `sample_type` PLAIN | BRANCH_STACK with the branches LBR."""
    plain = sample(pid, time, *chain, ip=chain[-1] if chain else 0, misc=misc)[8:]
    entries = b"".join(words(*each, 0) for each in branches)
    return record(SAMPLE, plain + words(len(branches), 0) + entries, misc)


def perf_data(records: bytes, *attrs: bytes, ids: tuple[tuple[int, ...], ...] = (), is_cut: bool = False) -> bytes:
    """Return a file of these records."""
    attrs = attrs or (attr(),)
    ids = ids or ((),) * len(attrs)
    ids_at = 104
    entries, id_bytes = b"", b""
    for each, its_ids in zip(attrs, ids, strict=True):
        entries += each + words(ids_at + len(id_bytes), 8 * len(its_ids))
        id_bytes += words(*its_ids)
    attrs_at = ids_at + len(id_bytes)
    data_at = attrs_at + len(entries)
    size_bytes = 0 if is_cut else len(records)
    header = b"PERFILE2" + words(104, ATTR_BYTES + 16, attrs_at, len(entries), data_at, size_bytes, 0, 0, 0, 0, 0, 0)
    return header + id_bytes + entries + records


def piped(records: bytes, *attrs: bytes, ids: tuple[tuple[int, ...], ...] = ()) -> bytes:
    """Return what a pipe has of these records."""
    attrs = attrs or (attr(),)
    ids = ids or ((),) * len(attrs)
    heads = (record(64, each + words(*its_ids), 0) for each, its_ids in zip(attrs, ids, strict=True))
    return b"PERFILE2" + words(16) + b"".join(heads) + records
