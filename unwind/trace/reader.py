"""Reads one file of a trace from its beginning, or from an instruction or a time: blocks of rows.

    with TraceFile(path) as file:
        for rows in TraceReader(file).rows():
            ...

Rows are as `unwind.trace.columns` has them; `TraceReader.codes` has the instructions that they refer to.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from icf.errors import FormatError, IcfError, UnsupportedError
from unwind.samples._tree import refill
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace._records import read
from unwind.trace.container import TraceFile

NEVER = (1 << 64) - 1
_ROWS = 1 << 14
_CODES = 1 << 12  # at the beginning
_WORD_BYTES = 8
_RECORD = Struct("<HHQ")


class CodeTable:
    """The instructions of a program, each once, and once more where its bytes changed.

    Attributes:
        codes: u64[m, 4] (`unwind.trace.columns`).
        places: the latest code of each address.
        count: how many codes there are.
    """

    def __init__(self) -> None:
        self.codes, self.places, self.count = zeros(_CODES, c.CODE_WIDTH), zeros(4 * _CODES, 2), 0

    def grow(self, path: str) -> None:
        """Make room for more instructions; `IcfError` if they are too many."""
        size = len(self.codes)
        if size >= c.CODE_LIMIT:
            raise IcfError(f"{path}: has more than {c.CODE_LIMIT:,} distinct instructions")
        codes, places = zeros(2 * size, c.CODE_WIDTH), zeros(8 * size, 2)
        codes.cast("B")[: self.codes.nbytes] = self.codes.cast("B")
        refill(self.places, places)
        self.codes, self.places = codes, places


class TraceReader:
    """The state of reading one file.

    Attributes:
        file: the file.
        state: u64, by the names in `unwind.trace.columns`.
        chunk: the number of the chunk that is read.
    """

    def __init__(
        self,
        file: TraceFile,
        wanted: int = c.KEEP_INSTRUCTIONS | c.KEEP_DATA | c.KEEP_MARKERS,
        table: CodeTable | None = None,
    ) -> None:
        """Read a file from its beginning.

        Args:
            file: the file.
            wanted: which rows are wanted: of `KEEP_`.
            table: the instructions of other files of the same process.
        """
        self.file = file
        self.chunk = 0
        self.state = zeros(c.STATE_WIDTH)
        self.state[c.WANTED] = wanted
        self.state[c.LIMIT] = self.state[c.TIME_LIMIT] = NEVER
        self._table = table or CodeTable()
        self._rows = zeros(_ROWS, c.ROW_WIDTH)
        self._waiting: tuple[bytes, int] | None = None  # a block that was not read to its end, and where it is
        self._blocks: Iterator[bytes] | None = None
        self._offset = 0  # in the chunk, of the block

    @property
    def codes(self) -> memoryview:
        """The instructions met, u64[m, 4]; other memory when there are more."""
        return self._table.codes

    @property
    def is_stopped(self) -> bool:
        """Whether `rows` ended at a limit; else the file ended."""
        return self._waiting is not None

    def rows(self) -> Iterator[memoryview]:
        """Yield rows, u64[n, 3], each time in the same memory; up to the limits that `stop_at` sets.

        Raises `FormatError` for a record that breaks a rule, after the rows before it.
        """
        state, table = self.state, self._table
        while True:
            block = self._block()
            if block is None:
                return
            records = memoryview(block).cast("I")
            while True:
                state[c.CODE_COUNT] = table.count
                count = read(records, state, self._rows, table.codes, table.places)
                table.count = state[c.CODE_COUNT]
                if count:
                    yield self._rows[:count]
                why = state[c.WHY]
                if why == c.NEEDS_CODES:
                    table.grow(self.file.path)
                elif why == c.AT_LIMIT:
                    self._waiting = block, state[c.AT]
                    return
                elif why == c.NEEDS_BYTES:
                    break
                elif why != c.NEEDS_ROWS:
                    raise self._error(block, why)
            self._offset += len(block)

    def skip(self, *, instruction: int = NEVER, time: int = NEVER) -> None:
        """Read on, without rows, up to the instruction of this number, or to the first marker of this time or later."""
        wanted = self.state[c.WANTED]
        self.state[c.WANTED] = 0
        self.stop_at(instruction=instruction, time=time)
        for _ in self.rows():
            pass
        self.stop_at()
        self.state[c.WANTED] = wanted

    def stop_at(self, *, instruction: int = NEVER, time: int = NEVER) -> None:
        """Let `rows` end before the instruction of this number, or the first marker of this time or later."""
        self.state[c.LIMIT], self.state[c.TIME_LIMIT] = instruction, time

    def begin(self, chunk: int, *, size_bytes: int | None = None) -> None:
        """Read on at a chunk, in blocks of `size_bytes`."""
        state = self.state
        self.chunk, self._offset, self._waiting = chunk, 0, None
        self._blocks = self.file.blocks(chunk, size_bytes) if size_bytes else self.file.blocks(chunk)
        state[c.ENCODING_BYTES] = state[c.TARGET_WAITS] = state[c.FOOTER] = 0
        state[c.COPIES] = 1 if chunk else 0

    def _block(self) -> bytes | None:
        """Return the next bytes, of the next chunk if need be, with `state[AT]` in them; None at the end."""
        state = self.state
        if self._waiting is not None:
            block, state[c.AT] = self._waiting
            self._waiting = None
            return block
        if self._blocks is None:
            self.begin(0)
        state[c.AT] = 0
        while True:
            assert self._blocks is not None
            block = next(self._blocks, b"")
            if block:
                if not state[c.RECORDS]:
                    self._check_width(block)
                return block
            self._check_end()
            if self.chunk + 1 == self.file.chunk_count:
                return None
            self.begin(self.chunk + 1)

    def _check_width(self, head: bytes) -> None:
        if head[8:10] in (b"\x1c\0", b"\x16\0") and head[:2] == b"\x19\0":
            raise UnsupportedError(
                f"{self.file.path}: has records of 8 bytes, as 32-bit processes have; 64-bit ones are read"
            )

    def _check_end(self) -> None:
        """Check that a chunk is whole."""
        state, chunk, path = self.state, self.chunk, self.file.path
        if not state[c.VERSION]:
            raise FormatError(path, self.file.section(chunk), self._offset, "has no records")
        if chunk + 1 == self.file.chunk_count:
            if state[c.FOOTER] != c.END_OF_TRACE:
                raise FormatError(path, self.file.section(chunk), self._offset, "the trace is cut: it has no footer")
            return
        if state[c.FOOTER] != chunk + 1:
            raise FormatError(
                path, self.file.section(chunk), self._offset, f"does not end with the footer of chunk {chunk}"
            )
        expected = (chunk + 1) * state[c.CHUNK_SIZE]
        if state[c.INSTRUCTIONS] != expected:
            number = state[c.INSTRUCTIONS] - chunk * state[c.CHUNK_SIZE]
            problem = f"has {number} instructions, CHUNK_INSTR_COUNT is {state[c.CHUNK_SIZE]}"
            raise FormatError(path, self.file.section(chunk), self._offset, problem)

    def _error(self, block: bytes, why: int) -> FormatError:
        at, state = self.state[c.AT], self.state
        kind, size, value = _RECORD.unpack_from(block, k.RECORD_BYTES * at)
        waiting = state[c.ENCODING_BYTES]
        problems = {
            c.BAD_TYPE: f"type {kind} is not one of a record",
            c.BAD_VERSION: f"version is {value}; versions 1 to {k.LAST_VERSION} are read",
            c.NO_HEADER: f"the first record has type {kind}, that of a header is {k.HEADER}",
            c.LONG_ENCODING: f"{size} bytes of an instruction after {waiting}; it has {k.LONGEST_BYTES} at most",
            c.SIZE_OF_ENCODING: f"instruction at {value:#x} has {size} bytes, {waiting} stand before it",
            c.NO_ENCODING: f"instruction at {value:#x}: its bytes stand neither before it nor earlier",
            c.NO_TARGET: f"indirect branch at {value:#x}: the marker BRANCH_TARGET does not stand before it",
            c.BAD_ORDINAL: f"RECORD_ORDINAL is {value}, {state[c.VISIBLE]} records were before it",
            c.BAD_ADDRESS: f"no instruction can be at {value:#x}",
        }
        offset = self._offset + k.RECORD_BYTES * at
        return FormatError(self.file.path, self.file.section(self.chunk), offset, problems[why])


def zeros(*shape: int) -> memoryview:
    """Return zeros, without numpy, of which the import takes longer than most files do."""
    count = 1
    for each in shape:
        count *= each
    return memoryview(bytearray(_WORD_BYTES * count)).cast("B").cast("Q", shape)
