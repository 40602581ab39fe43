"""The stacks of a record batch: its columns are checked, and used as they are where Arrow allows it.

    addresses   list of uint64 (or int64, of engines without unsigned numbers): innermost first; null is a frame outside
                of the image
    weight      int64, 0 or more; without the column each stack counts 1
    module      string: the image that all addresses of the stack lie in; list of string: the image of each address.
                A build id in hexadecimal digits, or a path; null: in no image that is known. Without the column the
                addresses lie in the image that the caller names
    exact       list of bool: of each address, whether it is a program counter; without the column the first is
    vptrs       list of uint64: of each address the vtable pointer that the frame's `this` held, or null

Addresses and vtable pointers are those of the link. Lists may be large lists, strings large strings or dictionaries.
The modules of a stack are its process: calls by name lead from one to another of these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icf.columns import I64, U32, U64
from icf.errors import IcfError
from unwind.samples.recording import RecordedModule, RecordedProcess
from unwind.samples.stack_columns import EXACT, FIRST, FIRST_MODULE, MODULE_BITS, NO_ADDRESS, NO_MODULE, StackTable

ADDRESSES, WEIGHT, MODULE, EXACT_PCS, VPTRS = "addresses", "weight", "module", "exact", "vptrs"
FRAME_LIMIT = 1 << 20  # of one stack
_KEPT_FRAMES = 1 << 23  # of all distinct stacks, before they are forgotten
_KEPT_PROCESSES = 1 << 12
_BUILD_ID = re.compile(r"(?:[0-9a-fA-F]{2}){8,32}")

Vptrs = tuple[tuple[int, int], ...]


class Stacks(NamedTuple):
    """The stacks of a batch.

    Attributes:
        addresses: u64[m]: of all frames, as they are there; what is 0 may be null.
        starts: u64[n + 1]: where each stack begins, and where the last ends.
        values: the Arrow array that has the addresses.
        weights: i64[n].
        kinds: u32[m]: of the frames (`unwind.samples.stack_columns`).
        processes: by their modules, those that have a stack here.
        process: i64[n]: of each stack the index of its process.
        vptrs: (frame index, vtable pointer) of the stacks, by index, that have some.
    """

    addresses: U64
    starts: U64
    values: Any
    weights: I64
    kinds: U32
    processes: list[RecordedProcess]
    process: I64
    vptrs: Mapping[int, Vptrs]


class StackReader:
    """Reads the stacks of record batches.

    Args:
        path: of the file, or another name of where the batches are from, for messages.
        image: path of the image that stacks without modules are of; None: they are of none.
    """

    def __init__(self, path: str, image: str | None = None) -> None:
        self._path, self._image = path, image
        self._row_count = 0
        self._forget()

    def read(self, batch: Any) -> Stacks:
        """Return the stacks of a batch; `IcfError` for a column that is missing, or a value that breaks its rule."""
        if len(self._processes) > _KEPT_PROCESSES or self.table.frame_count > _KEPT_FRAMES:
            self._forget()
        starts, values = self._list(batch, ADDRESSES, _is_address)
        weights = self._weights(batch)
        addresses = _numbers(values, np.uint64)
        kinds = np.empty(len(addresses), np.uint32)
        processes, process = self._modules(batch, starts, kinds)
        kinds <<= np.uint32(MODULE_BITS)
        self._mark_exact(batch, starts, kinds)
        if values.null_count:
            lacks = _mask(values.is_null())
            addresses = np.where(lacks, np.uint64(0), addresses)
            kinds[lacks] = (kinds[lacks] & np.uint32(FIRST)) | np.uint32(NO_ADDRESS << MODULE_BITS)
        vptrs = self._vptrs(batch, starts)
        self._row_count += len(weights)
        return Stacks(addresses, starts, values.view(pa.uint64()), weights, kinds, processes, process, vptrs)

    def _forget(self) -> None:
        self.modules: list[RecordedModule] = []
        self.table = StackTable(self.modules)
        self._numbers: dict[str, int] = {}
        self._processes: dict[frozenset[int], RecordedProcess] = {}

    # Columns

    def _column(self, batch: Any, name: str) -> Any:
        """Return a column; None if there is none."""
        found = batch.schema.get_all_field_indices(name)
        if len(found) > 1:
            raise IcfError(f"{self._path}: has {len(found)} columns {name}")
        return batch.column(found[0]) if found else None

    def _list(self, batch: Any, name: str, is_right: Any, starts: U64 | None = None) -> tuple[U64, Any]:
        """Return where the lists of a column start, and their values; each as long as `starts` has it."""
        column = self._column(batch, name)
        if column is None:
            raise IcfError(f"{self._path}: has no column {name}", hint="docs/guide/batch.md lists the columns")
        if not _is_list(column.type) or not is_right(column.type.value_type):
            raise IcfError(f"{self._path}: column {name} is {column.type}, {_MEANT[name]}")
        self._no_null(column, name)
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.uint64)
        first, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        own = offsets - np.uint64(first) if len(offsets) else np.zeros(1, np.uint64)
        lengths = np.diff(own)
        deepest = int(lengths.max(initial=0))
        if deepest > FRAME_LIMIT:
            row = self._row_count + int(lengths.argmax())
            raise IcfError(f"{self._path}: row {row}: column {name} has {deepest} frames, may have {FRAME_LIMIT}")
        if starts is not None and not np.array_equal(own, starts):
            row = self._row_count + int(np.flatnonzero(lengths != np.diff(starts))[0])
            raise IcfError(f"{self._path}: row {row}: column {name} needs one value for each address")
        return own, column.values.slice(first, end - first)

    def _no_null(self, column: Any, name: str) -> None:
        if column.null_count:
            row = self._row_count + int(np.flatnonzero(_mask(column.is_null()))[0])
            raise IcfError(f"{self._path}: row {row}: column {name} is null")

    def _weights(self, batch: Any) -> I64:
        column = self._column(batch, WEIGHT)
        if column is None:
            return np.ones(batch.num_rows, np.int64)
        if not pa.types.is_int64(column.type):
            raise IcfError(f"{self._path}: column {WEIGHT} is {column.type}, must be int64")
        self._no_null(column, WEIGHT)
        weights = _numbers(column, np.int64)
        if weights.min(initial=0) < 0:
            row = int(np.flatnonzero(weights < 0)[0])
            raise IcfError(f"{self._path}: row {self._row_count + row}: weight is {weights[row]}, must be 0 or more")
        return weights

    def _mark_exact(self, batch: Any, starts: U64, kinds: U32) -> None:
        firsts = starts[:-1][np.diff(starts) > 0]
        if self._column(batch, EXACT_PCS) is None:
            kinds[firsts] |= np.uint32(FIRST)
            return
        _, values = self._list(batch, EXACT_PCS, pa.types.is_boolean, starts)
        is_exact = _mask(values.fill_null(False))
        kinds[is_exact] |= np.uint32(EXACT)
        kinds[firsts] = np.where(is_exact[firsts], kinds[firsts] ^ np.uint32(EXACT | FIRST), kinds[firsts])

    def _vptrs(self, batch: Any, starts: U64) -> dict[int, Vptrs]:
        if self._column(batch, VPTRS) is None:
            return {}
        _, values = self._list(batch, VPTRS, _is_address, starts)
        found: dict[int, Vptrs] = {}
        numbers = _numbers(values, np.uint64)
        for at in np.flatnonzero(_mask(values.is_valid())).tolist():
            row = int(np.searchsorted(starts, at, "right")) - 1
            found[row] = (*found.get(row, ()), (at - int(starts[row]), int(numbers[at])))
        return found

    # Modules

    def _modules(self, batch: Any, starts: U64, kinds: U32) -> tuple[list[RecordedProcess], I64]:
        """Set the module of each frame; return the processes of the stacks, and of each stack the index of its own."""
        row_count = len(starts) - 1
        column = self._column(batch, MODULE)
        if column is None:
            number = NO_MODULE if self._image is None else self._number(self._image, is_path=True)
            kinds[:] = number
            return [self._process({number})], np.zeros(row_count, np.int64)
        if not _is_list(column.type):
            if not _is_text(column.type):
                raise IcfError(f"{self._path}: column {MODULE} is {column.type}, {_MEANT[MODULE]}")
            distinct, codes = np.unique(self._codes(column), return_inverse=True)
            kinds[:] = np.repeat(distinct[codes], np.diff(starts).astype(np.int64))
            return [self._process({number}) for number in distinct.tolist()], codes
        _, values = self._list(batch, MODULE, _is_text, starts)
        kinds[:] = self._codes(values)
        return self._mixed(starts, kinds)

    def _mixed(self, starts: U64, kinds: U32) -> tuple[list[RecordedProcess], I64]:
        """Return the processes of stacks of which each frame has a module of its own."""
        begins = np.ones(len(kinds), np.bool_)
        begins[1:] = kinds[1:] != kinds[:-1]
        has_frames = np.diff(starts) > 0
        begins[starts[:-1][has_frames]] = True
        at = np.flatnonzero(begins)
        row = np.searchsorted(starts, at, "right") - 1
        pairs = np.unique(row.astype(np.uint64) << np.uint64(32) | kinds[at])
        rows, numbers = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
        ends = np.searchsorted(rows, np.arange(len(starts), dtype=np.uint64))
        found: dict[bytes, int] = {}
        processes: list[RecordedProcess] = []
        process = np.empty(len(starts) - 1, np.int64)
        for idx, (first, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            key = numbers[first:end].tobytes()
            known = found.get(key)
            if known is None:
                known = found[key] = len(processes)
                processes.append(self._process(set(numbers[first:end].tolist())))
            process[idx] = known
        return processes, process

    def _codes(self, column: Any) -> NDArray[np.uint32]:
        """Return the number of the module that each value names."""
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        names = column.dictionary.cast(pa.binary()).to_pylist()  # which need not be UTF-8
        numbers = [NO_MODULE if name is None else self._number(os.fsdecode(name)) for name in names]
        indices = np.asarray(pc.fill_null(column.indices, len(names)), np.int64)
        return np.array([*numbers, NO_MODULE], np.uint32)[indices]

    def _number(self, name: str, *, is_path: bool = False) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = FIRST_MODULE + len(self.modules)
            is_build = not is_path and _BUILD_ID.fullmatch(name)
            self.modules.append(RecordedModule(name, bytes.fromhex(name) if is_build else b""))
        return number

    def _process(self, numbers: set[int]) -> RecordedProcess:
        key = frozenset(number for number in numbers if number >= FIRST_MODULE)
        process = self._processes.get(key)
        if process is None:
            modules = [self.modules[number - FIRST_MODULE] for number in sorted(key)]
            process = self._processes[key] = RecordedProcess(modules=modules)
        return process


_MEANT = {
    ADDRESSES: "must be a list of uint64",
    MODULE: "must be string or a list of string",
    EXACT_PCS: "must be a list of bool",
    VPTRS: "must be a list of uint64",
}


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_address(kind: Any) -> bool:
    return bool(pa.types.is_uint64(kind) or pa.types.is_int64(kind))


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbers(column: Any, kind: type[Any]) -> NDArray[Any]:
    """Return a column of numbers of 64 bits as they are in memory; what is null there is any number."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), kind)
    return np.frombuffer(buffer, kind, len(column), 8 * column.offset)


def _mask(column: Any) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
