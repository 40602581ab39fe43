"""Samples with registers and a copy of the stack, as call chains: so their stacks share callers, like those of chains.

    sample   u64 count, kernel's chain, u64 abi, registers, u64 size_bytes, stack, u64 used
    chain               kernel's chain, USER, program counter, return addresses

Samples of another layout are left to `samples`, as are those that a chain cannot express: with frames of a signal, with
addresses that are markers, or with what breaks the format.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.columns import I64, U64, Mask
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.dumps import ABI_64, Dumps
from unwind.readers.perf_data.events import Attr
from unwind.readers.perf_data.layout import CONTEXT_MAX, CONTEXT_USER, SAMPLE_CALLCHAIN
from unwind.readers.perf_data.views import View
from unwind.walk import columns

_WORD_BYTES = 8
_USER = CONTEXT_USER.to_bytes(_WORD_BYTES, "little")
_Owner = tuple[Attr, View]


class CopiedStacks:
    """Makes the chains of samples."""

    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps

    def chains(self, buffer: bytes, rows: U64, owners: Sequence[_Owner]) -> tuple[bytes, U64]:
        """Return bytes with the chain of each sample, and rows that say where: SPACE is NONE where there is none.

        `owners`: the event of each sample, and what addresses mean in its process.
        """
        chains: list[bytes] = [b""] * len(rows)
        is_made = np.zeros(len(rows), np.bool_)
        for owner, idxs in _together(owners).items():
            for idx, chain in zip(idxs, self._chains(buffer, rows[idxs], *owner), strict=True):
                if chain is not None:
                    chains[idx], is_made[idx] = chain, True
        ends = np.cumsum([len(chain) for chain in chains], dtype=np.uint64)
        rows[1:, r.REST], rows[:, r.CHAIN_END] = ends[:-1], ends
        rows[0, r.REST] = 0
        rows[~is_made, r.SPACE] = r.NONE
        return b"".join(chains), rows

    def _chains(self, buffer: bytes, rows: U64, attr: Attr, view: View) -> list[bytes | None]:
        """Return the chain of each sample of an event in a process."""
        words = _Words(buffer)
        at, end = rows[:, r.REST].astype(np.int64), rows[:, r.END].astype(np.int64)
        is_good = np.ones(len(rows), np.bool_)
        kernel_at = kernel_end = at
        if attr.sample_type & SAMPLE_CALLCHAIN:
            kernel_at = at + _WORD_BYTES
            count = words.read(at, end, is_good)
            is_good &= count <= _room(kernel_at, end) // np.uint64(_WORD_BYTES)
            at = kernel_end = kernel_at + _WORD_BYTES * np.where(is_good, count, 0).astype(np.int64)
        abi = words.read(at, end, is_good)
        has_stack = is_good & (abi == ABI_64)
        is_kernels = is_good & (abi == 0)
        stack_at = at + _WORD_BYTES * (attr.regs_user.bit_count() + 2)
        recorded = words.read(stack_at - _WORD_BYTES, end, has_stack)
        is_empty = recorded == 0
        has_stack &= is_empty | (recorded <= _room(stack_at + _WORD_BYTES, end))
        has_bytes = has_stack & ~is_empty
        used = words.read(stack_at + np.where(has_bytes, recorded, 0).astype(np.int64), end, has_bytes)
        size_bytes = np.minimum(recorded, used)
        has_stack &= is_empty | has_bytes
        copies = np.zeros((np.count_nonzero(has_stack), columns.COPY_WIDTH), np.uint64)
        copies[:, columns.COPY_REGISTERS] = at[has_stack] + _WORD_BYTES
        copies[:, columns.COPY_STACK], copies[:, columns.COPY_BYTES] = stack_at[has_stack], size_bytes[has_stack]
        walked = self._dumps.walk_all(attr.regs_user, view, buffer, copies) if len(copies) else None
        stacks = iter(_bytes_of(walked, copies))
        return [
            _joined(buffer[start:last], next(stacks)) if has_one else buffer[start:last] if is_one else None
            for start, last, has_one, is_one in zip(
                kernel_at.tolist(), kernel_end.tolist(), has_stack.tolist(), is_kernels.tolist(), strict=True
            )
        ]


class _Words:
    """Reads a number at many places."""

    def __init__(self, buffer: bytes) -> None:
        self._bytes = np.frombuffer(buffer, np.uint8)

    def read(self, at: I64, end: I64, is_good: Mask) -> U64:
        """Return the u64 at each place; `is_good` becomes false where that is beyond the end."""
        is_good &= end - at >= _WORD_BYTES
        values = np.zeros(len(at), np.uint64)
        places = at[is_good][:, None] + np.arange(_WORD_BYTES)
        values[is_good] = self._bytes[places].view("<u8")[:, 0]
        return values


def _room(at: I64, end: I64) -> U64:
    """Return how many bytes there are from each place on."""
    room: U64 = np.maximum(end - at, 0).astype(np.uint64)
    return room


def _together(owners: Sequence[_Owner]) -> dict[_Owner, list[int]]:
    """Return the samples of each owner."""
    found: dict[_Owner, list[int]] = {}
    for idx, owner in enumerate(owners):
        found.setdefault(owner, []).append(idx)
    return found


def _bytes_of(addresses: U64 | None, copies: U64) -> list[bytes | None]:
    """Return the addresses of each stack; None for those that a chain cannot express."""
    if addresses is None:
        return [None] * len(copies)
    is_marker = np.append(np.uint64(0), np.cumsum(addresses[: int(copies[-1, columns.COPY_END])] >= CONTEXT_MAX))
    starts, ends = copies[:, columns.COPY_START], copies[:, columns.COPY_END]
    is_plain = (copies[:, columns.COPY_EXACT] == 1) & (is_marker[starts] == is_marker[ends])
    places = zip(starts.tolist(), ends.tolist(), is_plain.tolist(), strict=True)
    return [addresses[start:end].tobytes() if is_one else None for start, end, is_one in places]


def _joined(kernel: bytes, stack: bytes | None) -> bytes | None:
    if stack is None or len(kernel) + len(stack) > _WORD_BYTES * r.CHAIN_LIMIT:
        return None
    return kernel + _USER + stack
