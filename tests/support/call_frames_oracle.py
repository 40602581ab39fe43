"""The rows of call frame information as pyelftools reads them, to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError
from elftools.dwarf.callframe import FDE, RegisterRule
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from icf.dwarf.cfi import rules

Rule = tuple[int, int | bytes]
Rows = dict[int, tuple[Rule, dict[int, Rule]]]  # by first address: the CFA, and the rules of registers

_KINDS = {
    RegisterRule.UNDEFINED: rules.UNDEFINED,
    RegisterRule.SAME_VALUE: rules.SAME_VALUE,
    RegisterRule.OFFSET: rules.OFFSET,
    RegisterRule.VAL_OFFSET: rules.VAL_OFFSET,
    RegisterRule.REGISTER: rules.REGISTER,
    RegisterRule.EXPRESSION: rules.EXPRESSION,
    RegisterRule.VAL_EXPRESSION: rules.VAL_EXPRESSION,
}


def rows_of_elftools(path: str | Path) -> Iterator[tuple[int, int, Rows | None]]:
    """Yield offset and first address of each FDE of `.eh_frame`, with its rows; None where pyelftools fails."""
    with open(path, "rb") as file:
        elf = ELFFile(file)
        section = elf.get_section_by_name(".eh_frame")
        assert isinstance(section, Section)
        for entry in elf.get_dwarf_info(relocate_dwarf_sections=False).EH_CFI_entries():
            if isinstance(entry, FDE):
                yield entry.offset, entry["initial_location"], _rows(entry)


def _rows(fde: FDE) -> Rows | None:
    try:
        table = fde.get_decoded().table
    except (DWARFError, KeyError, ValueError):  # DW_CFA_GNU_args_size, whose message it cannot write
        return None
    end = fde["initial_location"] + fde["address_range"]
    found: Rows = {}
    for line in table:
        pc = line["pc"]
        if pc >= end:
            continue
        cfa = line["cfa"]
        at: Rule = (rules.CFA_EXPRESSION, bytes(cfa.expr)) if cfa.expr is not None else (cfa.reg, cfa.offset)
        of_registers = {
            number: _rule(rule)
            for number, rule in line.items()
            if isinstance(number, int) and number < rules.REGISTER_COUNT
        }
        found[pc] = at, of_registers
    return found


def _rule(rule: Any) -> Rule:
    kind = _KINDS[rule.type]
    if kind in (rules.EXPRESSION, rules.VAL_EXPRESSION):
        return kind, bytes(rule.arg)
    return kind, rule.arg or 0
