"""The container of a PDB: a file of blocks (MSF 7.00), which holds numbered streams.

    superblock   32s magic, u32 block size, u32 free block map, u32 block count, u32 directory bytes, u32 unused,
                 u32 block of the block map
    block map    u32 for each block of the directory
    directory    u32 stream count, u32 bytes of each stream (0xffffffff: there is none), then the blocks of each

A block belongs to one stream, so all streams together are not longer than the file; a directory that says otherwise is
refused, and reading every stream costs no more memory than the file has bytes.

Source: LLVM, "The MSF File Format"; microsoft-pdb, `PDB/msf`.
"""

from __future__ import annotations

from struct import Struct
from typing import Self

import numpy as np

from icf.errors import FormatError
from icf.filebytes import FileBytes

MAGIC = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"
_OLD_MAGIC = b"Microsoft C/C++ program database 2.00"[:32]
_SUPERBLOCK = Struct("<32s6I")
_PLACE, _DIRECTORY = "superblock", "stream directory"
_NO_STREAM = 0xFFFFFFFF
_BLOCK_SIZES = tuple(1 << bits for bits in range(9, 17))


class Msf:
    """The streams of one file; use `open`."""

    def __init__(self, path: str, data: FileBytes) -> None:
        self.path = path
        self.data = data
        head = bytes(data[: _SUPERBLOCK.size])
        if len(head) < _SUPERBLOCK.size or not head.startswith(MAGIC):
            old = "is a PDB of format 2.00, can read 7.00" if head.startswith(_OLD_MAGIC) else ""
            raise FormatError(path, _PLACE, 0, old or "is not a PDB of format 7.00")
        _, size_bytes, _, block_count, directory_bytes, _, map_block = _SUPERBLOCK.unpack(head)
        if size_bytes not in _BLOCK_SIZES:
            raise FormatError(path, _PLACE, 32, f"block size is {size_bytes}, not a power of two from 512 to 65536")
        if block_count * size_bytes > len(data):
            problem = f"{block_count} blocks of {size_bytes} bytes are more than the file of {len(data)} bytes"
            raise FormatError(path, _PLACE, 40, problem)
        self._block_size_bytes, self._block_count = size_bytes, block_count
        count = -(-directory_bytes // size_bytes)
        start = map_block * size_bytes
        if start + 4 * count > len(data):
            raise FormatError(path, _PLACE, 52, f"block map at {start:#x} ends outside of the file")
        blocks = np.frombuffer(data[start : start + 4 * count], "<u4")
        directory = self._join(blocks, directory_bytes, 0)
        if len(directory) < 4:
            raise FormatError(path, _DIRECTORY, 0, f"needs 4 bytes, {len(directory)} are left")
        words = np.frombuffer(directory[: len(directory) // 4 * 4], "<u4")
        stream_count = int(words[0])
        if stream_count > len(words) - 1:
            problem = f"{stream_count} streams, {len(directory)} bytes"
            raise FormatError(path, _DIRECTORY, 0, problem)
        sizes = words[1 : stream_count + 1].astype(np.int64)
        self._sizes = np.where(sizes == _NO_STREAM, 0, sizes)
        counts = -(-self._sizes // size_bytes)
        self._first = stream_count + 1 + np.cumsum(counts) - counts
        if int(counts.sum()) > min(len(words) - 1 - stream_count, block_count):
            problem = f"streams have {int(counts.sum())} blocks, the file has {block_count}"
            raise FormatError(path, _DIRECTORY, 4, problem)
        self._words = words

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a file; close it, or use it in a `with` block. Raise IcfError if it is not a PDB."""
        data = FileBytes.open(path)
        with data.closed_on_error():
            return cls(path, data)

    def close(self) -> None:
        """Close the file; streams that were read stay valid."""
        self.data.close()

    def __len__(self) -> int:
        return len(self._sizes)

    def size_bytes(self, stream: int) -> int:
        """Return the size of a stream, 0 if there is none of that number."""
        return int(self._sizes[stream]) if 0 <= stream < len(self) else 0

    def stream(self, stream: int) -> memoryview:
        """Return the bytes of a stream, empty if there is none of that number."""
        size_bytes = self.size_bytes(stream)
        if not size_bytes:
            return memoryview(b"")
        first = int(self._first[stream])
        count = -(-size_bytes // self._block_size_bytes)
        return self._join(self._words[first : first + count], size_bytes, 4 * first)

    def _join(self, blocks: np.ndarray[tuple[int], np.dtype[np.uint32]], size_bytes: int, offset: int) -> memoryview:
        """Return the bytes in some blocks; `offset` is where the directory lists them."""
        if len(blocks) and int(blocks.max()) >= self._block_count:
            at = int(np.argmax(blocks >= self._block_count))
            problem = f"block {int(blocks[at])} is beyond the {self._block_count} that the file has"
            raise FormatError(self.path, _DIRECTORY, offset + 4 * at, problem)
        cuts = np.flatnonzero(np.diff(blocks.astype(np.int64)) != 1) + 1
        firsts = blocks[np.concatenate([[0], cuts])].tolist() if len(blocks) else []
        counts = np.diff(np.concatenate([[0], cuts, [len(blocks)]])).tolist()
        width = self._block_size_bytes
        runs = [
            self.data[first * width : (first + count) * width] for first, count in zip(firsts, counts, strict=False)
        ]
        joined = runs[0] if len(runs) == 1 else memoryview(b"".join(runs))
        return joined[:size_bytes]
