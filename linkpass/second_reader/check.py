"""The second reader's rows against symbols, DIEs and instructions, and against the first reader's rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from typing import Any, NamedTuple

from icf.elf.image import Image
from icf.errors import IcfError
from icf.tables.load import Tables
from icf.tables.place import file_with_tables
from linkpass.second_reader.compressed import InflatingFile
from linkpass.second_reader.tables import Call, FoldClass, Icf, VirtualCall, read_dcall, read_icf, read_vcall

_LOCAL, _NAMELESS, _FRAGMENT = 8, 32, 4  # flags of members; of classes
_DIE_TAGS = ("DW_TAG_subprogram", "DW_TAG_entry_point", "DW_TAG_inlined_subroutine")
_HOPS = 8
_JCC = re.compile(rb"[\x2e\x3e\xf2]*(?:(\xe9|\x0f[\x80-\x8f])(....)|(\xeb|[\x70-\x7f])(.))", re.DOTALL)
_AROUND_BYTES = 1 << 15
# REX.W lea, mov disp32(%rip); mov $imm32; each byte may be the first
_ADDRESS = re.compile(
    rb"(?=([\x48\x4c][\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]|[\x48\x49]\xc7[\xc0-\xc7]|\xff\x15)(....))", re.DOTALL
)


class Second(NamedTuple):
    """The tables as the second reader has them."""

    icf: Icf
    calls: list[Call]
    virtual_calls: list[VirtualCall]


def verify_again(image: Image, first: Tables) -> list[str]:
    """Read the tables of an image again, with pyelftools; return a line for each error."""
    file = file_with_tables(image)
    try:
        with ExitStack() as opened:
            code, tables, debug = (
                InflatingFile(opened.enter_context(open(path, "rb")))
                for path in (image.path, file.path, image.debug.path)
            )
            second = Second(
                read_icf(_contents(tables, ".debug_icf"), _contents(debug, ".debug_str"), file.path),
                read_dcall(_contents(tables, ".debug_dcall"), file.path),
                read_vcall(_contents(tables, ".debug_vcall"), file.path),
            )
            checks = _Checks(second, code, debug)
            return [*_differences(second, first), *checks.lines()]
    except (IcfError, OSError):
        raise
    except Exception as error:  # pyelftools raises many types for a damaged file
        problem = " ".join(f"{type(error).__name__} {error}".split())
        raise IcfError(f"{image.path}: second reader: pyelftools cannot read it: {problem}") from error


def _contents(file: Any, name: str) -> bytes:
    section = file.get_section_by_name(name)
    return b"" if section is None else bytes(section.data())


def _differences(second: Second, first: Tables) -> Iterator[str]:
    """Yield a line for the first row of each table in which the two readers differ."""
    table = first.icf
    columns = first.direct
    direct = zip(columns.call_site.tolist(), columns.callee_die.tolist(), columns.caller_die.tolist(), strict=True)
    virtual = zip(first.virtual.call_site.tolist(), first.virtual.vtable_slot.tolist(), strict=True)
    classes = (
        (
            fold.vaddr,
            fold.size_bytes,
            int(fold.flags),
            tuple((each.name, each.die, int(each.flags), each.aliases) for each in fold.members),
        )
        for fold in table.classes
    )
    tail_calls = ((call.jump, tuple(call.caller), tuple(call.callee)) for call in table.tail_calls)
    vtables = (
        (each.vaddr, each.group, each.die, [(slot.slot, tuple(slot.function)) for slot in each.slots])
        for each in table.vtables
    )
    icf = second.icf
    pairs: list[tuple[str, Iterable[Any], Iterable[Any]]] = [
        ("call site", map(tuple, second.calls), direct),
        ("virtual call", map(tuple, second.virtual_calls), virtual),
        ("class", map(tuple, icf.classes), classes),
        ("tail call", icf.tail_calls, tail_calls),
        ("jump through a pointer", icf.pointer_jumps, map(tuple, table.pointer_jumps)),
        ("vtable", icf.vtables, vtables),
        ("evidence", icf.evidence, table.evidence),
        ("evidence of a virtual call", icf.vcall_evidence, table.vcall_evidence),
        ("object type", icf.types, (each.groups for each in table.types)),
        (
            "object",
            icf.objects,
            ([(row.member and tuple(row.member), row.type) for row in each] for each in table.objects),
        ),
        ("object of a virtual call", icf.vcall_objects, table.vcall_objects),
        (
            "callback",
            icf.callbacks,
            (
                (each.call_site, each.caller and tuple(each.caller), tuple(each.callee), int(each.evidence))
                for each in table.callbacks
            ),
        ),
        ("digest of the code", [icf.code_digest], [table.code_digest]),
    ]
    for what, mine, theirs in pairs:
        for row, (one, other) in enumerate(zip_longest(mine, theirs)):
            if one != other:
                yield f"{what} {row}: the second reader has {one}, the first {other}"
                break


class _Checks:
    def __init__(self, second: Second, code: Any, debug: Any) -> None:
        self._second, self._code, self._debug = second, code, debug
        self._is_aarch64 = code["e_machine"] == "EM_AARCH64"
        self._segments = [each for each in code.iter_segments() if each["p_type"] == "PT_LOAD"]
        self._bodies: dict[int, list[FoldClass]] = {}  # by the DIEs of members
        for fold in second.icf.classes:
            for member in fold.members if not fold.flags & _FRAGMENT else ():
                self._bodies.setdefault(member.die, []).append(fold)

    def lines(self) -> Iterator[str]:
        """Yield a line for each error."""
        digest = self._second.icf.code_digest
        if digest and digest != self._digest():
            yield "the tables are about other code"
        for what, rows, evidence in (
            (".debug_dcall", len(self._second.calls), self._second.icf.evidence),
            (".debug_vcall", len(self._second.virtual_calls), self._second.icf.vcall_evidence),
        ):
            if self._second.icf.classes and rows != len(evidence):
                yield f"{what} has {rows} records, .debug_icf evidence for {len(evidence)}"
        yield from self._names()
        yield from self._dies()
        for call in self._second.calls:
            if problem := self._call(call):
                yield f".debug_dcall: call site {call.call_site:#x}, callee {call.callee_die:#x}: {problem}"
        for site in {each.call_site for each in self._second.virtual_calls}:
            if not self._ends_indirect_call(site):
                yield f".debug_vcall: call site {site:#x}: no call through a pointer ends there"
        for site, caller, _, _ in self._second.icf.callbacks:
            if self._direct_target(site) is None and not self._ends_indirect_call(site):
                yield f".debug_icf: callback at {site:#x}: no call ends there"
            around = self._class_at(site - 1)
            if caller is not None and around is not self._second.icf.classes[caller[0]]:
                yield f".debug_icf: callback at {site:#x} is outside of its caller's body"
        classes = self._second.icf.classes
        for jump, _, (callee, _) in self._second.icf.tail_calls:
            if self._jump(jump) != classes[callee].vaddr:
                yield f".debug_icf: tail call at {jump:#x}: no direct jump to {classes[callee].vaddr:#x}"

    def _digest(self) -> bytes:
        is_code = [each for each in self._code.iter_sections() if each["sh_flags"] & 6 == 6]
        state = sha256()
        for section in sorted(is_code, key=lambda each: (each["sh_addr"], each["sh_size"])):
            if section["sh_type"] != "SHT_NOBITS":
                state.update(section["sh_addr"].to_bytes(8, "little") + section["sh_size"].to_bytes(8, "little"))
                state.update(section.data())
        return state.digest()[:16]

    def _names(self) -> Iterator[str]:
        """Yield the members with external linkage whose symbol is elsewhere, and whose DIE has an address there.

        A weak definition that lost may be a member: its symbol is where the one that won is.
        """
        places: dict[str, set[int]] = {}
        for file in (self._code, self._debug):
            table = file.get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if table is not None else ():
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC"):
                    places.setdefault(symbol.name, set()).add(symbol["st_value"])
        for fold in self._second.icf.classes:
            for member in fold.members if not fold.flags & _FRAGMENT else ():
                found = places.get(member.name)
                if not found or fold.vaddr in found or member.flags & (_LOCAL | _NAMELESS):
                    continue
                if self._described_at(member.die) not in (None, fold.vaddr):
                    there = ", ".join(f"{vaddr:#x}" for vaddr in sorted(found))
                    yield f".symtab has {member.name} at {there}, the table at {fold.vaddr:#x}"

    def _dies(self) -> Iterator[str]:
        """Yield the DIEs that do not describe a function, or describe a function with another name."""
        dwarf = self._dwarf
        if dwarf is None:
            return
        end = dwarf.debug_info_sec.size if dwarf.debug_info_sec is not None else 0
        names = {member.die: member for fold in self._second.icf.classes for member in fold.members}
        dies = names.keys() | {die for call in self._second.calls for die in (call.callee_die, call.caller_die)}
        for offset in sorted(die for die in dies if 0 < die < end):  # those beyond are not described
            die = dwarf.get_DIE_from_refaddr(offset)
            if die.tag not in _DIE_TAGS:
                yield f"DIE {offset:#x} is {die.tag}, not a function"
                continue
            found = _linkage_name(die)
            member = names.get(offset)
            known = (member.name, *member.aliases) if member is not None else ()
            if found and member is not None and not member.flags & _NAMELESS and not _are_one(found, known):
                yield f"DIE {offset:#x} is of {found}, the table says {member.name}"

    @cached_property
    def _dwarf(self) -> Any:
        if not self._debug.has_dwarf_info():
            return None
        return self._debug.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)

    def _described_at(self, offset: int) -> int | None:
        """Return the address that a DIE has; None if it has none, or a tombstone."""
        info = None if self._dwarf is None else self._dwarf.debug_info_sec
        if info is None or not 0 < offset < info.size:
            return None
        low = self._dwarf.get_DIE_from_refaddr(offset).attributes.get("DW_AT_low_pc")
        return low.value if low is not None and low.form == "DW_FORM_addr" and low.value > 1 else None

    def _call(self, call: Call) -> str:
        bodies = self._bodies.get(call.callee_die, [])
        target = self._direct_target(call.call_site)
        if target is None or not any(fold.vaddr == target for fold in bodies):
            target = self._formed(call.call_site, [fold.vaddr for fold in bodies]) or target
        if target is None:
            return "no direct call ends there"
        if not self._second.icf.classes:
            return ""
        around = self._class_at(call.call_site - 1)
        if around is not None and call.caller_die and all(each.die != call.caller_die for each in around.members):
            return f"caller {call.caller_die:#x} is none of the functions at {around.vaddr:#x}"
        if not bodies:
            return "the callee is in no class"
        if any(fold.vaddr == target for fold in bodies) or self._is_stub(target):
            return ""
        return f"the code calls {target:#x}"

    def _class_at(self, vaddr: int) -> FoldClass | None:
        classes = self._second.icf.classes
        return next((fold for fold in classes if fold.vaddr <= vaddr < fold.vaddr + fold.size_bytes), None)

    @cached_property
    def _stubs(self) -> list[range]:
        sections = [each for each in self._code.iter_sections() if "plt" in each.name and each["sh_flags"] & 4]
        return [range(each["sh_addr"], each["sh_addr"] + each["sh_size"]) for each in sections]

    def _is_stub(self, vaddr: int) -> bool:
        return any(vaddr in stubs for stubs in self._stubs)

    def _read(self, vaddr: int, size_bytes: int) -> bytes:
        for segment in self._segments:
            at = vaddr - segment["p_vaddr"]
            if 0 <= at < segment["p_filesz"]:
                self._code.stream.seek(segment["p_offset"] + at)
                return bytes(self._code.stream.read(min(size_bytes, segment["p_filesz"] - at)))
        return b""

    def _direct_target(self, site: int) -> int | None:
        if self._is_aarch64:
            word = int.from_bytes(self._read(site - 4, 4), "little")
            return site - 4 + 4 * _signed(word, 26) if word >> 26 == 0b100101 else None
        code = self._read(site - 5, 5)
        return site + int.from_bytes(code[1:], "little", signed=True) if code[:1] == b"\xe8" else None

    def _formed(self, site: int, targets: list[int]) -> int | None:
        """Return the function whose address the code around a call through a register forms, or loads from the GOT."""
        if not self._ends_indirect_call(site):
            return None
        code_at = max((each["p_vaddr"] for each in self._segments if each["p_vaddr"] < site), default=0)
        first = max(site - _AROUND_BYTES, code_at + (site - code_at) % 4)
        code = self._read(first, site + _AROUND_BYTES - first)
        for place in self._formed_by_arm(code, first) if self._is_aarch64 else _formed_by_x86(code, first):
            if place in targets:
                return place
            if any(place in slots for slots in self._slots) and targets:
                return targets[0]
        return None

    @cached_property
    def _slots(self) -> list[range]:
        sections = [each for each in self._code.iter_sections() if each.name in (".got", ".got.plt")]
        return [range(each["sh_addr"], each["sh_addr"] + each["sh_size"]) for each in sections]

    @staticmethod
    def _formed_by_arm(code: bytes, vaddr: int) -> Iterator[int]:
        """Yield what `adr`, and `adrp` with each later `add` or `ldr` from its register, may form."""
        pages: dict[int, set[int]] = {}
        for at in range(0, len(code) - 3, 4):
            word = int.from_bytes(code[at : at + 4], "little")
            here, distance = vaddr + at, _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            if word & 0x9F000000 == 0x90000000:
                pages.setdefault(word & 31, set()).add((here >> 12) + distance << 12)
            elif word & 0x9F000000 == 0x10000000:
                yield here + distance
            elif word & 0xFFC00000 in (0x91000000, 0xF9400000):
                scale = 3 if word >> 24 == 0xF9 else 0
                yield from (page + ((word >> 10 & 0xFFF) << scale) for page in pages.get(word >> 5 & 31, ()))

    def _ends_indirect_call(self, site: int) -> bool:
        if self._is_aarch64:
            word = int.from_bytes(self._read(site - 4, 4), "little")
            return word >> 25 == 0b1101011 and word >> 21 & 7 == 1
        sizes = [
            size_bytes for size_bytes in range(2, 8) if _is_pointer_call(self._read(site - size_bytes, size_bytes))
        ]
        return bool(sizes) or self._direct_target(site) is not None  # a retpoline is called directly

    def _jump(self, vaddr: int) -> int | None:
        """Return the target of the jump at `vaddr`; None if there is no direct one."""
        if not self._is_aarch64:
            code = self._read(vaddr, 16)
            match = _JCC.match(code)
            if match is None:
                return None
            distance = match[2] if match[1] else match[4]
            return vaddr + match.end() + int.from_bytes(distance, "little", signed=True)
        word = int.from_bytes(self._read(vaddr, 4), "little")
        if word >> 26 == 0b000101:
            return vaddr + 4 * _signed(word, 26)
        if word >> 24 == 0b01010100 or word >> 25 & 0x3F == 0b011010:  # b.cond; cbz, cbnz
            return vaddr + 4 * _signed(word >> 5, 19)
        return vaddr + 4 * _signed(word >> 5, 14) if word >> 25 & 0x3F == 0b011011 else None  # tbz, tbnz


def _formed_by_x86(code: bytes, vaddr: int) -> Iterator[int]:
    """Yield the addresses in `lea` and `mov` relative to the program counter, and in `mov` of a number."""
    for match in _ADDRESS.finditer(code):
        number = int.from_bytes(match[2], "little", signed=True)
        yield number if match[1][1:2] == b"\xc7" else vaddr + match.end(2) + number


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _is_pointer_call(code: bytes) -> bool:
    """Return whether these bytes are one `call *...` of x86-64, without prefixes."""
    if len(code) < 2 or code[0] != 0xFF or code[1] >> 3 & 7 != 2:
        return False
    mod, rm = code[1] >> 6, code[1] & 7
    size_bytes = 2 + (mod != 3 and rm == 4) + {0: 4 if rm == 5 else 0, 1: 1, 2: 4, 3: 0}[mod]
    if mod == 0 and rm == 4 and len(code) > 2 and code[2] & 7 == 5:
        size_bytes += 4
    return size_bytes == len(code)


def _linkage_name(die: Any) -> str:
    """Return the linkage name of a DIE, its own or that of its origin; "" if it has none."""
    for _ in range(_HOPS):
        for attribute in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
            if attribute in die.attributes:
                value = die.attributes[attribute].value
                return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
        link = next((each for each in ("DW_AT_specification", "DW_AT_abstract_origin") if each in die.attributes), None)
        if link is None:
            return ""
        die = die.get_DIE_from_attribute(link)
    return ""


def _are_one(found: str, known: Iterable[str]) -> bool:
    """Return whether a DIE's linkage name is among a member's: C4 and D4 stand for each variant, f.isra.0 for f."""
    return any(_plain(found) == _plain(name) for name in known)


def _plain(name: str) -> str:
    return re.sub(r"([CDI])[0-5](?=[EIB])", r"\1*", re.split(r"[.@]", name)[0])
