"""Write the sections of a symcache that the resolver needs besides its functions (`unwind.symcache.reader.program`)."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from icf.columns import U64
from icf.elf.image import Image
from icf.pe.image import PeImage
from icf.pe.sidetable import side_table_path
from icf.pe.vftables import vftable_names
from icf.tables.dcall import parse_dcall
from icf.tables.icftable import parse_icf
from icf.tables.icfwriter import encode_icf
from icf.tables.of_pe import find_side_table
from icf.tables.place import file_with_tables
from icf.tables.vcall import parse_vcall
from unwind.program.facts import CodeFacts, ImageFacts
from unwind.program.from_image import DCALL, VCALL, has_only_records, may_fold_imports, read_tables
from unwind.program.functions import SymbolFunctions
from unwind.program.image_bound_slots import find_bound_slots, has_classes
from unwind.program.image_exports import ImageExports
from unwind.program.pe_facts import PeFacts, pe_exports


def pack_program(image: Image) -> dict[str, bytes]:
    """Return the sections of an image; none if another tool made its tables (`unwind.program.from_foreign_tables`)."""
    if has_only_records(image):
        return {}
    facts, tables = ImageFacts(image), read_tables(image)
    links = _links(facts, image.span, folds_imports=may_fold_imports(image)) | {"classes": has_classes(image)}
    sections = _code(facts.code()) | {"exports": _json(list(ImageExports(image)))}
    rows, names = find_bound_slots(image)
    if len(rows):
        sections |= {"bound": rows.tobytes(), "boundto": zlib.compress(_json(names))}
    if tables is not None:
        columns, file = tables.icf.columns, file_with_tables(image)
        functions = SymbolFunctions(image, folds_known=True)
        links["vtables"] = {vptr: functions.vtable_name(vptr) for vptr in columns.vtable_vaddr.tolist()}
        sections |= {
            "icf": encode_icf(tables.icf, {}),
            "dcall": bytes(file.contents(DCALL)),
            "vcall": bytes(file.contents(VCALL)),
            "words": _words(facts, columns.vtable_group, columns.vtable_vaddr).tobytes(),
        }
    return sections | {"links": _json(links)}


def pack_pe_program(image: PeImage) -> dict[str, bytes]:
    """Return the sections of a PE image."""
    links = _links(PeFacts(image), image.span, folds_imports=False)
    sections, side = _code(image.code()) | {"exports": _json(list(pe_exports(image)))}, find_side_table(image)
    if side is not None:
        path, names = side_table_path(image), vftable_names(image)
        table = parse_icf(side.icf, path, b"")  # a damaged one is refused here
        icf = encode_icf(table, {})
        vtables = {vptr: names.get(vptr, "") for vptr in table.columns.vtable_vaddr.tolist()}
        links |= {"jumps_known": side.has_pointers, "vtables": vtables}
        parse_dcall(side.dcall, path)
        parse_vcall(side.vcall, path)
        sections |= {"icf": icf, "dcall": side.dcall, "vcall": side.vcall, "words": b""}
    return sections | {"links": _json(links)}


def _links(facts: CodeFacts, span: tuple[int, int], *, folds_imports: bool) -> dict[str, Any]:
    return {
        "folds_imports": folds_imports,
        "text": facts.text,
        "span": span,
        "imports": facts.imports,
        "stubs": facts.stubs,
        "vtables": {},
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _code(code: list[tuple[int, memoryview]]) -> dict[str, bytes]:
    sizes = [len(piece) for _, piece in code]
    starts = np.cumsum([0, *sizes])[: len(code)]
    return {
        "code": b"".join(piece for _, piece in code),
        "codemap": np.array([[vaddr for vaddr, _ in code], sizes, starts], np.uint64).T.tobytes(),
    }


def _words(facts: ImageFacts, group: U64, vtable: U64) -> U64:
    """Return place and value of the constants that lie in a group of vtables."""
    place, value = facts.constants()
    order = np.lexsort((vtable, group))
    group, vtable = group[order], vtable[order]
    is_last = np.append(group[1:] != group[:-1], True) if len(group) else np.empty(0, np.bool_)
    group, vtable = group[is_last], vtable[is_last]
    at = np.searchsorted(group, value, side="right").astype(np.int64) - 1
    inside = at >= 0
    inside[inside] = value[inside] <= vtable[at[inside]]
    return np.stack([place[inside], value[inside]], axis=1)
