"""Jumps out of a function, as both machines have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.support.toolchain import compile_object, link, tool
from unwind.program.code import DecodedCode
from unwind.program.facts import ImageFacts
from unwind.program.parts import Jumps, SiteKind

X86_64 = """
    .text
    .globl _start, out, call_far
_start: test %eax, %eax; je out; jmp 1f; 1: call out
call_far: call *8(%rax); ret; jmp out
    .size _start, .-_start
through: jmp *%rax
out: ret; .byte 0x06, 0xff, 0xe0
    call retpoline
after: nop
retpoline: call 1f; 2: pause; jmp 2b; 1: mov %r11, (%rsp); ret
end: nop
"""
AARCH64 = """
    .text
    .globl _start, out, call_far
_start: cbz x0, out; tbz w0, 3, out; b.eq 1f; 1: bl out
call_far: blr x1; ret; b out
    .size _start, .-_start
through: br x16
out: ret; .word 0xffffffff, 0xd61f0000
"""


@pytest.mark.parametrize(("arch", "source"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_jumps_that_leave_are_found(arch: str, source: str, tmp_path: Path) -> None:
    tool("clang++")
    path = link(tmp_path / "image", "lld", compile_object(source, arch=arch, suffix=".s"), "-nostdlib", arch=arch)
    with Image.open(path) as image:
        symbols = image.symbols
        at = {symbols.name(row): int(symbols.value[row]) for row in range(symbols.count)}
        code = DecodedCode(ImageFacts(image))
        start, through, out = at["_start"], at["through"], at["out"]
        jumps = code.jumps(start, through)
        assert jumps is not None and not jumps.indirect
        assert {target for _, target in jumps.direct} == {out}
        assert len(jumps.direct) == (2 if arch == "x86_64" else 3)
        assert code.jumps(through, out) == Jumps(indirect=True)
        assert code.jumps(out, out + (1 if arch == "x86_64" else 4)) == Jumps()
        # data among the code, a body that is not in the file, an empty one
        assert code.jumps(out, out + (4 if arch == "x86_64" else 12)) is None
        assert code.jumps(1 << 40, (1 << 40) + 16) is None and code.jumps(start, start) is None
        if arch == "x86_64":  # returns to what it wrote over its return address
            assert code.jumps(at["retpoline"], at["end"]) == Jumps(indirect=True)
            assert code.call_site(at["after"]).kind is SiteKind.INDIRECT
        site = code.call_site(at["call_far"])
        assert (site.kind, site.target) == (SiteKind.DIRECT, out)
        assert code.call_site(at["call_far"] + (3 if arch == "x86_64" else 4)).kind is SiteKind.INDIRECT
