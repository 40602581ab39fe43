"""Whether a program keeps frame pointers, which call chains of the kernel are walked by.

x86-64 compilers leave them out unless they are asked for. A function that has one begins with

    55         push %rbp            after endbr64, if that is there
    48 89 e5   mov %rsp,%rbp

so their number, compared with that of the functions that unwind tables describe, shows how the program was built.
"""

from __future__ import annotations

from icf.elf.image import Image
from icf.elf.types import Machine
from icf.errors import IcfError

_PROLOGUE = b"\x55\x48\x89\xe5"
_FEW = 1 / 4  # leaf functions, and those that tail-call at once, have none even if they are asked for
_LEAST_FUNCTIONS = 8
_TABLE_AT = 12  # of .eh_frame_hdr: version, encodings, pointer; then the count
_UDATA4 = 3


def lacks_frame_pointers(path: str) -> bool:
    """Return whether most functions of a program have no frame pointer; False also if that cannot be known."""
    try:
        with Image.open(path) as image:
            if image.machine is not Machine.X86_64:
                return False
            header = bytes(image.contents(".eh_frame_hdr")[:_TABLE_AT])
            if len(header) < _TABLE_AT or header[2] != _UDATA4:
                return False
            function_count = int.from_bytes(header[8:], "little")
            kept_count = bytes(image.contents(".text")).count(_PROLOGUE)
            return kept_count < _FEW * function_count and function_count >= _LEAST_FUNCTIONS
    except (IcfError, OSError):
        return False
