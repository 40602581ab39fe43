"""The machine code as the resolver asks about it: the call before a return address, the jumps of a function.

Jumps matter only where the recorded calls do not explain a stack, so a body is decoded when first asked
about. It is decoded straight through from its start. Where that stops early (data among the code) nothing
is known of its jumps, and the resolver rules nothing out. The same holds for a jump through the procedure
linkage table: another module may come back. A switch's jump table looks like any other indirect jump. Most runs
decode nothing, so capstone, whose import takes longer than they do, is left for those that do.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from icf.code.calls import CallKind, call_ending_at
from icf.elf.image import Image
from icf.elf.types import Machine
from unwind.program import CallSite, Jumps, SiteKind

if TYPE_CHECKING:
    import capstone

_LONGEST_BODY_BYTES = 1 << 20
_INDIRECT_JUMPS = {  # what the bytes of one look like; others may look so, too
    Machine.X86_64: re.compile(rb"\xff[\x20-\x2f\x60-\x6f\xa0-\xaf\xe0-\xef]"),  # ff /4, ff /5
    Machine.AARCH64: re.compile(rb"[\x1f\xdf]\xd6|[\x1f\xdf]\xd7"),  # br, braa and its kind, ret
}


class ImageCode:
    """The code of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._sites: dict[int, CallSite] = {}
        self._jumps: dict[tuple[int, int], Jumps | None] = {}
        self._by_pointer: dict[int, bool] = {}

    def call_site(self, return_address: int) -> CallSite:
        """What the instruction before `return_address` is."""
        site = self._sites.get(return_address)
        if site is None:
            site = self._sites[return_address] = self._decode_site(return_address)
        return site

    def _decode_site(self, return_address: int) -> CallSite:
        if not self._image.read(max(return_address - 1, 0), 1):
            return CallSite(SiteKind.UNKNOWN)
        call = call_ending_at(self._image, return_address)
        if call.kind is CallKind.NONE:
            return CallSite(SiteKind.NONE)
        if call.kind is CallKind.INDIRECT or call.target is None:
            return CallSite(SiteKind.INDIRECT)
        symbol = self._image.plt_stubs.get(call.target)
        if symbol is not None:
            return CallSite(SiteKind.IMPORT, symbol=symbol)
        return CallSite(SiteKind.DIRECT, target=call.target)

    def jumps(self, start: int, end: int) -> Jumps | None:
        """The jumps of the function in `start:end`; None when it cannot be decoded."""
        key = (start, end)
        if key not in self._jumps:
            self._jumps[key] = self._decode_jumps(start, end)
        return self._jumps[key]

    def may_jump_by_pointer(self, start: int, end: int) -> bool:
        """Whether the function in `start:end` may leave by an indirect jump; decodes what looks as if it did."""
        known = self._by_pointer.get(start)
        if known is None:
            code = bytes(self._image.read(start, max(end - start, 0)))
            looks_so = not code or bool(_INDIRECT_JUMPS[self._image.machine].search(code))
            jumps = self.jumps(start, end) if looks_so or self._image.plt_stubs else Jumps()
            known = self._by_pointer[start] = jumps is None or jumps.indirect
        return known

    def _decode_jumps(self, start: int, end: int) -> Jumps | None:
        size_bytes = end - start
        code = self._image.read(start, size_bytes) if 0 < size_bytes <= _LONGEST_BODY_BYTES else b""
        if len(code) < size_bytes or not size_bytes:
            return None
        from capstone import CS_GRP_CALL, CS_GRP_JUMP

        direct = []
        indirect = False
        reached = start
        for insn in self._disassembler.disasm(bytes(code), start):
            reached = insn.address + insn.size
            if not insn.group(CS_GRP_JUMP) or insn.group(CS_GRP_CALL):
                continue
            target = _target(insn)
            if target is None or target in self._image.plt_stubs:
                indirect = True
            elif not start <= target < end or target == start:
                direct.append((insn.address, target))
        return Jumps(tuple(direct), indirect) if reached == end else None

    @cached_property
    def _disassembler(self) -> capstone.Cs:
        import capstone

        if self._image.machine is Machine.X86_64:
            disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        else:
            disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        disassembler.detail = True
        return disassembler


def _target(insn: capstone.CsInsn) -> int | None:
    """Where a jump goes; None if a register or memory says it."""
    from capstone import CS_OP_IMM

    if insn.operands and insn.operands[-1].type == CS_OP_IMM:
        return int(insn.operands[-1].imm) & (1 << 64) - 1
    return None
