"""All direct calls and jumps of an image to a set of addresses, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icf.code._branches import find_aarch64, find_x86_64
from icf.elf.image import Image
from icf.elf.types import SHF_EXECINSTR, SHT_NOBITS, Machine, Section

U64 = NDArray[np.uint64]

CALL, JUMP, CONDITIONAL_JUMP = 1, 2, 3


@dataclass(slots=True)
class Branches:
    """One row for each branch, by address. `end` is the address after the instruction: of a call, its return
    address."""

    end: U64
    target: U64
    kind: NDArray[np.uint8]


def executable_sections(image: Image) -> Iterator[Section]:
    """The sections that hold code in this file."""
    for section in image.sections:
        if section.flags & SHF_EXECINSTR and section.type != SHT_NOBITS and section.size_bytes:
            yield section


def find_branches(image: Image, call_targets: U64, jump_targets: U64) -> Branches:
    """Direct calls to `call_targets` and direct jumps to `jump_targets`, anywhere in the code."""
    find = find_x86_64 if image.machine is Machine.X86_64 else find_aarch64
    rows: list[U64] = []
    both = [t for t in (call_targets, jump_targets) if len(t)]
    if both:
        low = int(min(t.min() for t in both))
        high = int(max(t.max() for t in both)) + 1
        call_bits, jump_bits = _bitmap(call_targets, low, high), _bitmap(jump_targets, low, high)
        out = np.empty((1 << 15, 3), np.uint64)
        result = np.zeros(2, np.uint64)
        for section in executable_sections(image):
            text = image.contents(section)
            start = 0
            while start < len(text):
                find(text, section.vaddr, low, call_bits, jump_bits, start, out, result)
                rows.append(out[: int(result[0])].copy())
                start = int(result[1])
                if result[0] == 0 and start < len(text):
                    break
                if int(result[0]) < len(out):
                    break
    found = np.concatenate(rows) if rows else np.empty((0, 3), np.uint64)
    found = found[np.argsort(found[:, 0], kind="stable")]
    return Branches(found[:, 0].copy(), found[:, 1].copy(), found[:, 2].astype(np.uint8))


def _bitmap(targets: U64, low: int, high: int) -> NDArray[np.uint8]:
    bits = np.zeros((high - low + 7) // 8, np.uint8)
    offset = targets - np.uint64(low)
    np.bitwise_or.at(bits, (offset >> np.uint64(3)).astype(np.intp), (1 << (offset & np.uint64(7))).astype(np.uint8))
    return bits
