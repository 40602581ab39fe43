"""Write annotated code for people.

    0x8b0..0x8eb, 59 bytes, 3 functions: members-complete, calls-complete
      List<Order>::add(Order*)      kept
      List<Payment>::add(Payment*)

      8b0:  push    rbp
      8c4:  je      0x8e0                          ; +0x30
      8e0:  call    0x860                          ; 1 of 3, by caller:
                                                   ;   List<Order>::add(Order*): List<Order>::grow()  [dwarf]
                                                   ;   List<Payment>::add(Payment*): List<Payment>::grow()  [dwarf]

An instruction is one line; notes that do not fit there go on in lines with only a `;` before their text. A
line of source, where requested, begins with its file. `A -> B` is a place A that holds the address of B.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from linecache import getline

from icf.demangle import demangle
from icf.model import ClassFlag, MemberFlag
from icf.printable import printable
from unwind.disasm.display import Display
from unwind.disasm.instructions import Instruction, Kind
from unwind.disasm.listing import Line
from unwind.disasm.notes import Data, Function, Import, JumpTable, Likely, Meaning, Note, Pointer, VirtualCall
from unwind.disasm.select import Region
from unwind.disasm.sources import SourcePlace

_OPERANDS_WIDTH = 36
_BYTES_WIDTH = 24
_MNEMONIC_WIDTH = 7
_SHOWN_CALLERS = 8
_SHOWN_NAMES = 4
_SHOWN_MEMBERS = 32
_SHOWN_TARGETS = 12
_STRING = "??_C@"  # a public symbol of Microsoft's compiler, named by the string it holds
_LONGEST_TEXT = 60
_NAME_WIDTH_MAX = 60

_RESET = "\x1b[0m"
_BOLD, _GREEN, _MAGENTA, _CYAN, _YELLOW, _GREY = (f"\x1b[{code}m" for code in ("1", "32", "35", "36", "33", "90"))
_OF_KIND = {Kind.CALL: _CYAN, Kind.JUMP: _YELLOW, Kind.BRANCH: _YELLOW, Kind.RETURN: _YELLOW}


class TextWriter:
    """Turns regions and their instructions into lines of text."""

    def __init__(
        self,
        display: Display,
        *,
        place: Callable[[Region, int], SourcePlace | None] | None = None,
        with_source: bool = False,
        with_bytes: bool = False,
        with_addresses: bool = True,
        with_color: bool = False,
        name: Callable[[str], str] = demangle,
    ) -> None:
        self._place, self._with_source = place, with_source
        self._with_bytes, self._with_addresses, self._with_color = with_bytes, with_addresses, with_color
        self._name = name
        self._display, self._bias = display, display.bias
        self._mark = display.comment

    def header(self, region: Region) -> Iterator[str]:
        """Yield what the region is; lines without their newlines."""
        bounds = f"{self._at(region.start)}..{self._at(region.end)}, {_count(region.end - region.start, 'byte')}"
        body = region.body
        if body is None:
            what = ": in no function"
            if region.stub:
                what = f": {region.stub} (procedure linkage table)"
            elif region.made:
                what = f": {self._shown(region.made)} (made at run time)"
            yield self._colored(_BOLD, bounds + printable(what))
            return
        if (region.start, region.end) != (body.start, body.end):
            bounds += f" of {self._at(body.start)}..{self._at(body.end)}"
        if body.settled:
            member = body.members[0]
            yield self._colored(_BOLD, f"{bounds}: {self._shown(member.name)}")
            yield from (f"  = {self._shown(alias)}" for alias in member.aliases[:_SHOWN_MEMBERS])
            return
        flags = [_words(flag.name) for flag in ClassFlag if flag & body.fold.flags]
        remark = f": {', '.join(flags)}" if flags else ""
        more = "" if body.fold.flags & ClassFlag.MEMBERS_COMPLETE else " or more"
        yield self._colored(_BOLD, f"{bounds}, {_count(len(body.members), 'function')}{more}{remark}")
        rows = list(range(min(len(body.members), _SHOWN_MEMBERS)))
        if region.member_idx not in rows:
            rows[-1] = region.member_idx
        shown = [(idx, self._shown(body.members[idx].name), body.members[idx]) for idx in rows]
        width = min(max(len(name) for _, name, _ in shown), _NAME_WIDTH_MAX)
        for idx, name, member in shown:
            facts = [_words(flag.name) for flag in MemberFlag if flag & member.flags]
            if self._place is not None and idx == region.member_idx:
                facts.append("lines are its own")
            yield f"  {name:{width}}  {', '.join(facts)}".rstrip()
            yield from (f"    = {self._shown(alias)}" for alias in member.aliases)
        if len(body.members) > _SHOWN_MEMBERS:
            yield f"  and {len(body.members) - _SHOWN_MEMBERS} more"

    def lines(self, region: Region, instructions: Iterator[Line]) -> Iterator[str]:
        """Yield the instructions; lines without their newlines."""
        width = len(f"{region.end + self._bias:x}")
        last: SourcePlace | None = None
        for instruction, notes in instructions:
            place = self._place(region, instruction.vaddr) if self._place is not None else None
            if place is not None and place != last:
                yield self._colored(_GREY, printable(self._source(place)))
                last = place
            lead = f"  {instruction.vaddr + self._bias:{width}x}:  " if self._with_addresses else "  "
            if self._with_bytes:
                lead += f"{instruction.code.hex(' '):{_BYTES_WIDTH}} "
            texts = self._comments(region, instruction, notes)
            mnemonic, operands = self._code(region, instruction)
            code = f"{mnemonic:{_MNEMONIC_WIDTH}} {operands}".rstrip()
            painted = self._painted(instruction, mnemonic) + code[len(mnemonic) :]
            if not texts:
                yield lead + painted
                continue
            padding = " " * max(_MNEMONIC_WIDTH + 1 + _OPERANDS_WIDTH - len(code), 1)
            yield f"{lead}{painted}{padding}{self._colored(_GREEN, f'{self._mark} {texts[0]}')}"
            column = len(lead) + len(code) + len(padding)
            yield from (" " * column + self._colored(_GREEN, f"{self._mark} {text}") for text in texts[1:])

    def _source(self, place: SourcePlace) -> str:
        text = getline(place.file, place.line).rstrip() if self._with_source else ""
        inlined = f" (inlined {self._shown(place.inlined[0])})" if place.inlined else ""
        return f"{place.file}:{place.line}{inlined}{f':  {text}' if text else ''}"

    def _code(self, region: Region, instruction: Instruction) -> tuple[str, str]:
        mnemonic, operands = self._display.text(instruction)
        if not self._with_addresses and instruction.target is not None:
            inside = _inside(region, instruction.target)
            operands = re.sub(r"#?0x[0-9a-f]+$", "..." if inside is None else inside, operands)
        return mnemonic, operands

    def _painted(self, instruction: Instruction, mnemonic: str) -> str:
        color = _OF_KIND.get(instruction.kind) if self._with_color else None
        return mnemonic if color is None else self._colored(color, mnemonic)

    def _comments(self, region: Region, instruction: Instruction, notes: Sequence[Note]) -> list[str]:
        texts = [text for note in notes for text in self._note(note, region)]
        if not texts and instruction.target is not None:
            inside = _inside(region, instruction.target)
            texts = [inside] if inside is not None and self._with_addresses else []
        return [printable(text) for text in texts]

    def _note(self, note: Note, region: Region) -> list[str]:
        match note:
            case Function():
                return self._function(note, region)
            case Import():
                is_decorated = note.symbol.startswith("?")  # Microsoft's names have no versions
                name, at, version = (note.symbol, "", "") if is_decorated else note.symbol.partition("@")
                return [self._shown(name) + at + version]
            case Data():
                return [self._data(note)]
            case Pointer():
                target = self._note(note.target, region)
                rest = "" if note.is_constant or note.is_current else ", at first"
                return [f"{self._data(note.place)} -> {target[0]}{rest}", *target[1:]]
            case Likely():
                target = self._note(note.place, region)
                return [f"maybe {target[0]}", *target[1:]]
            case VirtualCall():
                return [self._virtual(note)]
            case JumpTable():
                return [self._table(note, region)]

    def _function(self, function: Function, region: Region) -> list[str]:
        offset = f"+{function.offset:#x}" if function.offset else ""
        if len(function.meanings) == 1 and not function.meanings[0].callers:
            return [self._meaning(function.meanings[0], function.member_count, offset)]
        members = region.body.members if region.body is not None else ()
        by_caller = [(idx, meaning) for meaning in function.meanings for idx in meaning.callers]
        by_caller.sort(key=lambda each: (each[0] != region.member_idx, each[0]))
        texts = [f"1 of {function.member_count}, by caller:"]
        for idx, meaning in by_caller[:_SHOWN_CALLERS]:
            texts.append(f"  {self._shown(members[idx].name)}: {self._meaning(meaning, 1, offset)}")
        more = len(by_caller) - _SHOWN_CALLERS
        return [*texts, f"  and {more} more callers"] if more > 0 else texts

    def _meaning(self, meaning: Meaning, member_count: int, offset: str) -> str:
        remarks = []
        if meaning.is_certain:
            text = self._shown(meaning.callees[0]) + offset
            remarks += [f"1 of {member_count}"] if member_count > 1 else []
        else:
            text = self._listed(meaning.callees, offset)
            if len(meaning.callees) > 1:
                text = f"one of {len(meaning.callees)}: {text}"
            text += ", or another" if meaning.may_be_another else ""
        remarks += [meaning.evidence.name.lower()] if meaning.evidence is not None else []
        return f"{text}  [{', '.join(remarks)}]" if remarks else text

    def _data(self, data: Data) -> str:
        words = [self._at(data.vaddr)] if self._with_addresses else []
        offset = f"+{data.offset:#x}" if data.offset else ""
        # a string of Microsoft's compiler is named by what it holds
        names = [name for name in data.names if data.text is None or not name.startswith(_STRING)]
        if names:
            text = self._listed(names, offset)
            words.append(f"one of {len(names)}: {text}" if len(names) > 1 else text)
        elif data.text is None and data.section:
            words.append(f"{data.section}{offset}" if self._with_addresses else data.section)
        if data.text is not None:
            words.append(_quoted(data.text))
        return " ".join(words)

    def _virtual(self, call: VirtualCall) -> str:
        text = f"virtual call, slot {call.slot}"
        if call.merged:
            text += f"; of merged functions {self._listed(call.merged)}"
        return text if call.evidence is None else f"{text}  [{call.evidence.name.lower()}]"

    def _table(self, table: JumpTable, region: Region) -> str:
        shown = [_inside(region, target) or self._at(target) for target in table.targets[:_SHOWN_TARGETS]]
        more = len(table.targets) - len(shown)
        count = f"{len(table.targets)}"
        if table.entry_count is None:
            count += " at most"
        elif table.entry_count > len(table.targets):
            count += f" of {table.entry_count}"
        rest = f" and {more} more" if more else ""
        place = f" by {self._at(table.vaddr)}" if self._with_addresses else ""
        return f"switch{place}, {count}: {' '.join(shown)}{rest}"

    def _listed(self, names: Sequence[str], offset: str = "") -> str:
        """Return some of the names, and how many more there are."""
        names = tuple(dict.fromkeys(names))  # of static functions only the source name may be known
        shown = ", ".join(self._shown(name) + offset for name in names[:_SHOWN_NAMES])
        more = len(names) - _SHOWN_NAMES
        return f"{shown} and {more} more" if more > 0 else shown

    def _shown(self, linkage_name: str) -> str:
        return printable(self._name(linkage_name)) or "?"

    def _at(self, vaddr: int) -> str:
        return hex(vaddr + self._bias)

    def _colored(self, color: str, text: str) -> str:
        return f"{color}{text}{_RESET}" if self._with_color else text


def _inside(region: Region, target: int) -> str | None:
    """Return where in its function an address lies."""
    body = region.body
    if body is None or not body.start <= target < body.end:
        return None
    return f"+{target - body.start:#x}"


def _quoted(text: str) -> str:
    """Return the beginning of a string, as C has it."""
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT]
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').translate(_ESCAPES)
    return f'"{escaped}"' + ("" if shown == text else "...")


_ESCAPES = {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r", ord("\x1b"): "\\e"}


def _words(flag_name: str | None) -> str:
    return (flag_name or "").lower().replace("_", "-")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
