"""`icf dump IMAGE`: the tables of an image, as text to read or as one JSON document.

Without options it prints all tables that the image has. Both forms come from one document, so people and scripts see
the same; the text is sorted by address and shows demangled names.

    0x0000000000401150, 8 bytes, 2 functions: members-complete, calls-complete
      kept  0x0000012f  twice<int>(int*)
            0x00000163  twice<unsigned int>(unsigned int*)   address-taken

    main
      0x00000000004011a3  twice<int>(int*)                   relocation
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from icf.debugfiles.opening import open_any
from icf.debugfiles.options import add_debug_arguments
from icf.demangle import demangle
from icf.elf.image import Image
from icf.errors import UnsupportedError
from icf.model import ALL_MEMBERS, ClassFlag, Evidence, FoldClass, ImageFlag, Member, MemberFlag
from icf.pe.debugfile import MISSING_HINT
from icf.pe.vftables import vftable_names
from icf.printable import printable, say
from icf.tables.icftable import IcfTable
from icf.tables.load import Tables, load_tables
from icf.tables.place import SECTIONS, are_stale, warn_stale

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_Json = dict[str, Any]
_NAME_WIDTH_MAX = 60


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="an executable or shared object, or its separate debug file")
    add_debug_arguments(parser)
    parser.add_argument("--folds", action="store_true", help="functions that share a body (.debug_icf)")
    parser.add_argument("--dcall", action="store_true", help="what each direct call means, what imports call back")
    parser.add_argument("--vcall", action="store_true", help="the vtable slot of each virtual call (.debug_vcall)")
    parser.add_argument("--vtables", action="store_true", help="vtables, and the function in each slot (.debug_icf)")
    parser.add_argument("--address-taken", action="store_true", help="functions that a pointer may lead to")
    parser.add_argument(
        "--callsites-yaml",
        action="store_true",
        help="only the direct calls, as the YAML that llvm-gsymutil --callsites-yaml-file takes (LLVM 20 and later)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--no-demangle", action="store_true", help="print linkage names as they are")


def run(args: Namespace) -> int:
    everything = not (args.folds or args.dcall or args.vcall or args.vtables or args.address_taken)
    with open_any(args.image, args.debug_file, args.debug_root) as image:
        tables = load_tables(image)
        if image.format == "PE" and image.dwarf is not None and not tables.present:
            from icf.folds.of_dwarf import find_classes

            tables.icf, tables.present = IcfTable(find_classes(image.dwarf)), SECTIONS[:1]
        problem = tables.check_evidence()
        if problem:
            say(f"icf: warning: {image.path}: {problem}: no evidence is shown")
        if image.format == "ELF" and are_stale(image):
            warn_stale(image.path)
            if not args.json:
                return 0
        elif not tables.present and not args.json and not args.callsites_yaml:
            if image.format == "PE":
                print(f"{printable(image.path)}: has no PDB, no DWARF, and no side table")
                say(f"hint: {MISSING_HINT}")
                return 0
            print(f"{printable(image.path)}: no {', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}")
            say("hint: 'icf pass' writes them")
            return 0
        if args.callsites_yaml:
            if image.format == "PE":
                raise UnsupportedError(f"{image.path}: is a PE image; --callsites-yaml is for ELF images")
            from icf.callsites import call_sites, yaml_lines

            sys.stdout.writelines(f"{line}\n" for line in yaml_lines(call_sites(tables, image)))
            return 0
        names = _Names(plain=args.no_demangle)
        document: _Json = {"image": image.path, "build_id": image.build_id.hex()}
        if image.debug is not image:
            document["debug_file"] = image.debug.path
        document["merged_by_compiler"] = bool(tables.icf.image_flags & ImageFlag.MERGED_BY_COMPILER)
        if args.folds or everything:
            document["classes"] = list(_classes(tables, names))
        if args.dcall or everything:
            document["direct_calls"] = _direct_calls(tables, names, known=not problem)
            document["callbacks"] = list(_callbacks(tables, names))
        if args.vcall or everything:
            document["virtual_calls"] = _virtual_calls(tables, known=not problem)
        if args.vtables or (everything and (args.json or ".debug_icf" in tables.present)):
            document["vtables"] = list(_vtables(tables, names))
        if args.address_taken or (everything and args.json):
            document["address_taken"] = list(_address_taken(tables, names))
    if args.json:
        sys.stdout.writelines(_json_text(document))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _text(document, tables.present))
    return 0


class _Names:
    """Names as they are printed: demangled unless the user asked for linkage names."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain

    def of(self, linkage_name: str) -> str:
        return linkage_name if self._plain else demangle(linkage_name)


