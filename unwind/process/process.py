"""The modules of a process: which one an address lies in, and what they define for each other.

Everything in a `Program` is by link-time addresses of its own image. Here the programs meet: run-time address =
link-time address + bias, and a name that one module imports is a function of another.

    0x555500001180   module shop, bias 0x555500000000    call g@plt       ──>  g of each module that exports one
    0x7f0000001204   module libx.so                      frame in {g, h}  ──>  g: libx.so exports that name

It does not matter which definition the loader has bound: whichever modules export the name, the frame lies in one of
them, and its own definition is the only one that leads there - or another one does so by a tail call, which is followed
just as well. The resolver assumes that an unknown module does not redefine a symbol of a known one.

A program is loaded on the first look-up of an address in it, or of a call that leads to it. `Process.of` makes a
process
of the one image that `-e` names, whose neighbours are not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from icf.model import RuntimeAddr, Vaddr
from unwind.process.borrowed_vtables import borrow
from unwind.program.dispatch import Dispatch
from unwind.program.exports import Exports
from unwind.program.program import Body, Linkage, Program, VtableGroup
from unwind.program.reach import CallGraph

_OF_C_LIBRARY = "__libc_start_main"  # which glibc and musl define, and no module that replaces some functions of theirs


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One loaded image; `start` and `end` are run-time addresses, `bias` is those less the ones as linked."""

    path: str
    bias: int
    start: int
    end: int
    load: Callable[[Linkage], Program]
    exports: Exports
    loaded: range | None = None  # all of its run-time addresses, where those above are of its code alone

    def linked(self, address: RuntimeAddr) -> Vaddr:
        """Return an address in the image as it was linked."""
        return Vaddr(address - self.bias)


class Process:
    """The modules of one process, which do not overlap."""

    def __init__(self, modules: Iterable[Module], *, is_whole: bool = True, lacks_images: bool = False) -> None:
        self.is_whole = is_whole  # else there are other, unknown modules
        self.has_all = is_whole and not lacks_images  # the images of all modules were found
        self.candidates: list[tuple[Body, int]] = []
        self.graph = CallGraph()
        self._modules = sorted(modules, key=lambda module: module.start)
        self._starts = [module.start for module in self._modules]
        self._programs: dict[Module, Program] = {}
        self._nodes_named: dict[str, list[int]] = {}
        self._replaced: dict[str, bool] = {}
        self._is_replaced: dict[tuple[str, Module], bool] = {}
        self._c_library_with: dict[str, Program | None] = {}

    @classmethod
    def of(cls, program: Program) -> Process:
        """Return a process with one known module, whose run-time addresses are those of the link."""
        module = Module("", 0, 0, 1 << 64, lambda _: program, program.exports)
        process = cls([module], is_whole=False)
        process.candidates = program.candidates
        return process

    def module_at(self, address: RuntimeAddr) -> Module | None:
        """Return the module that an address lies in."""
        idx = bisect_right(self._starts, address) - 1
        return self._modules[idx] if idx >= 0 and address < self._modules[idx].end else None

    def module_with_data(self, address: RuntimeAddr) -> Module | None:
        """Return the module that an address of data lies in."""
        found = (each for each in self._modules if each.loaded is not None and address in each.loaded)
        return self.module_at(address) or next(found, None)

    def programs(self) -> Iterator[Program]:
        """Yield the programs of all modules."""
        return map(self.program, self._modules)

    def program(self, module: Module) -> Program:
        """Return the program of a module."""
        program = self._programs.get(module)
        if program is None:
            program = self._programs[module] = module.load(_Linkage(self, module))
        return program

    def nodes_named(self, symbol: str) -> list[int]:
        """Return the candidates that an import can mean; none if no module defines it, or one does so ambiguously."""
        nodes = self._nodes_named.get(symbol)
        if nodes is None:
            nodes = self._nodes_named[symbol] = self._define(symbol)
        return nodes

    def replaces(self, name: str) -> bool:
        """Return whether a module has a definition of its own of a function of the runtime, or of one of `prefix*`."""
        is_replaced = self._replaced.get(name)
        if is_replaced is None:
            is_replaced = self._replaced[name] = any(module.exports.replaces(name) for module in self._modules)
        return is_replaced

    def c_library_with(self, symbol: str) -> Program | None:
        """Return the C library if it is the only module to which an import can be bound."""
        if symbol not in self._c_library_with:
            found = [module for module in self._modules if module.exports.find(symbol)]
            is_library = self.has_all and len(found) == 1 and bool(found[0].exports.find(_OF_C_LIBRARY))
            self._c_library_with[symbol] = self.program(found[0]) if is_library else None
        return self._c_library_with[symbol]

    def is_replaced(self, symbol: str, module: Module) -> bool:
        """Return whether another module than `module` defines a function, too, whose jumps the tables do not have.

        Tables list the jumps of a module if it has merged functions.
        """
        key = symbol, module
        if key not in self._is_replaced:
            others = [each for each in self._modules if each is not module and each.exports.find(symbol)]
            self._is_replaced[key] = any(not self.program(each).bodies for each in others)
        return self._is_replaced[key]

    def _define(self, symbol: str) -> list[int]:
        found: list[int] = []
        for module in self._modules:
            if module.exports.find(symbol):
                nodes, is_certain = self.program(module).nodes_exported(symbol)
                if not is_certain:
                    return []
                found += nodes
        return found


class _Linkage:
    """One module among the others (`unwind.program.program.Linkage`)."""

    def __init__(self, process: Process, module: Module) -> None:
        self._process, self._module = process, module
        self.path, self.bias = module.path, module.bias
        self.candidates, self.is_whole = process.candidates, process.is_whole
        self.nodes_named, self.replaces = process.nodes_named, process.replaces
        self.imports = process.graph.imports

    def dispatches(self) -> Iterator[Dispatch]:
        """Yield the dispatches, pointer targets, of each module; this loads all of them."""
        return (program.dispatch for program in self._process.programs())

    def borrowed(self, vptr: int) -> VtableGroup | None:
        """Return the group of vtables of another module that a vtable pointer, as linked in this one, points into."""
        module = self._process.module_with_data(RuntimeAddr(vptr + self.bias)) if self._process.has_all else None
        if module is None or module is self._module:
            return None
        home = self._process.program(module)
        return borrow(self._process.program(self._module), home, vptr + self.bias - module.bias, self.is_replaced)

    def is_replaced(self, symbol: str) -> bool:
        """Return whether this module's definition of a function may give way to one of which too little is known."""
        return self._process.is_replaced(symbol, self._module)
