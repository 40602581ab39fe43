"""The modules of a process: one that runs, one of a core file or a minidump.

Images that are on this machine, and are the ones that were loaded, say all about themselves. Of others the dump has the
build id, and where they lay.
"""

from __future__ import annotations

from collections.abc import Iterator

from icf.filebytes import FileBytes
from unwind.dumps.dump import DumpedModule, ProcessDump
from unwind.dumps.first_page import segments_of
from unwind.dumps.images import DumpImages
from unwind.process.image_finder import ImageFinder
from unwind.process.live.live_process import LiveProcess
from unwind.process.load_address import biases_of
from unwind.process.maps import VDSO
from unwind.process.module_identity import ModuleIdentity, identity_of_image
from unwind.snapshot.modules import SnapshotModule, module_of_image

_PAGE_BYTES = 4096


def modules_of_process(pid: int) -> list[SnapshotModule]:
    """Return the modules of a running process, which is not stopped; the vdso, which is in no file, is left out.

    Args:
        pid: its number.

    Raises:
        IcfError: there is no such process, or it may not be read.
    """
    with LiveProcess(pid) as live:
        return [
            module_of_image(each.path, each.image, identity_of_image(each.image), each.bias)
            for each in live.modules()
            if each.path != VDSO
        ]


def modules_of_core(path: str, finder: ImageFinder) -> list[SnapshotModule]:
    """Return the modules of a core file. Raises `IcfError` for one that cannot be read."""
    from unwind.dumps.core import read_core

    return list(_of_dump(read_core(FileBytes.open(path)), finder))


def modules_of_minidump(path: str, finder: ImageFinder) -> list[SnapshotModule]:
    """Return the modules of a minidump, of Linux or Windows. Raises `IcfError` for one that cannot be read."""
    from unwind.dumps.minidump import read_minidump
    from unwind.dumps.minidump_file import MinidumpFile
    from unwind.dumps.minidump_modules import is_of_windows, windows_modules

    file = FileBytes.open(path)
    minidump = MinidumpFile(file)
    if is_of_windows(minidump):
        return [_windows(each) for each in windows_modules(minidump)]
    return list(_of_dump(read_minidump(file), finder))


def _windows(module: DumpedModule) -> SnapshotModule:
    """Return what a minidump says itself of a PE image: the CodeView record is the one entry of its debug directory."""
    assert module.pe is not None
    return SnapshotModule(module.path, ModuleIdentity(pe=module.pe), module.load_address, module.pe.image_size_bytes)


def _of_dump(dump: ProcessDump, finder: ImageFinder) -> Iterator[SnapshotModule]:
    images = DumpImages(dump, finder)
    for module in dump.modules:
        found = images.of(module)
        for loaded in found:
            assert loaded.image.format == "ELF"  # those are in minidumps of Windows
            identity = identity_of_image(loaded.image)
            identity = identity._replace(build_id=identity.build_id or module.build_id)
            yield module_of_image(module.path, loaded.image, identity, loaded.bias)
        if not found:
            yield from _not_found(module)


def _not_found(module: DumpedModule) -> Iterator[SnapshotModule]:
    """Yield a module whose image is not here, by what the dump has of its program headers and mappings."""
    identity = ModuleIdentity(module.build_id)
    size_bytes = module.mappings[-1].end - module.mappings[0].start
    if module.load_address is not None:
        yield SnapshotModule(module.path, identity, module.load_address, size_bytes)
        return
    segments = segments_of(module.first_page)
    low = min((each.vaddr for each in segments if each.memsz), default=0) // _PAGE_BYTES * _PAGE_BYTES
    biases = biases_of(module.mappings, segments)
    for bias in biases:
        yield SnapshotModule(module.path, identity, low + bias, size_bytes)
    if not biases:
        code = next((each for each in module.mappings if each.is_executable), module.mappings[0])
        yield SnapshotModule(module.path, identity, mapping=code)
