"""`.line.icf_dcall`: what an object records of its functions and calls, kept through the link by `icf annotate`.

An object's relocations name the callee of every call, and of every function that the linker will fold away. This
section carries that into the linked image, so that the pass needs neither objects nor debug information. No other tool
writes it: the pass turns it into the proposal's tables and removes it.

**The name.** A linker must put the folded address into a reference from this section to a folded function, and
must accept a function that it has discarded. Measured with gold 1.16, lld 19, mold 1.10 and GNU ld 2.40: lld and mold
overwrite references from sections named `.debug*`; gold and GNU ld refuse references to discarded functions except
from sections that they take for debug information: `.debug*`, `.line*` and `.stab*`. So all four treat a
section named `.line.*` right: kept functions have their address, folded ones that of their
body, discarded ones nothing or 0. `strip -g` takes it for debug information, too. It is not SHF_ALLOC.

One unit for each object, little endian, one after the other as the linker has put them together:

    unit_length     4 bytes
    version         1 byte, 1
    function_count  4 bytes
    addresses       8 bytes for each function: a relocation for the function's symbol; 0 if it is not in the image
    the rest        "ZLIB", its size as 8 bytes, big endian, zlib data (only addresses must stand open to the linker)

The rest, one column after the other, all ULEB128 unless noted:

    source, alias_total, operand_total, pool_size                      one each
    name, size << 1 | is_local, section, offset, alias_count, operand_count     one for each function
    checksum        4 bytes for each function: CRC-32 of its code, operands taken for 0
    alias           one for each alias: its name
    operand         distance << 2 | kind: from the last operand of the function, or its start
    callee          0: neither a call nor a load from the GOT; else (name + 1) << 1 | is_local
    pool            strings, each with its NUL; names and the source file are offsets into it

An operand is a field that a relocation fills in, so the linker may change the bytes around it:

    kind 0  4 bytes       1  4 bytes and 3 before: a load from the GOT, which may turn into another instruction
    kind 2  8 bytes       3  12 bytes and 8 before: a thread-local sequence, which may change, too

`section` and `offset` tell where in the object the function was; the numbers have no other meaning. Functions of one
section keep their distances, which identifies the callee of a call that the assembler has resolved.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from icf.tables import _leb

VERSION = 1
ADDRESSES_AT = 9  # of the first address in a unit
FIELD, GOT_FIELD, WIDE_FIELD, THREAD_FIELD = range(4)
_AROUND = ((0, 4), (3, 4), (0, 8), (8, 12))  # bytes before and after the start of an operand, by kind


class Operand(NamedTuple):
    """A relocated field of a function."""

    offset: int  # from the start of the function
    kind: int
    callee: str = ""  # of a call or jump; of a load from the GOT what it loads the address of
    is_local: bool = False  # the callee is a local function of the same object


class Function(NamedTuple):
    """A function of an object."""

    name: str
    aliases: tuple[str, ...]
    is_local: bool
    size_bytes: int
    section: int
    offset: int
    checksum: int
    operands: tuple[Operand, ...]  # ascending

    def checksum_of(self, code: bytes | memoryview) -> int:
        """Return the checksum of other code with this function's operands."""
        return checksum(code, self.operands)


def checksum(code: bytes | memoryview, operands: Sequence[Operand]) -> int:
    """Return the CRC-32 of a function's code without what a linker may change."""
    masked = bytearray(code)
    size_bytes = len(masked)
    for offset, kind, _, _ in operands:
        before, after = _AROUND[kind]
        start, end = offset - before, offset + after
        if start < 0 or end > size_bytes:
            start, end = max(start, 0), max(start, 0, min(end, size_bytes))
        masked[start:end] = bytes(end - start)
    return zlib.crc32(masked)


def encode_annotation(source: str, functions: Sequence[Function]) -> bytes:
    """Return the unit of one object; its addresses are 0, to be filled by relocations at ADDRESSES_AT + 8 * index."""
    pool = _Pool()
    operands = [operand for function in functions for operand in function.operands]
    columns: list[list[int]] = [
        [pool.add(source), sum(len(function.aliases) for function in functions), len(operands)],
        [pool.add(function.name) for function in functions],
        [function.size_bytes << 1 | function.is_local for function in functions],
        [function.section for function in functions],
        [function.offset for function in functions],
        [len(function.aliases) for function in functions],
        [len(function.operands) for function in functions],
    ]
    aliases = [pool.add(alias) for function in functions for alias in function.aliases]
    steps = [
        (operand.offset - (function.operands[idx - 1].offset if idx else 0)) << 2 | operand.kind
        for function in functions
        for idx, operand in enumerate(function.operands)
    ]
    callees = [(pool.add(o.callee) + 1) << 1 | o.is_local if o.callee else 0 for o in operands]
    columns[0].append(len(pool.text))
    checksums = b"".join(function.checksum.to_bytes(4, "little") for function in functions)
    head = b"".join(map(ulebs, columns))
    rest = head + checksums + b"".join(map(ulebs, (aliases, steps, callees))) + bytes(pool.text)
    packed = b"ZLIB" + len(rest).to_bytes(8, "big") + zlib.compress(rest, 6)
    body = bytes([VERSION]) + len(functions).to_bytes(4, "little") + bytes(8 * len(functions)) + packed
    return len(body).to_bytes(4, "little") + body


class _Pool:
    """Strings, each once."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._offset: dict[str, int] = {}

    def add(self, text: str) -> int:
        offset = self._offset.get(text)
        if offset is None:
            offset = self._offset[text] = len(self.text)
            self.text += text.encode("utf-8", "surrogateescape") + b"\0"
        return offset


def ulebs(values: Sequence[int]) -> bytes:
    """Return the values as ULEB128, one after the other."""
    out = bytearray(10 * len(values))
    return bytes(out[: _leb.uleb_write(memoryview(array("Q", values)), memoryview(out))]) if values else b""
