"""The modules of a minidump of Windows: what the dump itself says of its PE images.

An entry of its list has address, size, time stamp and the CodeView record of an image, which is all that finding the
image and its PDB takes. The dump has no other entries of the debug directory: the one here is made of the record.

Source: Microsoft, minidumpapiset.h: MINIDUMP_MODULE, MINIDUMP_SYSTEM_INFO.
"""

from __future__ import annotations

from icf.pe.debugdirectory import CODEVIEW, DebugEntry
from icf.pe.identity import PeIdentity
from unwind.dumps.minidump_file import MinidumpFile, Place, Stream
from unwind.process.module_identity import ModuleIdentity
from unwind.snapshot.modules import SnapshotModule

_MODULES, _SYSTEM = Stream(4, "ModuleListStream"), Stream(7, "SystemInfoStream")
_MODULE_BYTES = 108
_WIN32_NT = 2  # VER_PLATFORM_WIN32_NT
_RECORD_LIMIT_BYTES = 1 << 16


def is_of_windows(minidump: MinidumpFile) -> bool:
    """Return whether a minidump is of Windows; those of Linux have another platform."""
    system = minidump.stream(_SYSTEM)
    system.pos = 20
    return system.remaining >= 4 and system.u32() == _WIN32_NT


def windows_modules(minidump: MinidumpFile) -> list[SnapshotModule]:
    """Return the modules of the list. Raises `FormatError`."""
    modules = []
    for entry in minidump.entries(_MODULES, _MODULE_BYTES):
        start, size_bytes = entry.u64(), entry.u32()
        entry.pos += 4  # the checksum
        timestamp, name_at = entry.u32(), entry.u32()
        entry.pos += 52  # the version
        record = Place(entry.u32(), entry.u32())
        entries: tuple[DebugEntry, ...] = ()
        if 0 < record.size_bytes <= _RECORD_LIMIT_BYTES:
            blob = bytes(minidump.part(record, "CodeView record").take(record.size_bytes))
            if blob[:4] in (b"RSDS", b"NB10"):
                entries = (DebugEntry(0, timestamp, 0, 0, CODEVIEW, blob),)
        identity = ModuleIdentity(pe=PeIdentity(timestamp, size_bytes, entries))
        modules.append(SnapshotModule(minidump.string(name_at), identity, start, size_bytes))
    return modules
