"""Samples with registers and a copy of the stack, as call chains: so their stacks share callers, like those of chains.

    sample   u64 count, kernel's chain, u64 abi, registers, u64 size_bytes, stack, u64 used
    chain               kernel's chain, USER, program counter, return addresses

Samples of another layout are left to `samples`, as are those that a chain cannot express: with frames of a signal, with
addresses that are markers, or with what breaks the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import unpack_from

import numpy as np

from icf.columns import U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.dumps import Dumps
from unwind.readers.perf_data.events import Attr
from unwind.readers.perf_data.layout import CONTEXT_MAX, CONTEXT_USER, SAMPLE_CALLCHAIN
from unwind.readers.perf_data.sample_fields import UserState
from unwind.readers.perf_data.views import View
from unwind.walk import columns

_WORD_BYTES = 8
_USER = CONTEXT_USER.to_bytes(_WORD_BYTES, "little")


class CopiedStacks:
    """Makes the chains of samples."""

    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps

    def chains(self, buffer: bytes, rows: U64, owners: Sequence[tuple[Attr, View]]) -> tuple[bytes, U64]:
        """Return bytes with the chain of each sample, and rows that say where: SPACE is NONE where there is none.

        `owners`: the event of each sample, and what addresses mean in its process.
        """
        chains, found = bytearray(), []
        for (attr, view), rest, end in zip(owners, rows[:, r.REST].tolist(), rows[:, r.END].tolist(), strict=True):
            start = len(chains)
            chain = self._chain(buffer, rest, end, attr, view)
            if chain is not None:
                chains += chain
            found.append((start, len(chains), chain is not None))
        places = np.array(found, np.uint64)
        rows[:, r.REST], rows[:, r.CHAIN_END] = places[:, 0], places[:, 1]
        rows[places[:, 2] == 0, r.SPACE] = r.NONE
        return bytes(chains), rows

    def _chain(self, buffer: bytes, at: int, end: int, attr: Attr, view: View) -> bytes | None:
        """Return the chain of a sample whose fields of variable size are at `at`."""
        kernel = b""
        if attr.sample_type & SAMPLE_CALLCHAIN:
            if end - at < _WORD_BYTES:
                return None
            start = at + _WORD_BYTES
            at = start + _WORD_BYTES * int.from_bytes(buffer[at:start], "little")
            if at > end:
                return None
            kernel = buffer[start:at]
        register_count = attr.regs_user.bit_count()
        stack_at = at + _WORD_BYTES * (register_count + 2)
        abi = int.from_bytes(buffer[at : at + _WORD_BYTES], "little") if end - at >= _WORD_BYTES else -1
        if not abi:
            return kernel
        if stack_at > end:
            return None
        size_bytes = int.from_bytes(buffer[stack_at - _WORD_BYTES : stack_at], "little")
        if size_bytes:
            if size_bytes + _WORD_BYTES > end - stack_at:
                return None
            size_bytes = min(unpack_from("<Q", buffer, stack_at + size_bytes)[0], size_bytes)
        contents = memoryview(buffer)
        registers = contents[at + _WORD_BYTES : at + _WORD_BYTES * (register_count + 1)]
        state = UserState(abi, attr.regs_user, registers, contents[stack_at : stack_at + size_bytes])
        walk = self._dumps.walk(state, view)
        if walk is None or walk.exact_count != 1:
            return None
        addresses = walk.columns[:, columns.PC]
        if addresses.max() >= CONTEXT_MAX or len(kernel) + addresses.nbytes > _WORD_BYTES * r.CHAIN_LIMIT:
            return None
        return kernel + _USER + addresses.tobytes()
