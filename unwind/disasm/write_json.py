"""Write annotated code as JSON, one object a line: for each stretch of code, and then for each of its instructions.

    {"region":{"address":"0x8b0","end":"0x8eb","stub":null,"flags":["members-complete","calls-complete"],
      "members":[{"linkage_name":"_ZN4ListI5OrderE3addEPS0_","name":"List<Order>::add(Order*)","flags":["kept"],
      "aliases":[]},...]}}
    {"address":"0x8e0","bytes":"e87bffffff","mnemonic":"call","operands":"0x860","file":null,"line":null,"inlined":[],
      "notes":[{"kind":"function","address":"0x860","offset":0,"members":3,"meanings":[{
      "callers":["_ZN4ListI5OrderE3addEPS0_"],"caller_members":[0],"callees":["_ZN4ListI5OrderE4growEv"],
      "may_be_another":false,"evidence":"dwarf"},...]}]}

`members` of a region is null where the code is in no function. Functions in notes are given by linkage names, by source
names where the image has no others. A meaning without callers holds for each member of the region, else for those of
`caller_members`, which are indices; one with several callees means one of them. `inlined` are the functions that are
inlined there, innermost first; `file` and `line` are of that one. Kinds of notes: `function`, `import`, `data`,
`pointer` (with `place` and `target`), `likely` (with `place`), `virtual_call`, `jump_table`.

With `--pid` all addresses are run-time ones. A region that a compiler made while the process ran has its name as
`made_at_run_time`; a pointer that was read from the memory has `"is_current":true`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from icf.demangle import demangle
from icf.model import ClassFlag, Evidence, Member, MemberFlag
from unwind.disasm.display import Display
from unwind.disasm.listing import Line
from unwind.disasm.notes import Data, Function, Import, JumpTable, Likely, Note, Pointer, VirtualCall
from unwind.disasm.select import Region
from unwind.disasm.sources import SourcePlace

_Json = dict[str, Any]


class JsonWriter:
    """Turns regions and instructions into lines; `place` returns file and line."""

    def __init__(self, display: Display, place: Callable[[Region, int], SourcePlace | None] | None = None) -> None:
        self._display, self._bias, self._place = display, display.bias, place

    def header(self, region: Region) -> str:
        """Return the object of a region, without its newline."""
        body = region.body
        members = None
        if body is not None:
            members = [
                {
                    "linkage_name": member.name,
                    "name": demangle(member.name),
                    "flags": [_words(flag.name) for flag in MemberFlag if flag & member.flags],
                    "aliases": list(member.aliases),
                }
                for member in body.members
            ]
        flags = [] if body is None else [_words(flag.name) for flag in ClassFlag if flag & body.fold.flags]
        bounds = {"address": hex(region.start + self._bias), "end": hex(region.end + self._bias)}
        entry: _Json = {**bounds, "stub": region.stub or None}
        if region.made:
            entry["made_at_run_time"] = region.made
        return _dumps({"region": {**entry, "flags": flags, "members": members}})

    def line(self, region: Region, line: Line) -> str:
        """Return the object of an instruction, without its newline."""
        instruction, notes = line
        place = self._place(region, instruction.vaddr) if self._place is not None else None
        members = region.body.members if region.body is not None else ()
        mnemonic, operands = self._display.text(instruction)
        return _dumps(
            {
                "address": hex(instruction.vaddr + self._bias),
                "bytes": instruction.code.hex(),
                "mnemonic": mnemonic,
                "operands": operands,
                "file": place.file if place else None,
                "line": place.line if place else None,
                "inlined": list(place.inlined) if place else [],
                "notes": [_note(note, members, self._bias) for note in notes],
            }
        )


def _note(note: Note, members: Sequence[Member], bias: int) -> _Json:
    match note:
        case Function():
            meanings = [
                {
                    "callers": [members[idx].name for idx in meaning.callers],
                    "caller_members": list(meaning.callers),
                    "callees": list(meaning.callees),
                    "may_be_another": meaning.may_be_another,
                    "evidence": _evidence(meaning.evidence),
                }
                for meaning in note.meanings
            ]
            entry: _Json = {"address": hex(note.vaddr + bias), "offset": note.offset, "members": note.member_count}
            return {"kind": "function", **entry, "meanings": meanings}
        case Import():
            return {"kind": "import", "symbol": note.symbol}
        case Data():
            place: _Json = {"address": hex(note.vaddr + bias), "section": note.section, "symbols": list(note.names)}
            return {"kind": "data", **place, "offset": note.offset, "text": note.text}
        case Pointer():
            constant = {"is_constant": note.is_constant, **({"is_current": True} if note.is_current else {})}
            return {
                "kind": "pointer",
                "place": _note(note.place, members, bias),
                "target": _note(note.target, members, bias),
                **constant,
            }
        case Likely():
            return {"kind": "likely", "place": _note(note.place, members, bias)}
        case VirtualCall():
            merged = list(note.merged)
            return {"kind": "virtual_call", "slot": note.slot, "merged": merged, "evidence": _evidence(note.evidence)}
        case JumpTable():
            targets = [hex(target + bias) for target in note.targets]
            return {
                "kind": "jump_table",
                "address": hex(note.vaddr + bias),
                "targets": targets,
                "entries": note.entry_count,
            }


def _evidence(evidence: Evidence | None) -> str | None:
    return None if evidence is None else evidence.name.lower()


def _words(flag_name: str | None) -> str:
    return (flag_name or "").lower().replace("_", "-")


def _dumps(entry: _Json) -> str:
    return json.dumps(entry, separators=(",", ":"))
