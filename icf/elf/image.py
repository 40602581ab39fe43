"""An ELF image: its identity, symbols and relocations, and where its debug information is.

    with Image.open("a.out") as image:
        info = image.contents(".debug_info")     # a view of the file's bytes, or the inflated ones
        code = image.read(vaddr, 16)
        names = [image.symbols.name(row) for row in image.symbols.functions]

Each part has a reader of its own, which runs on first use; `icf.elf.file` has the bytes.

Debug information may be in another file. Code is read from the image itself, `.debug_*` sections from `image.debug`,
which is the image where it has them: `icf.debugfiles` finds the file and attaches it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from icf.elf.file import ElfFile
from icf.elf.types import DT_NEEDED, PF_X, PT_LOAD, SHT_DYNSYM, SHT_RELA, SHT_SYMTAB, Section
from icf.filebytes import FileBytes

if TYPE_CHECKING:
    from icf.elf.headers import Headers
    from icf.elf.relocations import Relocations
    from icf.elf.symbols import Symbols
    from icf.linkers import Linker


class Image(ElfFile):
    """One ELF image; use `Image.open`."""

    format: Literal["ELF"] = "ELF"

    def __init__(
        self, path: str, data: memoryview | FileBytes, *, allow_rel: bool = False, headers: Headers | None = None
    ) -> None:
        super().__init__(path, data, allow_rel=allow_rel, headers=headers)
        self._symbols: dict[int, Symbols] = {}
        self._relocations: dict[int, Relocations] = {}
        self._debug: Image | None = None
        self.debug_roots: tuple[str, ...] = ()  # directories that are searched for files of debug information
        self.asks_servers = True  # for these files, too
        self.looked_for: list[str] = []  # the paths that were searched, whether or not there was a file

    def close(self) -> None:
        """Close the file, and that of its debug information; its memory goes with the last view."""
        if self._debug is not None:
            self._debug.close()
        super().close()

    # Debug information in another file

    @property
    def debug(self) -> Image:
        """The file with the debug information: this one, unless another has been attached."""
        return self if self._debug is None else self._debug

    def attach_debug(self, debug: Image) -> None:
        """Attach the separate file with debug information, and with symbols if it has any; `close` closes it, too."""
        self._debug = debug

    @property
    def symbols_file(self) -> Image:
        """The file that has the sections of `symbols`; a debug file keeps all symbols that the image may lack."""
        has_symtab = any(section.type == SHT_SYMTAB for section in self.debug.sections)
        return self.debug if has_symtab else self

    # What the linker leaves

    @cached_property
    def build_id(self) -> bytes:
        """The build id; empty if the image has none."""
        from icf.elf.notes import find_build_id

        return find_build_id(self)

    @cached_property
    def code_digest(self) -> bytes:
        """A digest of the sections with code, which differs if the code differs; empty without code."""
        from icf.elf.codedigest import find_code_digest

        return find_code_digest(self)

    @cached_property
    def linker(self) -> Linker:
        """The linker that made the image; `icf.linkers.UNKNOWN` if the image does not show it."""
        from icf.elf.notes import find_linker

        found = find_linker(self)
        return found if found.name else find_linker(self.debug)

    # Symbols and relocations

    @cached_property
    def symbols(self) -> Symbols:
        """`.symtab`, here or in the debug file; of a stripped image `.dynsym`, and `.gnu_debugdata` if there is one."""
        file = self.symbols_file
        for section in file.sections:
            if section.type == SHT_SYMTAB:
                return file.symbols_of(section.index)
        if self.named(".gnu_debugdata") is not None:
            from icf.elf.minidebug import read_minidebug

            return read_minidebug(self, self.dynamic_symbols)
        return self.dynamic_symbols

    @cached_property
    def dynamic_symbols(self) -> Symbols:
        """`.dynsym`."""
        for section in self.sections:
            if section.type == SHT_DYNSYM:
                return self.symbols_of(section.index)
        return self.symbols_of(0)

    def forget_symbols(self) -> None:
        """Drop the symbol tables, which are read again when they are asked for."""
        for image in {self, self.symbols_file}:
            image._symbols.clear()
            for name in ("symbols", "dynamic_symbols"):
                vars(image).pop(name, None)

    def symbols_of(self, section_idx: int) -> Symbols:
        """Return the symbol table in that section; an empty one for section 0."""
        symbols = self._symbols.get(section_idx)
        if symbols is None:
            from icf.elf.symbols import read_symbols
            from icf.linkers import HiddenSymbols

            made_local_last = self.linker.hidden_symbols is HiddenSymbols.AFTER_ALL_FILES
            symbols = read_symbols(self, section_idx, made_local_last=made_local_last)
            # another thread may have read them meanwhile, and two readers ask whether they have the same ones
            symbols = self._symbols.setdefault(section_idx, symbols)
        return symbols

    def relocations(self, section: Section | str) -> Relocations | None:
        """Return the relocations stored in a section such as `.rela.text`; None if there is no such section."""
        if isinstance(section, str):
            found = self.section(section)
            if found is None:
                return None
            section = found
        relocations = self._relocations.get(section.index)
        if relocations is None:
            from icf.elf.relocations import read_relocations

            relocations = read_relocations(self, section, self.symbols_of)
            relocations = self._relocations.setdefault(section.index, relocations)
        return relocations

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The names of the modules that the loader loads with this one."""
        return tuple(self.dynamic_symbols.name_at(value) for tag, value in self.dynamic if tag == DT_NEEDED)

    @property
    def loader_relocations(self) -> list[Relocations]:
        """The relocations that are loaded, so for the loader and not kept by `--emit-relocs`."""
        found = (
            self.relocations(section) for section in self.sections if section.type == SHT_RELA and section.is_alloc
        )
        return [relocations for relocations in found if relocations is not None]

    @cached_property
    def got_imports(self) -> dict[int, str]:
        """The imported symbol of each GOT slot that the loader fills, by the address of the slot."""
        from icf.elf.plt import find_got_imports

        return find_got_imports(self.machine, self.loader_relocations)

    @cached_property
    def slot_versions(self) -> dict[int, str]:
        """The version of each such slot whose symbol has one, by the address of the slot."""
        from icf.elf.plt import find_slot_versions

        return find_slot_versions(self, self.loader_relocations)

    @cached_property
    def _named_slots(self) -> dict[int, str]:
        """The function of each GOT slot that stubs jump through, by the address of the slot."""
        from icf.elf.plt import find_ifunc_slots

        return find_ifunc_slots(self.machine, self.loader_relocations, lambda: self.symbols) | self.got_imports

    @cached_property
    def plt_slots(self) -> dict[int, int]:
        """The address of the GOT slot that each PLT stub jumps through, by the address of the stub."""
        from icf.elf.plt import find_plt_slots

        return find_plt_slots(self, self._named_slots)

    @cached_property
    def plt_stubs(self) -> dict[int, str]:
        """The name of the function that each PLT stub jumps to, by the address of the stub."""
        return {start: self._named_slots[slot] for start, slot in self.plt_slots.items()}

    def may_start_function(self, vaddr: int) -> bool:
        """Return whether a function may start there: certain with a symbol table, else true wherever there is code."""
        if not any(
            segment.type == PT_LOAD and segment.flags & PF_X and 0 <= vaddr - segment.vaddr < segment.filesz
            for segment in self.segments
        ):
            return False
        symbols = self.symbols
        return not len(symbols.functions) or bool((symbols.value == vaddr).any()) or vaddr in self.plt_stubs
