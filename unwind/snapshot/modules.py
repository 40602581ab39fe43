"""A module of a snapshot, and the list of them as JSON, which `--modules` reads (`unwind.process.module_list`).

Where the program headers of an image are known, its `load_address` is; else there is the mapping as it was recorded:
`start`, `end` and `offset`. A file by itself has no address. `size_bytes` counts from the load address.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unwind.process.maps import Mapping
from unwind.process.module_identity import ModuleIdentity, fields_of

if TYPE_CHECKING:
    from icf.elf.image import Image

_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SnapshotModule:
    """A module and where it lay: `load_address`, or `mapping`, or neither."""

    path: str  # as the process knew it
    identity: ModuleIdentity
    load_address: int | None = None
    size_bytes: int | None = None
    mapping: Mapping | None = None  # the one of the code
    pid: int | None = None  # of a recording of several processes


def module_of_image(path: str, image: Image, identity: ModuleIdentity, bias: int | None) -> SnapshotModule:
    """Return the module of an image; `bias` is what was added to its addresses as linked, None: it is not loaded."""
    low, high = image.span
    low = low // _PAGE_BYTES * _PAGE_BYTES
    return SnapshotModule(path, identity, None if bias is None else low + bias, high - low)


def write_modules(modules: Iterable[SnapshotModule]) -> str:
    """Return the list, by process and address, as JSON; the same modules give the same text."""
    entries = [_entry(each) for each in sorted(modules, key=_order)]
    return json.dumps(entries, indent=1) + "\n"


def _order(module: SnapshotModule) -> tuple[int, int, str]:
    start = module.mapping.start if module.mapping is not None else 0
    return module.pid or 0, start if module.load_address is None else module.load_address, module.path


def _entry(module: SnapshotModule) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": module.path}
    if module.pid is not None:
        entry["pid"] = module.pid
    if module.load_address is not None:
        entry["load_address"] = hex(module.load_address)
    elif module.mapping is not None:
        start, end, offset = module.mapping.start, module.mapping.end, module.mapping.offset
        entry |= {"start": hex(start), "end": hex(end), "offset": hex(offset)}
    if module.size_bytes is not None:
        entry["size_bytes"] = module.size_bytes
    return entry | fields_of(module.identity)
