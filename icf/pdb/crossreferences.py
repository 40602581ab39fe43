"""Functions of other modules, by the numbers that a module has for them.

Code that is generated at link time (`/GL`) is inlined from one module into another one, and a module keeps its own
numbers of functions. So a record has one that leads through two tables of the modules' line information:

    site in Agent.obj            inlined function 0x80500003      bit 31; module 5 of the imports, and in it number 3
    imports of Agent.obj         5: pty.obj  [.., .., .., 0x1ca1]     kind 0xf7: u32 name in /names, u32 count, u32 each
    exports of pty.obj           0x1ca1 is 0x6182                     kind 0xf8: u32 and u32 for each function
    IPI stream                   0x6182: LF_FUNC_ID open_pty

The names of modules in imports are in lower case. A number that leads nowhere, or to two functions, has no name.

Sources: LLVM, `DebugCrossImpSubsection.h`, `DebugCrossExSubsection.h`; microsoft-pdb, `cvinfo.h`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from icf.errors import FormatError
from icf.pdb.dbi import Module
from icf.reader import Reader

_IS_CROSSING, _MODULE_BITS, _NUMBER_BITS = 1 << 31, 11, 20
IMPORTS, EXPORTS = 0xF7, 0xF8  # kinds of subsections


class CrossReferences:
    """Finds the functions of other modules; tables are read when a number leads to them.

    Args:
        modules: all modules of the program.
        stream: returns the stream of a number.
        string: returns a string of the table that all modules share, by its offset.
        path: of the PDB, for messages.
    """

    def __init__(
        self, modules: Sequence[Module], stream: Callable[[int], memoryview], string: Callable[[int], str], path: str
    ) -> None:
        self._stream, self._string, self._path = stream, string, path
        names = Counter(module.name.lower() for module in modules)
        self._modules = {each.name.lower(): each for each in modules if names[each.name.lower()] == 1}
        self._imports: dict[int, list[tuple[str, list[int]]]] = {}  # by module
        self._exports: dict[int, dict[int, int]] = {}

    def find(self, module: Module, number: int) -> int:
        """Return the number in the IPI stream of a number that a module has; 0 if it leads nowhere.

        Raises:
            FormatError: a table breaks the format.
        """
        if not number & _IS_CROSSING:
            return number
        imports = self._imports_of(module)
        row, idx = number >> _NUMBER_BITS & (1 << _MODULE_BITS) - 1, number & (1 << _NUMBER_BITS) - 1
        if row >= len(imports) or idx >= len(imports[row][1]):
            return 0
        other = self._modules.get(imports[row][0].lower())
        return self._exports_of(other).get(imports[row][1][idx], 0) if other is not None else 0

    def _imports_of(self, module: Module) -> list[tuple[str, list[int]]]:
        if module.number not in self._imports:
            found = []
            for reader in self._subsections(module, IMPORTS):
                while reader.remaining:
                    name, count = reader.u32(), reader.u32()
                    if count > reader.remaining // 4:
                        raise reader.error(f"{count} imports, {reader.remaining} bytes are left", reader.pos - 4)
                    found.append((self._string(name), [reader.u32() for _ in range(count)]))
            self._imports[module.number] = found
        return self._imports[module.number]

    def _exports_of(self, module: Module) -> dict[int, int]:
        if module.number not in self._exports:
            found: dict[int, int] = {}
            for reader in self._subsections(module, EXPORTS):
                while reader.remaining:
                    mine, number = reader.u32(), reader.u32()
                    found[mine] = number if found.get(mine, number) == number else 0
            self._exports[module.number] = found
        return self._exports[module.number]

    def _subsections(self, module: Module, kind: int) -> Iterator[Reader]:
        """Yield the subsections of one kind, each as a reader of its contents."""
        stream, place = self._stream(module.stream), f"lines of {module.name}"
        begin = module.symbol_bytes + module.c11_bytes
        end = begin + module.c13_bytes
        if end > len(stream):
            problem = f"{module.c13_bytes} bytes end outside of the stream of {len(stream)}"
            raise FormatError(self._path, place, begin, problem)
        reader = Reader(stream, self._path, place, begin, end)
        while reader.remaining:
            found, size_bytes = reader.u32(), reader.u32()
            start = reader.pos
            reader.take(size_bytes)
            if found == kind:
                yield Reader(stream, self._path, place, start, start + size_bytes)
            reader.take(min(-size_bytes % 4, reader.remaining))
