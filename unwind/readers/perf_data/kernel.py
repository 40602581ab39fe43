"""Names of kernel functions, from the first of these that is of the kernel that was recorded:

    vmlinux                   and modules (`.ko`): each found by its own build id
    ~/.debug/.../kallsyms     the copy that perf keeps of a kernel's symbols, by its build id
    /proc/kallsyms            of the kernel that runs, if it is that one (/sys/kernel/notes)

The kernel may have lain elsewhere (KASLR): the recording says where `_text` was. Modules lie each by itself; those of
/proc/kallsyms count if each lies where it lay (/proc/modules), which perf's copy does not say. Programs of BPF have the
names that the recording has. No linker folds functions of the kernel, so that these names are certain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

from icf.elf.notes import build_id_of_notes
from icf.errors import FormatError
from icf.reader import Reader
from unwind.process.image_finder import ImageFinder, paths_below
from unwind.readers.perf_data.changes import Changes, Mapped
from unwind.readers.perf_data.header import KERNEL, Header
from unwind.readers.perf_data.kallsyms import Kallsyms, read_kallsyms
from unwind.samples.recording import RecordedFrame

UNKNOWN = "[kernel]"
_NO_FUNCTIONS = ("_etext", "_einittext")


class _Symbols(Protocol):
    """The functions of the kernel or of a module, by address."""

    def name(self, address: int) -> str: ...
    def address_of(self, name: str) -> int: ...


class _Placed(NamedTuple):
    """Symbols, and what is added to a recorded address to get one of theirs."""

    symbols: _Symbols
    move: int = 0


class KernelNames:
    """Frames of kernel code; reads what is known of the kernel when the first is asked for."""

    def __init__(
        self,
        changes: Changes,
        header: Header,
        finder: ImageFinder,
        proc: str = "/proc",
        notes: str = "/sys/kernel/notes",
    ) -> None:
        self._mapped, self._made = changes.kernel, changes.kernel_symbols
        self._header, self._finder = header, finder
        self._proc, self._notes = proc, notes
        self._placed: dict[Mapped, _Placed | None] = {}

    def frame(self, address: int, is_exact: bool) -> RecordedFrame:
        """Return the frame of an address in the kernel."""
        inside = address if is_exact else address - 1
        mapped = next((each for each in self._mapped if each.start <= inside < each.end), None)
        made = {each.path for each in self._made if each.start <= inside < each.end}
        if len(made) == 1:
            name = made.pop()
        else:
            name = self._name(inside, mapped) if mapped is not None and not made else ""
        shown = name or (UNKNOWN if mapped is None or mapped.path.startswith(KERNEL) else f"[{_module(mapped)}]")
        return RecordedFrame(address, name=shown, is_exact=is_exact, is_certain=bool(name))

    def _name(self, address: int, mapped: Mapped) -> str:
        """Return the function that an address lies in, "" if that is not known."""
        if mapped not in self._placed:
            is_text = mapped.path.startswith(KERNEL)
            self._placed[mapped] = self._text(mapped) if is_text else self._of_module(mapped)
        placed = self._placed[mapped]
        if placed is None:
            self._finder.lack(self._problem(mapped), address)
            return ""
        name = placed.symbols.name(address + placed.move)
        return name if name not in _NO_FUNCTIONS else ""

    def _build_id(self, mapped: Mapped) -> bytes:
        path = mapped.path
        return self._header.build_ids.get(path.partition("]")[0] + "]" if path.startswith("[") else path, b"")

    def _text(self, mapped: Mapped) -> _Placed | None:
        """Return the kernel's own functions."""
        anchor = mapped.path.removeprefix(KERNEL)
        for symbols in self._sources() if anchor else ():
            if found := symbols.address_of(anchor):
                return _Placed(symbols, found - mapped.offset)
        return None

    def _sources(self) -> Iterator[_Symbols]:
        from unwind.readers.perf_data.kernel_images import find_vmlinux

        build_id, roots = self._header.build_ids.get(KERNEL, b""), self._finder.roots
        vmlinux = find_vmlinux(build_id, self._header.release, roots)
        if vmlinux is not None:
            yield vmlinux
        for path in paths_below(roots, build_id, ("kallsyms",)):
            try:
                yield read_kallsyms(path)[""]
            except OSError:
                continue
        yield from filter(None, (self._running.get(""),))

    def _of_module(self, mapped: Mapped) -> _Placed | None:
        from unwind.readers.perf_data.kernel_images import find_module

        image = find_module(mapped.path, self._build_id(mapped), mapped.start, self._finder.roots)
        if image is not None:
            return _Placed(image)
        symbols = self._running.get(_module(mapped))
        is_there = symbols is not None and self._places.get(_module(mapped)) == mapped.start
        text = next((each for each in self._mapped if each.path.startswith(KERNEL)), None)
        if symbols is None or not is_there or text is None:
            return None
        own = self._running[""].address_of(text.path.removeprefix(KERNEL))
        return _Placed(symbols) if own == text.offset else None

    @cached_property
    def _running(self) -> dict[str, Kallsyms]:
        """The symbols of the kernel that runs, by module, if it is the recorded one."""
        build_id = self._header.build_ids.get(KERNEL, b"")
        if not build_id or running_build_id(self._notes) != build_id:
            return {}
        try:
            return read_kallsyms(f"{self._proc}/kallsyms")
        except OSError:
            return {}

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where modules lie in the kernel that runs; it may have none."""
        try:
            with open(f"{self._proc}/modules", encoding="utf-8", errors="replace") as file:
                fields = [line.split() for line in file]
        except OSError:
            return {}
        return {each[0]: int(each[5], 16) for each in fields if len(each) > 5}

    def _problem(self, mapped: Mapped) -> str:
        """Return why the functions of a mapping have no names."""
        build_id = self._build_id(mapped)
        if not mapped.path.startswith(KERNEL):
            return f"{mapped.path}: no such file" + (f" of build id {build_id.hex()}" if build_id else "")
        if not build_id:
            return f"{KERNEL}: the recording has no build id of the kernel"
        if self._running:
            return f"{self._proc}/kallsyms: shows no addresses without rights (root, or kernel.kptr_restrict=0)"
        return f"{KERNEL}: neither vmlinux nor kallsyms of build id {build_id.hex()}"


def _module(mapped: Mapped) -> str:
    """Return the name of a module, as the kernel has it."""
    return os.path.basename(mapped.path).partition(".ko")[0].strip("[]").replace("-", "_")


def running_build_id(notes: str = "/sys/kernel/notes") -> bytes:
    """Return the build id of the kernel that runs; empty if it does not say."""
    try:
        with open(notes, "rb") as file:
            return build_id_of_notes(Reader(file.read(), notes, "notes"))
    except (OSError, FormatError):
        return b""
