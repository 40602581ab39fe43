"""Minidumps, made from their parts: the public format (minidumpapiset.h; Breakpad's minidump_format.h).

header 32 | directory 12 * n | streams | what they refer to
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack

from icf.elf.types import Machine
from unwind.dumps.dump import ProcessDump
from unwind.process.maps import Mapping

PROCESSORS = {Machine.X86_64: 9, Machine.AARCH64: 12}
LINUX = 0x8201
# offsets of the registers in CONTEXT, by DWARF number
_AMD64 = {0: 120, 2: 128, 1: 136, 3: 144, 7: 152, 6: 160, 4: 168, 5: 176, 16: 248}
_AMD64.update({number: 120 + 8 * number for number in range(8, 16)})
_CONTEXTS = {Machine.X86_64: (1232, _AMD64), Machine.AARCH64: (912, {n: 8 + 8 * n for n in range(33)})}


@dataclass
class MadeMinidump:
    """A minidump: `threads` (tid, registers, start and bytes of stack), `modules` (path, build id, start, size)."""

    machine: Machine = Machine.X86_64
    platform: int = LINUX
    threads: list[tuple[int, dict[int, int], int, bytes]] = field(default_factory=list)
    modules: list[tuple[str, bytes, int, int]] = field(default_factory=list)
    memory: list[tuple[int, bytes]] = field(default_factory=list)
    memory_64: list[tuple[int, bytes]] = field(default_factory=list)
    exception: tuple[int, int, int, dict[int, int]] | None = None  # tid, signal, address, registers
    parameters: tuple[int, ...] = ()  # of the exception: ExceptionInformation
    names: dict[int, str] = field(default_factory=dict)
    maps: bytes = b""
    status: bytes = b""
    signature: bytes = b"LEpB"  # begins the CodeView records
    timestamp: int = 0  # of the modules
    pid: int = 0
    padding: bytes = b""  # between the count of a list and its entries: 4 bytes, or none

    def __post_init__(self) -> None:
        self._content = bytearray()

    def build(self) -> bytes:
        """The bytes of the file."""
        self._content = bytearray(32 + 12 * 16)
        streams = {7: pack("<2H16xI32x", PROCESSORS[self.machine], 0, self.platform)}  # SystemInfoStream
        threads = [
            pack("<4IQ", tid, 0, 0, 0, 0)  # ThreadId, SuspendCount, PriorityClass, Priority, Teb
            + pack("<Q2I", start, len(stack), self._put(stack))  # Stack
            + pack("<2I", *self._context(registers))  # ThreadContext
            for tid, registers, start, stack in self.threads
        ]
        streams[3] = pack("<I", len(threads)) + self.padding + b"".join(threads)  # ThreadListStream
        modules = [
            pack("<Q3I", start, size_bytes, 0, self.timestamp)  # BaseOfImage, SizeOfImage, CheckSum, TimeDateStamp
            + pack("<I52x", self._put_string(path))  # ModuleNameRva, VersionInfo
            + (
                pack("<2I", 4 + len(build_id), self._put(self.signature + build_id)) if build_id else bytes(8)
            )  # CvRecord
            + bytes(24)  # MiscRecord, Reserved0, Reserved1
            for path, build_id, start, size_bytes in self.modules
        ]
        streams[4] = pack("<I", len(modules)) + self.padding + b"".join(modules)  # ModuleListStream
        ranges = [pack("<Q2I", start, len(piece), self._put(piece)) for start, piece in self.memory]
        streams[5] = pack("<I", len(ranges)) + self.padding + b"".join(ranges)  # MemoryListStream
        if self.exception is not None:
            tid, number, address, registers = self.exception
            record = pack("<2I2Q2I", number, 0, 0, address, len(self.parameters), 0)
            record += pack("<15Q", *self.parameters, *[0] * (15 - len(self.parameters)))
            streams[6] = pack("<2I", tid, 0) + record + pack("<2I", *self._context(registers))  # ExceptionStream
        if self.memory_64:
            offset = len(self._content)
            for _, piece in self.memory_64:
                self._put(piece)
            entries = b"".join(pack("<2Q", start, len(piece)) for start, piece in self.memory_64)
            streams[9] = pack("<2Q", len(self.memory_64), offset) + entries  # Memory64ListStream
        if self.pid:
            streams[15] = pack("<3I", 24, 1, self.pid) + bytes(12)  # MiscInfoStream
        if self.names:
            entries = b"".join(pack("<IQ", tid, self._put_string(name)) for tid, name in self.names.items())
            streams[24] = pack("<I", len(self.names)) + entries  # ThreadNamesStream
        if self.maps:
            streams[0x47670009] = self.maps  # LinuxMaps
        if self.status:
            streams[0x47670004] = self.status  # LinuxProcStatus
        places = {kind: (len(stream), self._put(stream)) for kind, stream in streams.items()}
        directory = b"".join(pack("<3I", kind, *place) for kind, place in places.items())
        header = pack("<4s5IQ", b"MDMP", 0xA793, len(places), 32, 0, 0, 0)
        self._content[: len(header) + len(directory)] = header + directory
        return bytes(self._content)

    def _put(self, content: bytes) -> int:
        """Append bytes to the file; returns their offset."""
        offset = len(self._content)
        self._content += content
        return offset

    def _put_string(self, text: str) -> int:
        encoded = text.encode("utf-16-le")
        return self._put(pack("<I", len(encoded)) + encoded + b"\0\0")

    def _context(self, registers: dict[int, int]) -> tuple[int, int]:
        size_bytes, offsets = _CONTEXTS[self.machine]
        context = bytearray(size_bytes)
        for number, value in registers.items():
            context[offsets[number] : offsets[number] + 8] = pack("<Q", value)
        return size_bytes, self._put(bytes(context))


def minidump_of(dump: ProcessDump, *, with_maps: bool = False) -> MadeMinidump:
    """The minidump that a crash handler would write for the process of a core file."""
    made = MadeMinidump(dump.machine, pid=dump.pid)
    mappings: list[Mapping] = []
    sp = {Machine.X86_64: 7, Machine.AARCH64: 31}[dump.machine]
    for thread in dump.threads:
        extent = dump.memory.extent(thread.registers[sp])
        assert extent is not None
        start = max(thread.registers[sp] - 128, extent[0])
        stack = bytes(dump.memory.view(start, min(extent[1], start + 32768)))
        made.threads.append((thread.tid, thread.registers, start, stack))
    made.exception = dump.threads[0].tid, 6, 0, dump.threads[0].registers
    for module in dump.modules:
        first, last = module.mappings[0], module.mappings[-1]
        made.modules.append((module.path, module.build_id, first.start, last.end - first.start))
        if with_maps:
            mappings += module.mappings
    for each in sorted(mappings):
        made.maps += f"{each.start:x}-{each.end:x} {each.rights} {each.offset:08x} 08:01 77 {each.path}\n".encode()
    return made