# The document


def _classes(tables: Tables, names: _Names) -> Iterator[_Json]:
    tail_calls: dict[int, list[_Json]] = {}
    classes = tables.icf.classes
    for call in tables.icf.tail_calls:
        caller, callee = (
            None if ref.member_idx == ALL_MEMBERS else classes[ref.class_idx].members[ref.member_idx].name
            for ref in (call.caller, call.callee)
        )
        tail_calls.setdefault(call.caller.class_idx, []).append(
            {
                "jump": _address(call.jump),
                "caller": caller,
                "caller_name": None if caller is None else names.of(caller),
                "callee": callee,
                "callee_name": None if callee is None else names.of(callee),
                "target": _address(classes[call.callee.class_idx].vaddr),
            }
        )
    for class_idx, fold_class in enumerate(classes):
        yield {
            "address": _address(fold_class.vaddr),
            "size_bytes": fold_class.size_bytes,
            "flags": _class_flags(fold_class),
            "members": [_member(member, names) for member in fold_class.members],
            "tail_calls": tail_calls.get(class_idx, []),
        }


def _member(member: Member, names: _Names) -> _Json:
    return {
        "linkage_name": member.name,
        "name": names.of(member.name),
        "die": _die(member.die),
        "flags": _member_flags(member),
        "aliases": list(member.aliases),
    }


def _direct_calls(tables: Tables, names: _Names, *, known: bool) -> list[_Json]:
    calls = tables.direct
    evidence = tables.icf.evidence if known else b""
    records = []
    rows = zip(calls.call_site.tolist(), calls.caller_die.tolist(), calls.callee_die.tolist(), strict=True)
    for row, (site, caller, callee) in sorted(enumerate(rows), key=lambda row_entry: row_entry[1]):
        caller_name, callee_name = tables.die_name(caller), tables.die_name(callee)
        records.append(
            {
                "call_site": _address(site),
                "caller": caller_name or None,
                "caller_name": names.of(caller_name) or None,
                "caller_die": _die(caller),
                "callee": callee_name or None,
                "callee_name": names.of(callee_name) or None,
                "callee_die": _die(callee),
                "evidence": _evidence(evidence, row),
            }
        )
    return records


def _callbacks(tables: Tables, names: _Names) -> Iterator[_Json]:
    classes = tables.icf.classes
    for call in tables.icf.callbacks:
        caller, callee = (
            None if ref is None else classes[ref.class_idx].members[ref.member_idx].name
            for ref in (call.caller, call.callee)
        )
        assert callee is not None
        yield {
            "call_site": _address(call.call_site),
            "caller": caller,
            "caller_name": None if caller is None else names.of(caller),
            "callee": callee,
            "callee_name": names.of(callee),
            "evidence": call.evidence.name.lower(),
        }


def _virtual_calls(tables: Tables, *, known: bool) -> list[_Json]:
    calls = tables.virtual
    evidence = tables.icf.vcall_evidence if known else b""
    rows = zip(calls.call_site.tolist(), calls.vtable_slot.tolist(), strict=True)
    return [
        {"call_site": _address(site), "vtable_slot": slot, "evidence": _evidence(evidence, row)}
        for row, (site, slot) in sorted(enumerate(rows), key=lambda row_entry: row_entry[1])
    ]


