"""What a function's DIE says of its frames: parameters, inlined calls, call sites with their arguments.

    DW_TAG_subprogram Circle::draw             DW_AT_frame_base
      DW_TAG_formal_parameter this             DW_AT_location; DW_AT_artificial, or named by DW_AT_object_pointer
      DW_TAG_inlined_subroutine Shape::area    0x1140..0x1152
        DW_TAG_formal_parameter this
      DW_TAG_call_site                         return address 0x1160, callee
        DW_TAG_call_site_parameter             DW_AT_location: the argument's register; DW_AT_call_value

A concrete function or inlined call refers to an abstract one (DW_AT_abstract_origin), a definition to its declaration
(DW_AT_specification); names, types and marks that it lacks are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from icf.dwarf import columns as col
from icf.dwarf.constants import (
    DW_AT_abstract_origin,
    DW_AT_artificial,
    DW_AT_call_data_value,
    DW_AT_call_origin,
    DW_AT_call_parameter,
    DW_AT_call_return_pc,
    DW_AT_call_tail_call,
    DW_AT_call_value,
    DW_AT_entry_pc,
    DW_AT_GNU_call_site_data_value,
    DW_AT_GNU_call_site_value,
    DW_AT_GNU_tail_call,
    DW_AT_linkage_name,
    DW_AT_location,
    DW_AT_low_pc,
    DW_AT_MIPS_linkage_name,
    DW_AT_name,
    DW_AT_object_pointer,
    DW_AT_ranges,
    DW_AT_specification,
    DW_AT_type,
    DW_TAG_call_site,
    DW_TAG_call_site_parameter,
    DW_TAG_formal_parameter,
    DW_TAG_GNU_call_site,
    DW_TAG_GNU_call_site_parameter,
    DW_TAG_inlined_subroutine,
    DW_TAG_lexical_block,
)
from icf.dwarf.functions_at import FunctionIndex
from icf.dwarf.opening import open_debug
from icf.dwarf.range_lists import expand_lists
from icf.dwarf.trees import Die, Tree, Trees
from icf.elf.image import Image
from icf.errors import FormatError

_CALL_SITES = (DW_TAG_call_site, DW_TAG_GNU_call_site)
_CALL_SITE_PARAMETERS = (DW_TAG_call_site_parameter, DW_TAG_GNU_call_site_parameter)
_LINKAGE_NAMES = (DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name)
_TAIL_CALLS = (DW_AT_call_tail_call, DW_AT_GNU_tail_call)
_CALL_VALUES = (DW_AT_call_value, DW_AT_GNU_call_site_value)
_CALL_DATA_VALUES = (DW_AT_call_data_value, DW_AT_GNU_call_site_data_value)
_DIE_LIMIT = 1 << 17  # of one function
_ORIGIN_LIMIT = 8
_KEPT_FUNCTIONS = 1 << 10


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A formal parameter; `die` has its location."""

    die: Die
    name: str  # "" if it has none
    type: int  # its DIE; 0 for none
    is_object: bool  # the object that a method is called for
    origins: tuple[int, ...]  # its DIE and those that it refers to


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """The value of an argument at a call site."""

    location: bytes  # the expression of the register, or of the place on the stack, that it is passed in
    parameter: int  # the DIE of the callee's parameter; 0 if the location says which it is
    value: memoryview | None
    data_value: memoryview | None  # of what the argument points to


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A call in a function."""

    origin: int  # the DIE of the callee; 0 if it is not known
    is_tail_call: bool
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A function, or a function that was inlined in it."""

    die: Die
    name: str
    type: int  # the DIE of the type that it returns; 0 for none
    ranges: tuple[tuple[int, int], ...]
    around: int  # index in `Function.scopes` of the scope that it was inlined in; -1 for the function itself
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with code; `scopes` begins with its own, each before those inside of it."""

    low: int  # where it is entered
    linkage_name: str
    scopes: list[Scope] = field(default_factory=list)
    sites: dict[int, Site] = field(default_factory=dict)  # by return address, as linked
    tail_calls: list[Site] = field(default_factory=list)

    def at(self, vaddr: int) -> list[Scope]:
        """Return the scopes at an address, innermost first, the function itself last.

        Of the inlined calls that claim an address the last one has it, as in `icf.dwarf.inlines`.
        """
        found = 0
        for idx, scope in enumerate(self.scopes):
            if idx and any(low <= vaddr < high for low, high in scope.ranges):
                found = idx
        chain = []
        while found >= 0:
            chain.append(self.scopes[found])
            found = self.scopes[found].around
        return chain


class Scopes:
    """The functions of one image, each read when it is first asked for."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.trees = Trees(open_debug(image, locations=True))
        self._index = FunctionIndex(image, self.trees)
        self._functions: dict[tuple[int, int], Function | None] = {}

    def at(self, vaddr: int) -> list[Function]:
        """Return the functions at an address: several if they were folded, none if nothing describes it."""
        found = []
        for die, low in self._index.at(vaddr):
            if (die, low) not in self._functions:
                if len(self._functions) >= _KEPT_FUNCTIONS:
                    self._functions.clear()
                try:
                    self._functions[die, low] = self._read(die)
                except FormatError:
                    self._functions[die, low] = None
            function = self._functions[die, low]
            if function is not None:
                found.append(function)
        return found

    def entries_of(self, origin: int) -> set[int]:
        """Return where the function of a DIE is entered, if that DIE has its code; none if that is not known."""
        try:
            low = self.trees.address(self.trees.die(origin), DW_AT_low_pc)
        except FormatError:
            return set()
        return set() if low is None else {low}

    def parameter_origins(self, die: int) -> set[int]:
        """Return the DIE of a parameter and those that it refers to."""
        try:
            return {each.offset for each in self._chain(self.trees.die(die))}
        except FormatError:
            return set()

    def _read(self, die: int) -> Function:
        tree = self.trees.tree(die, _DIE_LIMIT)
        ranges = self._ranges(tree.die)
        entry = self.trees.address(tree.die, DW_AT_entry_pc)
        low = entry if entry is not None else ranges[0][0] if ranges else 0
        chain = list(self._chain(tree.die))
        names = (self.trees.text(each, name) for name in _LINKAGE_NAMES for each in chain)
        function = Function(low, next(filter(None, names), ""))
        self._add_scope(function, tree, -1)
        return function

    def _add_scope(self, function: Function, tree: Tree, around: int) -> None:
        """Add a scope and what is in it; iterative, as scopes can be nested deep."""
        todo = [(tree, around)]
        while todo:
            top, outer = todo.pop()
            chain = list(self._chain(top.die))
            objects = {self.trees.reference(each, DW_AT_object_pointer) for each in chain} - {0}
            children = [child.die for child in top.children if child.die.tag == DW_TAG_formal_parameter]
            found = [self._parameter(child, objects) for child in self._with_abstract(children, chain)]
            name, type_ = self._name_and_type(chain)
            idx = len(function.scopes)
            function.scopes.append(Scope(top.die, name, type_, self._ranges(top.die), outer, tuple(found)))
            inner: list[tuple[Tree, int]] = []
            blocks = list(reversed(top.children))
            while blocks:
                child = blocks.pop()
                if child.die.tag == DW_TAG_inlined_subroutine:
                    inner.append((child, idx))
                elif child.die.tag == DW_TAG_lexical_block:
                    blocks += reversed(child.children)
                elif child.die.tag in _CALL_SITES:
                    self._add_site(function, child)
            todo += reversed(inner)

    def _parameter(self, die: Die, objects: set[int]) -> Parameter:
        chain = list(self._chain(die))
        name, type_ = self._name_and_type(chain)
        origins = tuple(each.offset for each in chain)
        is_artificial = any(DW_AT_artificial in each.attributes for each in chain)
        is_object = not objects.isdisjoint(origins) or (is_artificial and name == "this")
        return Parameter(die, name, type_, is_object, origins)

    def _with_abstract(self, parameters: list[Die], chain: list[Die]) -> list[Die]:
        """Return parameters with those that only the abstract instance has: compilers leave them out."""
        if DW_AT_abstract_origin not in chain[0].attributes or len(chain) < 2:
            return parameters
        concrete = {self.trees.reference(each, DW_AT_abstract_origin): each for each in parameters}
        abstract = self.trees.first_children(chain[1], DW_TAG_formal_parameter)
        others = [each for each in parameters if each not in map(concrete.get, (each.offset for each in abstract))]
        return [concrete.get(each.offset, each) for each in abstract] + others

    def _name_and_type(self, chain: list[Die]) -> tuple[str, int]:
        """Return the first name and the first type in a chain of DIEs."""
        names = (self.trees.text(each, DW_AT_name) for each in chain)
        types = (self.trees.reference(each, DW_AT_type) for each in chain)
        return next(filter(None, names), ""), next(filter(None, types), 0)

    def _add_site(self, function: Function, tree: Tree) -> None:
        die = tree.die
        origin = self.trees.reference(die, DW_AT_call_origin) or self.trees.reference(die, DW_AT_abstract_origin)
        arguments = tuple(
            self._argument(child.die) for child in tree.children if child.die.tag in _CALL_SITE_PARAMETERS
        )
        site = Site(origin, any(each in die.attributes for each in _TAIL_CALLS), arguments)
        return_address = self.trees.address(die, DW_AT_call_return_pc)
        if return_address is None:
            return_address = self.trees.address(die, DW_AT_low_pc)
        if site.is_tail_call:
            function.tail_calls.append(site)
        elif return_address is not None:
            function.sites[return_address] = site

    def _argument(self, die: Die) -> Argument:
        trees = self.trees
        parameter = trees.reference(die, DW_AT_call_parameter) or trees.reference(die, DW_AT_abstract_origin)
        value, data_value = (
            next((block for each in kinds if (block := trees.block(die, each)) is not None), None)
            for kinds in (_CALL_VALUES, _CALL_DATA_VALUES)
        )
        return Argument(bytes(trees.block(die, DW_AT_location) or b""), parameter, value, data_value)

    def _chain(self, die: Die) -> Iterator[Die]:
        """Yield a DIE and those that it refers to, up to the declaration."""
        yield die
        for _ in range(_ORIGIN_LIMIT):
            origin = self.trees.reference(die, DW_AT_abstract_origin) or self.trees.reference(die, DW_AT_specification)
            if not origin:
                return
            try:
                die = self.trees.die(origin)
            except FormatError:
                return
            yield die

    def _ranges(self, die: Die) -> tuple[tuple[int, int], ...]:
        trees = self.trees
        if (value := die.attributes.get(DW_AT_ranges)) is not None:
            form = col.RANGES_INDEX if value.kind == col.CLS_LIST_INDEX else col.RANGES_AT
            if value.number >> 63:
                return ()
            ask = [np.array([number], np.uint64) for number in (value.number, form, die.unit)]
            found = expand_lists(trees.debug, np.zeros(1, np.int64), *ask)
            return tuple((low, high) for _, low, high, _ in found.tolist())
        low = trees.address(die, DW_AT_low_pc)
        end = None if low is None else trees.end(die, low)
        return () if low is None or end is None else ((low, end),)
