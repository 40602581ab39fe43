"""What decoding needs of a program's code; an `Image` provides it, and so may a stored copy."""

from __future__ import annotations

from typing import Protocol

from icf.elf.types import Machine


class CodeView(Protocol):
    """Code by link-time addresses."""

    @property
    def machine(self) -> Machine: ...

    def read(self, vaddr: int, size_bytes: int) -> memoryview:
        """Return the bytes from `vaddr` on: `size_bytes` of them, or as many as there are without a gap."""

    def may_start_function(self, vaddr: int) -> bool:
        """Return whether a function may start there: certain with a symbol table, else true wherever there is code."""
