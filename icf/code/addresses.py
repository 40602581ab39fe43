"""Places where machine code forms the address of given functions, other than to call them or jump to them.

    lea    f(%rip), %rax        adrp x0, f              movabs $f - GOT, %rax     large code model
    mov    $f, %edi             add  x0, x0, :lo12:f    ldr x0, =f                not position-independent

The result is a superset: every position is tried as an instruction, and in code that is not position-independent every
four bytes that hold an address count. Callers read a row as "may take the address of": a superfluous row is harmless, a
missing one is not. An address that is loaded from the GOT has no row: the slot of the GOT is a pointer in data.

On AArch64 an `adrp` forms a page and another instruction the place in it. All `add` of that register in the same
function are tried; if the function does not use the register as a base, every function of the page counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code.branches import executable_sections
from icf.columns import I64, U8, U32, U64, Mask
from icf.elf.types import ET_EXEC, Machine
from icf.sets import distinct, distinct_pairs

if TYPE_CHECKING:
    from icf.image import AnyImage

_CHUNK_BYTES = 1 << 20  # so that temporary columns stay small
_OVERLAP_BYTES = 16  # more than any instruction here
_PAGE_BITS = np.uint64(12)


class Mentions(NamedTuple):
    """One row for each place that holds or forms the address of a function."""

    place: U64  # address of the operand (x86-64), of the instruction (AArch64), or of the word in data
    target: U64

    @classmethod
    def of(cls, rows: list[tuple[U64, U64]]) -> Mentions:
        """Return the rows of several columns, by place."""
        none = np.empty(0, np.uint64)
        place = np.concatenate([none, *(place for place, _ in rows)])
        target = np.concatenate([none, *(target for _, target in rows)])
        return cls(*distinct_pairs(place, target))


def hits(values: U64, targets: U64) -> Mask:
    """Return which values are among `targets`, which ascend."""
    if not len(targets):
        return np.zeros(len(values), np.bool_)
    found = np.zeros(len(values), np.bool_)
    near = np.flatnonzero((values >= targets[0]) & (values <= targets[-1]))
    found[near] = targets[np.searchsorted(targets, values[near])] == values[near]
    return found


def find_words(contents: memoryview, vaddr: int, targets: U64, step: int) -> tuple[U64, U64]:
    """Return the places in `contents` (at `vaddr`) where 4 bytes hold a target, or 8 bytes hold one below 4 GiB.

    `step` is 1 for any place, 4 for those whose address is a multiple of it. (An address needs four bytes: images
    that are linked to be loaded higher are none that this package reads functions of.)
    """
    places, found = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    buffer = np.frombuffer(contents, np.uint8)
    for offset in range(-vaddr % 4, -vaddr % 4 + 4) if step == 1 else [-vaddr % 4]:
        count = (len(buffer) - offset) // 4
        if count <= 0:
            continue
        words = buffer[offset : offset + 4 * count].view("<u4").astype(np.uint64)
        at = np.flatnonzero(hits(words, targets))
        places.append(at.astype(np.uint64) * np.uint64(4) + np.uint64(vaddr + offset))
        found.append(words[at])
    return np.concatenate(places), np.concatenate(found)


def find_mentions(image: AnyImage, targets: U64, starts: U64, ends: U64) -> Mentions:
    """Return where the code of `image` may form one of `targets`, which ascend; `starts`, `ends` are its functions."""
    rows: list[tuple[U64, U64]] = []
    if not len(targets):
        return Mentions.of(rows)
    x86 = image.machine is Machine.X86_64
    bases, fixed = list[int](), False
    if image.format == "ELF":
        fixed = image.elf_type == ET_EXEC
        bases = [section.vaddr for section in image.sections if section.name in (".got", ".got.plt")]
    for section in executable_sections(image):
        contents = section.code
        if not x86:
            rows += _aarch64(contents, section.vaddr, targets, starts, ends)
        for start in range(0, len(contents), _CHUNK_BYTES):
            chunk = contents[start : start + _CHUNK_BYTES + _OVERLAP_BYTES]
            if x86:
                rows += _x86_64(np.frombuffer(chunk, np.uint8), section.vaddr + start, targets, bases)
            if fixed:
                rows.append(find_words(chunk, section.vaddr + start, targets, 1 if x86 else 4))
                rows += [] if x86 else [_aarch64_halves(chunk, section.vaddr + start, targets)]
    return Mentions.of(rows)


def _x86_64(code: U8, vaddr: int, targets: U64, bases: list[int]) -> list[tuple[U64, U64]]:
    rows = []
    # lea disp32(%rip): the ModRM byte has mod 0 and rm 5
    at = np.flatnonzero(code[:-5] == 0x8D)
    at = at[code[at + 1] & 0xC7 == 0x05] + 2
    place = at.astype(np.uint64) + np.uint64(vaddr)
    rows.append((place, place + np.uint64(4) + _signed(code, at)))
    # movabs imm64: REX.W, then b8 to bf
    at = np.flatnonzero(code[1:-8] >> 3 == 0xB8 >> 3)
    at = at[code[at] >> 3 == 0x48 >> 3] + 2
    place = at.astype(np.uint64) + np.uint64(vaddr)
    value = _signed(code, at) & np.uint64(0xFFFFFFFF) | _signed(code, at + 4) << np.uint64(32)
    rows += [(place, value + np.uint64(base)) for base in (0, *bases)]
    found = []
    for places, values in rows:
        hit = hits(values, targets)
        found.append((places[hit], values[hit]))
    return found


def _signed(code: U8, at: I64) -> U64:
    """Return the four bytes at each position as a signed number, in 64 bits."""
    value = code[at].astype(np.uint32)
    for idx in range(1, 4):
        value |= code[at + idx].astype(np.uint32) << np.uint32(8 * idx)
    return value.view(np.int32).astype(np.int64).view(np.uint64)


def _aarch64(contents: memoryview, vaddr: int, targets: U64, starts: U64, ends: U64) -> list[tuple[U64, U64]]:
    words = np.frombuffer(contents[: len(contents) // 4 * 4], "<u4")
    # adr and adrp: 21 bits, of which two stand apart
    at = np.flatnonzero(words & 0x1F000000 == 0x10000000)
    word = words[at]
    immediate = ((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3).astype(np.int64)
    immediate -= (immediate >> 20) << 21
    place = at.astype(np.uint64) * np.uint64(4) + np.uint64(vaddr)
    is_page = word >> 31 == 1
    value = place[~is_page] + immediate[~is_page].view(np.uint64)
    hit = hits(value, targets)
    rows = [(place[~is_page][hit], value[hit])]

    pages = (place[is_page] >> _PAGE_BITS) + immediate[is_page].view(np.uint64)
    is_near = hits(pages, distinct(targets >> _PAGE_BITS))
    body = np.searchsorted(starts, place[is_page], side="right").astype(np.int64) - 1
    for row in np.flatnonzero(is_near).tolist():
        here, register = int(place[is_page][row]), int(word[is_page][row]) & 31
        page = int(pages[row]) << 12
        low, high = vaddr, vaddr + 4 * len(words)
        if body[row] >= 0 and here < int(ends[body[row]]):
            low, high = max(low, int(starts[body[row]])), min(high, int(ends[body[row]]))
        low -= (low - vaddr) % 4
        rows.append(_of_page(words[(low - vaddr) // 4 : (high - vaddr) // 4], low, register, page, targets))
        if rows[-1][0].size == 0 and rows[-1][1].size:  # the function does not use the register
            rows[-1] = (np.full(len(rows[-1][1]), here, np.uint64), rows[-1][1])
    return rows


def _aarch64_halves(contents: memoryview, vaddr: int, targets: U64) -> tuple[U64, U64]:
    """Return the places and targets of movz and movk that put both halves of a target into one register.

    The two are up to three instructions apart.
    """
    words = np.frombuffer(contents[: len(contents) // 4 * 4], "<u4")
    is_low = words & 0x5FE00000 == 0x52800000  # movz, movk: bits 0 to 15
    is_high = words & 0x5FE00000 == 0x52A00000  # bits 16 to 31
    places, values = [], []
    for distance in (-3, -2, -1, 1, 2, 3):
        low = np.flatnonzero(is_low)
        low = low[(low + distance >= 0) & (low + distance < len(words))]
        low = low[is_high[low + distance] & (words[low] & 31 == words[low + distance] & 31)]
        value = words[low] >> 5 & 0xFFFF | (words[low + distance] >> 5 & 0xFFFF) << 16
        places.append(low.astype(np.uint64) * np.uint64(4) + np.uint64(vaddr))
        values.append(value.astype(np.uint64))
    place, value = np.concatenate(places), np.concatenate(values)
    hit = hits(value, targets)
    return place[hit], value[hit]


def _of_page(words: U32, vaddr: int, register: int, page: int, targets: U64) -> tuple[U64, U64]:
    """Return the targets formed from a register that holds `page`, and their places; all targets if it is not used."""
    is_base = words >> 5 & 31 == register
    at = np.flatnonzero(is_base & (words & 0xFFC00000 == 0x91000000))  # add Xd, Xn, #imm12
    place = at.astype(np.uint64) * np.uint64(4) + np.uint64(vaddr)
    value = (words[at] >> 10 & 0xFFF).astype(np.uint64) + np.uint64(page)
    if len(at) or (is_base & (words & 0x3B000000 == 0x39000000)).any():  # or a load or store there
        hit = hits(value, targets)
        return place[hit], value[hit]
    return place[:0], targets[(targets >> _PAGE_BITS) == np.uint64(page >> 12)]
