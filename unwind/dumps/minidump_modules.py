"""The modules of a minidump: its list, which has build ids, and /proc/PID/maps where its writer has kept that.

    ModuleList    108 bytes each: address, size, offset of the name, place of the CodeView record
    LinuxMaps     the text of /proc/PID/maps: of Breakpad and lldb, not of Crashpad

A CodeView record is `LEpB` and the build id; of earlier Breakpads `RSDS`, its first 16 bytes, an age and the name.
Crashpad writes `RSDS` with zeros for an image without a build id. What others have in its place: `build_ids`.

Of a minidump of Windows an entry has address, size, time stamp and the CodeView record of an image, which is all that
finding the image and its PDB takes. Of the debug directory there is that record alone: the entry here is made of it.

Sizes in the list are those of all segments (Crashpad), of the mappings that adjoin (Breakpad), or of .text (lldb).
Breakpad lists an image twice if its code is mapped apart from its beginning, once without build id.

Source: Microsoft, minidumpapiset.h: MINIDUMP_MODULE, MINIDUMP_SYSTEM_INFO.
"""

from __future__ import annotations

from typing import NamedTuple

from icf.errors import FormatError
from icf.log import warn
from icf.pe.debugdirectory import CODEVIEW, DebugEntry
from icf.pe.identity import PeIdentity
from unwind.dumps.dump import DumpedModule
from unwind.dumps.minidump_file import MinidumpFile, Place, Stream
from unwind.process.build_ids import CUT_BYTES
from unwind.process.maps import Mapping, parse_maps
from unwind.process.pe_images import kept_id

_MODULES, _MAPS = Stream(4, "ModuleListStream"), Stream(0x47670009, "LinuxMaps")
_MODULE_BYTES = 108
_SYSTEM, _PLATFORM_AT, _WIN32_NT = Stream(7, "SystemInfoStream"), 20, 2  # VER_PLATFORM_WIN32_NT
_BUILD_ID, _CUT_BUILD_ID = b"LEpB", b"RSDS"
_PDB_RECORDS = b"RSDS", b"NB10"
_RECORD_LIMIT_BYTES = 1 << 12
_PDB_RECORD_LIMIT_BYTES = 1 << 16
_BUILD_ID_LIMIT_BYTES = 64
_VDSO = ("linux-gate.so", "linux-vdso.so.1", "[vdso]")


class ListedModule(NamedTuple):
    """An entry of the list."""

    path: str
    build_id: bytes
    start: int
    end: int

    @property
    def is_vdso(self) -> bool:
        """Whether it is the kernel's own image; lldb adds its address to the name."""
        return self.path.startswith(_VDSO)


def listed_modules(file: MinidumpFile) -> list[ListedModule]:
    """Return the entries of the list. Raises `FormatError`."""
    listed = []
    for entry in file.entries(_MODULES, _MODULE_BYTES):
        start, size_bytes = entry.u64(), entry.u32()
        entry.pos += 8
        name_at = entry.u32()
        entry.pos += 52
        record = Place(entry.u32(), entry.u32())
        end = min(start + size_bytes, 1 << 64)
        listed.append(ListedModule(file.string(name_at), _build_id(file, record), start, end))
    return listed


def is_of_windows(file: MinidumpFile) -> bool:
    """Return whether a minidump is of Windows; those of Linux have another platform."""
    system = file.stream(_SYSTEM)
    system.pos = _PLATFORM_AT
    return system.remaining >= 4 and system.u32() == _WIN32_NT


def windows_modules(file: MinidumpFile) -> list[DumpedModule]:
    """Return the PE images of a minidump of Windows. Raises `FormatError`."""
    modules = []
    for entry in file.entries(_MODULES, _MODULE_BYTES):
        start, size_bytes = entry.u64(), entry.u32()
        entry.pos += 4  # the checksum
        timestamp, name_at = entry.u32(), entry.u32()
        entry.pos += 52  # the version
        record = Place(entry.u32(), entry.u32())
        entries: tuple[DebugEntry, ...] = ()
        if 0 < record.size_bytes <= _PDB_RECORD_LIMIT_BYTES:
            blob = bytes(file.part(record, "CodeView record").take(record.size_bytes))
            if blob[:4] in _PDB_RECORDS:
                entries = (DebugEntry(0, timestamp, 0, 0, CODEVIEW, blob),)
        path, identity = file.string(name_at), PeIdentity(timestamp, size_bytes, entries)
        mapping = Mapping(start, min(start + size_bytes, 1 << 64), "r-xp", 0, 0, 0, path)
        modules.append(DumpedModule(path, kept_id(identity, path), (mapping,), load_address=start, pe=identity))
    return modules


def mappings_of(file: MinidumpFile) -> list[Mapping]:
    """Return what was mapped; empty if the minidump does not say it, or not as the kernel writes it."""
    stream = file.stream(_MAPS)
    try:
        return parse_maps(bytes(stream.take(stream.remaining)).rstrip(b"\0"), file.path)
    except FormatError as error:
        warn(f"{error}: the list of modules is used")
        return []


def modules_of(listed: list[ListedModule], mappings: list[Mapping]) -> list[DumpedModule]:
    """Return the files with code, as far as possible with all of their mappings."""
    if not mappings:
        return [_of_entry(each) for each in listed if each.start < each.end and not each.is_vdso]
    of_path: dict[str, list[Mapping]] = {}
    for mapping in mappings:
        if mapping.is_of_file:
            of_path.setdefault(mapping.path_once, []).append(mapping)
    modules = []
    for path, mapped in of_path.items():
        if any(each.is_executable for each in mapped):
            here = [each for each in listed if any(place.start <= each.start < place.end for place in mapped)]
            ids = {each.build_id for each in here if each.build_id}
            modules.append(DumpedModule(path, ids.pop() if len(ids) == 1 else b"", tuple(mapped)))
    return modules


def _of_entry(listed: ListedModule) -> DumpedModule:
    """Return a module of which the list alone says where it lies."""
    mapping = Mapping(listed.start, listed.end, "r-xp", 0, 0, 0, listed.path)
    return DumpedModule(listed.path, listed.build_id, (mapping,), load_address=listed.start)


def _build_id(file: MinidumpFile, record: Place) -> bytes:
    if not 4 < record.size_bytes <= _RECORD_LIMIT_BYTES:
        return b""
    content = bytes(file.part(record, "CodeView record").take(record.size_bytes))
    build_id = b""
    if content.startswith(_BUILD_ID) and len(content) <= 4 + _BUILD_ID_LIMIT_BYTES:
        build_id = content[4:]
    elif content.startswith(_CUT_BUILD_ID):
        build_id = content[4 : 4 + CUT_BYTES]
    return build_id if any(build_id) else b""
