"""Lists of the kernel's symbols: /proc/kallsyms of the one that runs, or the copy that perf keeps of a recorded one.

    ffffffff81000130 T entry_SYSCALL_64_after_hwframe          address, type, name
    ffffffffc0a01000 t nft_do_chain  [nf_tables]               of a module

Without rights all addresses in /proc/kallsyms are zero. Of several symbols at one address the global one with the
fewest underscores in front is shown.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_CODE = b"TtWw"
_DIGITS = 16
_ENTRY = re.compile(rb"^[0-9a-f]{16} \S \S.*$", re.MULTILINE)


def preference(name: str, *, is_global: bool) -> int:
    """Return how well a name stands for an address that has several: the least is shown."""
    return 2 * (len(name) - len(name.lstrip("_"))) + (not is_global)


class Kallsyms:
    """The lines of the kernel or of one of its modules; a line is looked at when its name is wanted."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = sorted(lines)

    def name(self, address: int) -> str:
        """Return the function that begins at an address or last before it; "" if there is none."""
        at = bisect_right(self._lines, b"%016x" % address, key=lambda line: line[:_DIGITS])
        found: list[tuple[int, str]] = []
        start = b""
        while at > 0:
            at -= 1
            line = self._lines[at]
            if found and line[:_DIGITS] != start:
                break
            if line[_DIGITS + 1] in _CODE:
                start, (_, kind, symbol, *_) = line[:_DIGITS], line.split()
                name = symbol.decode("utf-8", "replace")
                found.append((preference(name, is_global=kind == b"T"), name))
        return min(found)[1] if found else ""

    def address_of(self, name: str) -> int:
        """Return the address of the first symbol of this name, 0 if there is none."""
        ending = b" " + name.encode("utf-8", "surrogateescape")
        return next((int(line[:_DIGITS], 16) for line in self._lines if line.endswith(ending)), 0)


def read_kallsyms(path: str) -> dict[str, Kallsyms]:
    """Return the symbols by the names of modules, "" is the kernel itself; raises `OSError`."""
    with open(path, "rb") as file:
        lines: list[bytes] = _ENTRY.findall(file.read())
    found: dict[str, list[bytes]] = {"": []}
    for line in lines:
        module = line.rpartition(b"[")[2][:-1].decode("utf-8", "replace") if line.endswith(b"]") else ""
        found.setdefault(module, []).append(line)
    return {module: Kallsyms(of_module) for module, of_module in found.items()}
