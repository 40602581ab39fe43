"""Check the tables of an image against its machine code.

What is checked, for every entry: a call ends at the return address, and the body it calls is the callee's; a jump
stands at the address of a tail call and goes to the callee's body; the caller is one of the functions of
the body that holds the instruction; sections fit together. An image that passes makes no statement that its
own code contradicts.
"""

from __future__ import annotations

from bisect import bisect_right

from icf.code.calls import CallKind, call_ending_at
from icf.code.jumps import jump_at
from icf.elf.image import Image
from icf.errors import IcfError
from icf.model import ClassFlag, FoldClass
from icf.tables.dcall import DirectCalls
from icf.tables.icftable import IcfTable


def verify_image(image: Image) -> list[str]:
    """What is wrong with the tables of an image, a line each; empty if nothing is."""
    from icf.tables.load import load_tables

    tables = load_tables(image)
    if not tables.present:
        raise IcfError(f"{image.path}: has no .debug_icf, .debug_dcall or .debug_vcall", hint="run icf pass first")
    problem = tables.check_evidence()
    problems = [problem] if problem else []
    return problems + check_tables(image, tables.icf, tables.direct)


def check_tables(image: Image, table: IcfTable, calls: DirectCalls) -> list[str]:
    """What the code of `image` contradicts in these tables, a line each."""
    return _Checker(image, table).check(calls)


class _Checker:
    def __init__(self, image: Image, table: IcfTable) -> None:
        self.image = image
        self.table = table
        self.classes = table.classes
        self.starts = [fold.vaddr for fold in self.classes]
        self.bodies_of: dict[int, list[FoldClass]] = {}
        for fold in self.classes:
            if not fold.flags & ClassFlag.FRAGMENT:
                for member in fold.members:
                    self.bodies_of.setdefault(member.die, []).append(fold)

    def check(self, calls: DirectCalls) -> list[str]:
        problems = []
        for fold in self.classes:
            if not self.image.read(fold.vaddr, 1):
                problems.append(f"class at {fold.vaddr:#x}: the address is not in the file")
        for site, callee, caller in zip(
            calls.call_site.tolist(), calls.callee_die.tolist(), calls.caller_die.tolist(), strict=True
        ):
            problem = self._call(site, callee, caller)
            if problem:
                problems.append(f".debug_dcall: call site {site:#x}, callee {callee:#x}: {problem}")
        for tail in self.table.tail_calls:
            caller_class, callee_class = (self.classes[ref.class_idx] for ref in (tail.caller, tail.callee))
            target = jump_at(self.image, tail.jump)
            if not caller_class.vaddr <= tail.jump < caller_class.vaddr + caller_class.size_bytes:
                problems.append(f".debug_icf: tail call at {tail.jump:#x} is outside of its caller's body")
            elif target != callee_class.vaddr:
                problems.append(f".debug_icf: tail call at {tail.jump:#x}: no direct jump to {callee_class.vaddr:#x}")
        return problems

    def _class_at(self, vaddr: int) -> FoldClass | None:
        idx = bisect_right(self.starts, vaddr) - 1
        if idx < 0:
            return None
        fold = self.classes[idx]
        return fold if vaddr < fold.vaddr + fold.size_bytes else None

    def _call(self, site: int, callee: int, caller: int) -> str:
        call = call_ending_at(self.image, site)
        if call.kind is CallKind.NONE:
            return "no call ends there"
        if call.kind is not CallKind.DIRECT or call.target is None:
            return "the call is not a direct one"
        around = self._class_at(site - 1)
        if caller and around is not None and all(member.die != caller for member in around.members):
            return f"caller {caller:#x} is none of the functions at {around.vaddr:#x}"
        bodies = self.bodies_of.get(callee)
        if bodies is None:
            return "the callee is in no class" if self.classes else ""
        if any(fold.vaddr == call.target for fold in bodies):
            return ""
        symbol = self.image.plt_stubs.get(call.target)
        names = {name for fold in bodies for member in fold.members for name in (member.name, *member.aliases)}
        if symbol is not None and symbol in names:
            return ""
        return f"the code calls {call.target:#x}"