def _vtables(tables: Tables, names: _Names) -> Iterator[_Json]:
    classes = tables.icf.classes
    groups: set[int] = {vtable.group for vtable in tables.icf.vtables}
    image = tables.image
    symbol_of = vftable_names(image) if image.format == "PE" else _symbols_at(image, groups)
    for vtable in tables.icf.vtables:
        slots = []
        for slot, (class_idx, idx) in vtable.slots:
            fold_class = classes[class_idx]
            if idx == ALL_MEMBERS and not fold_class.merged:
                idx = 0
            name = None if idx == ALL_MEMBERS else fold_class.members[idx].name
            slots.append(
                {
                    "slot": slot,
                    "address": _address(fold_class.vaddr),
                    "linkage_name": name,
                    "name": None if name is None else names.of(name),
                }
            )
        symbol = symbol_of.get(vtable.group, "")
        yield {
            "address": _address(vtable.vaddr),
            "group": _address(vtable.group),
            "symbol": symbol or None,
            "name": names.of(symbol) or None,
            "die": _die(vtable.die),
            "slots": slots,
        }


def _symbols_at(image: Image, vaddrs: set[int]) -> dict[int, str]:
    """Return the first symbol with the name of a vtable at each address."""
    import numpy as np

    from icf.vtables.layout import are_vtable_names

    found: dict[int, str] = {}
    for symbols in (image.symbols, image.dynamic_symbols) if vaddrs else ():
        rows = np.flatnonzero(np.isin(symbols.value, np.array(sorted(vaddrs), np.uint64)) & symbols.is_defined)
        for row in rows[are_vtable_names(symbols, rows)].tolist():
            found.setdefault(int(symbols.value[row]), symbols.name(row))
    return found


def _address_taken(tables: Tables, names: _Names) -> Iterator[_Json]:
    for fold_class in tables.icf.classes:
        for member in fold_class.members:
            if member.flags & MemberFlag.ADDRESS_TAKEN:
                yield {
                    "address": _address(fold_class.vaddr),
                    "linkage_name": member.name,
                    "name": names.of(member.name),
                    "merged": fold_class.merged,
                }


def _class_flags(fold_class: FoldClass) -> list[str]:
    return [_words(flag.name) for flag in ClassFlag if flag & fold_class.flags]


def _member_flags(member: Member) -> list[str]:
    return [_words(flag.name) for flag in MemberFlag if flag & member.flags]


def _evidence(evidence: bytes, row: int) -> str | None:
    return Evidence(evidence[row]).name.lower() if row < len(evidence) else None


def _words(flag_name: str | None) -> str:
    return (flag_name or "").lower().replace("_", "-")


def _address(vaddr: int) -> str:
    return f"{vaddr:#018x}"


def _die(die: int) -> str | None:
    return f"{die:#010x}" if die else None


def _json_text(document: _Json) -> Iterator[str]:
    """Yield the document with a record on each line: `json` indents in Python, four times slower, ten lines a
    record.
    """
    separator = "{"
    for key, value in document.items():
        yield f"{separator}\n{json.dumps(key)}: "
        separator = ","
        if isinstance(value, list) and value:
            yield "[\n " + ",\n ".join(map(json.dumps, value)) + "\n]"
        else:
            yield json.dumps(value)
    yield "\n}\n"


# The text


def _text(document: _Json, present: tuple[str, ...]) -> Iterator[str]:
    build_id = f", build id {document['build_id']}" if document["build_id"] else ""
    yield f"{document['image']}{build_id}"
    if "debug_file" in document:
        yield f"debug information in {document['debug_file']}"
    if "classes" in document:
        yield from _section(present, ".debug_icf", _text_classes(document["classes"]))
    if "direct_calls" in document:
        yield from _section(present, ".debug_dcall", _text_direct_calls(document["direct_calls"]))
    if document.get("callbacks"):
        yield from _section(present, ".debug_icf", _text_callbacks(document["callbacks"]))
    if "virtual_calls" in document:
        yield from _section(present, ".debug_vcall", _text_virtual_calls(document["virtual_calls"]))
    if "vtables" in document:
        yield from _section(present, ".debug_icf", _text_vtables(document["vtables"]))
    if "address_taken" in document:
        yield from _section(present, ".debug_icf", _text_address_taken(document["address_taken"]))


def _section(present: tuple[str, ...], section: str, lines: Iterable[str]) -> Iterator[str]:
    yield ""
    if section in present:
        yield from lines
    else:
        yield f"no {section}"


