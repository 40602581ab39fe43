"""Names of kernel functions: from /proc/kallsyms, if the kernel that runs is the one that was recorded.

    ffffffff81000130 T entry_SYSCALL_64_after_hwframe          address, type, name
    ffffffffc0a01000 t nft_do_chain  [nf_tables]               of a module

It is that one if the build ids agree (/sys/kernel/notes). It may lie elsewhere since the machine was started again,
which `_text` shows; modules have names only if each lies where it lay (/proc/modules). Without rights all addresses in
these files are zero, and there are no names. No linker folds functions of the kernel. Of several symbols at one
address the global one with the fewest underscores in front is shown.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from icf.elf.notes import build_id_of_notes
from icf.errors import FormatError
from icf.reader import Reader
from unwind.readers.perf_data.changes import Mapped
from unwind.readers.perf_data.header import KERNEL
from unwind.samples.recording import RecordedFrame

UNKNOWN = "[kernel]"
_CODE = b"TtWw"
_DIGITS = 16


class _Symbols:
    """The lines of the kernel or of one of its modules; a line is looked at when its name is wanted."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = sorted(lines)

    def name(self, address: int) -> str:
        """Return the function that begins at an address or last before it; "" if there is none."""
        at = bisect_right(self._lines, b"%016x" % address, key=lambda line: line[:_DIGITS])
        found: list[tuple[int, bytes]] = []
        start = b""
        while at > 0:
            at -= 1
            line = self._lines[at]
            if found and line[:_DIGITS] != start:
                break
            if line[_DIGITS + 1] in _CODE:
                start, (_, kind, name, *_) = line[:_DIGITS], line.split()
                found.append((2 * (len(name) - len(name.lstrip(b"_"))) + (kind != b"T"), name))
        return min(found)[1].decode("utf-8", "replace") if found else ""

    def address_of(self, name: bytes) -> int:
        """Return the address of the first symbol of this name, 0 if there is none."""
        ending = b" " + name
        return next((int(line[:_DIGITS], 16) for line in self._lines if line.endswith(ending)), 0)


class KernelNames:
    """Frames of kernel code; reads what this machine knows when the first is asked for."""

    def __init__(
        self, mapped: list[Mapped], build_id: bytes, proc: str = "/proc", notes: str = "/sys/kernel/notes"
    ) -> None:
        self._mapped, self._build_id, self._proc, self._notes = mapped, build_id, proc, notes
        self._symbols: dict[Mapped, _Symbols] | None = None  # of what lies where it lay
        self._moved_by = 0

    def frame(self, address: int, is_exact: bool) -> RecordedFrame:
        """Return the frame of an address in the kernel."""
        name = self.name(address if is_exact else address - 1)
        return RecordedFrame(address, name=name or UNKNOWN, is_exact=is_exact, is_certain=bool(name))

    def name(self, address: int) -> str:
        """Return the function that an address lies in, "" if that is not known."""
        if self._symbols is None:
            try:
                self._symbols = self._read()
            except (OSError, FormatError):
                self._symbols = {}
        mapped = next((each for each in self._mapped if each.start <= address < each.end), None)
        symbols = self._symbols.get(mapped) if mapped is not None else None
        if symbols is None or mapped is None:
            return ""
        return symbols.name(address + self._moved_by if mapped.path.startswith(KERNEL) else address)

    def _read(self) -> dict[Mapped, _Symbols]:
        running = running_build_id(self._notes)
        text = next((each for each in self._mapped if each.path.startswith(KERNEL)), None)
        if not self._build_id or running != self._build_id or text is None:
            return {}
        with open(f"{self._proc}/kallsyms", "rb") as file:
            lines = [line for line in file.read().split(b"\n") if line[_DIGITS : _DIGITS + 1] == b" "]
        found: dict[str, list[bytes]] = {}
        for line in lines:
            if line.endswith(b"]"):
                found.setdefault(line.rpartition(b"[")[2][:-1].decode(), []).append(line)
        own = _Symbols([line for line in lines if not line.endswith(b"]")] if found else lines)
        anchor = own.address_of(text.path.removeprefix(KERNEL).encode())
        if not anchor:
            return {}
        self._moved_by = anchor - text.offset
        symbols = {text: own}
        if not self._moved_by and found:
            places = self._places()
            for each in self._mapped:
                module = os.path.basename(each.path).partition(".ko")[0].strip("[]").replace("-", "_")
                if module in found and places.get(module) == each.start:
                    symbols[each] = _Symbols(found[module])
        return symbols

    def _places(self) -> dict[str, int]:
        """Return where the kernel's modules lie; a kernel may have none."""
        try:
            with open(f"{self._proc}/modules", encoding="utf-8", errors="replace") as file:
                fields = [line.split() for line in file]
        except OSError:
            return {}
        return {each[0]: int(each[5], 16) for each in fields if len(each) > 5}


def running_build_id(notes: str = "/sys/kernel/notes") -> bytes:
    """Return the build id of the kernel that runs; empty if it does not say."""
    try:
        with open(notes, "rb") as file:
            return build_id_of_notes(Reader(file.read(), notes, "notes"))
    except (OSError, FormatError):
        return b""