def _text_classes(classes: list[_Json]) -> Iterator[str]:
    merged_count = sum(len(entry["members"]) > 1 for entry in classes)
    function_count = sum(len(entry["members"]) for entry in classes if len(entry["members"]) > 1)
    jump_count = sum(len(entry["tail_calls"]) for entry in classes)
    yield (
        f".debug_icf: {_count(merged_count, 'body', 'bodies')} of {_count(function_count, 'function')}, "
        f"{len(classes) - merged_count} not merged, {_count(jump_count, 'tail call')}"
    )
    for entry in classes:
        flags = f": {', '.join(entry['flags'])}" if entry["flags"] else ""
        yield ""
        yield (
            f"{entry['address']}, {_count(entry['size_bytes'], 'byte')}, "
            f"{_count(len(entry['members']), 'function')}{flags}"
        )
        names = [printable(member["name"]) for member in entry["members"]]
        width = _width(names)
        for member, name in zip(entry["members"], names, strict=True):
            facts = [flag for flag in member["flags"] if flag != "kept"]
            mark = "kept" if "kept" in member["flags"] else ""
            yield f"  {mark:4}  {member['die'] or '-':10}  {name:{width}}  {', '.join(facts)}".rstrip()
            for alias in member["aliases"]:
                yield f"  {'':4}  {'':10}  = {printable(alias)}"
        for call in entry["tail_calls"]:
            caller = printable(call["caller_name"]) if call["caller_name"] else "each of them"
            callee = printable(call["callee_name"]) if call["callee_name"] else f"any function at {call['target']}"
            yield f"  jump  {call['jump']}  {caller} -> {callee}"


def _text_direct_calls(records: list[_Json]) -> Iterator[str]:
    callers: dict[tuple[str | None, str | None], list[_Json]] = {}
    for record in records:
        callers.setdefault((record["caller_die"], record["caller_name"]), []).append(record)
    yield f".debug_dcall: {_count(len(records), 'direct call')} of {_count(len(callers), 'caller')}"
    for (die, name), calls in callers.items():
        yield ""
        yield printable(name) if name else f"DIE {die}" if die else "caller not recorded"
        callees = [printable(call["callee_name"] or f"DIE {call['callee_die']}") for call in calls]
        width = _width(callees)
        for call, callee in zip(calls, callees, strict=True):
            yield f"  {call['call_site']}  {callee:{width}}  {call['evidence'] or ''}".rstrip()


def _text_callbacks(records: list[_Json]) -> Iterator[str]:
    yield f".debug_icf: {_count(len(records), 'function')} passed to imports that call back"
    yield ""
    callees = [printable(record["callee_name"]) for record in records]
    width = _width(callees)
    for record, callee in zip(records, callees, strict=True):
        caller = f"  from {printable(record['caller_name'])}" if record["caller_name"] else ""
        yield f"  {record['call_site']}  {callee:{width}}  {record['evidence']}{caller}"


def _text_virtual_calls(records: list[_Json]) -> Iterator[str]:
    yield f".debug_vcall: {_count(len(records), 'virtual call')}"
    if records:
        yield ""
    for record in records:
        yield f"  {record['call_site']}  slot {record['vtable_slot']:<4}  {record['evidence'] or ''}".rstrip()


def _text_vtables(vtables: list[_Json]) -> Iterator[str]:
    slot_count = sum(len(vtable["slots"]) for vtable in vtables)
    yield f".debug_icf: {_count(len(vtables), 'vtable')} with {_count(slot_count, 'slot')}"
    for vtable in vtables:
        yield ""
        yield f"{vtable['address']}  {printable(vtable['name'] or 'vtable without a symbol')}"
        for slot in vtable["slots"]:
            name = slot["name"] or f"any function at {slot['address']}"
            yield f"  slot {slot['slot']:<4}  {printable(name)}"


def _text_address_taken(records: list[_Json]) -> Iterator[str]:
    yield f".debug_icf: {_count(len(records), 'function')} with their address taken"
    if records:
        yield ""
    for record in records:
        yield f"  {record['address']}  {printable(record['name'])}{'  (merged)' if record['merged'] else ''}"


def _width(names: list[str]) -> int:
    """Return the column width for `names`; a few very long ones do not widen the column."""
    return min(max(map(len, names), default=0), _NAME_WIDTH_MAX)


def _count(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
