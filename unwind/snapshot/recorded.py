"""The modules of a recording, of `modules.log` of drmemtrace, and files by themselves.

Of a recording only the modules that its samples need count, process by process. An image of this machine that is the
recorded one (`unwind.process.image_finder`) adds what the recording lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from icf.errors import FormatError
from icf.log import warn
from icf.pe.headers import MAGIC as PE_MAGIC
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.load_address import bias_of_listed
from unwind.process.maps import Mapping
from unwind.process.module_identity import ModuleIdentity, identity_of_image
from unwind.readers.formats import PCS, READERS, reader_of, recognize
from unwind.readers.source import Source
from unwind.samples.recording import Base, RecordedModule
from unwind.snapshot.modules import SnapshotModule, module_of_image
from unwind.trace.modules import parse_modules

_ELF_MAGIC = b"\x7fELF"
_MODULES_LOG = b"Module Table:"


def modules_of_file(path: str, finder: ImageFinder) -> list[SnapshotModule]:
    """Return the modules of a recording or a `modules.log`, or the image that the file is.

    Args:
        path: the file, whose content says what it is.
        finder: finds images of this machine; closed when all was read.

    Raises:
        IcfError: it cannot be read, or is of no format that has modules.
    """
    with Source.open(path, finder) as source:
        if source.head.startswith(_ELF_MAGIC):
            return [_elf(path)]
        if source.head.startswith(PE_MAGIC):
            return [_pe(path)]
        if source.head.startswith(_MODULES_LOG):
            return list(_of_log(parse_modules(bytes(source.content()[:]), path).modules, finder))
        processes = _needed(source)
        found: list[SnapshotModule] = []
        for pid, modules in processes.items():
            for each in _once(modules):
                found += _of_recorded(each, finder, pid if len(processes) > 1 else None)
        return found


def _elf(path: str) -> SnapshotModule:
    from icf.elf.image import Image

    with Image.open(path) as image:
        return module_of_image(path, image, identity_of_image(image), None)


def _pe(path: str) -> SnapshotModule:
    from icf.pe.identity import read_identity

    pe = read_identity(path)
    for problem in pe.problems:
        warn(problem)
    return SnapshotModule(path, ModuleIdentity(pe=pe), size_bytes=pe.image_size_bytes)


def _of_log(modules: Iterable[RecordedModule], finder: ImageFinder) -> Iterator[SnapshotModule]:
    """Yield the modules of `modules.log`: it has where each lay as a whole, and no build ids."""
    for each in modules:
        if each.path[:1] not in ("", "["):
            image = finder.find(Sought.of(each))
            identity = ModuleIdentity() if isinstance(image, str) else identity_of_image(image)
            yield SnapshotModule(each.path, identity, each.start, each.end - each.start)


def _needed(source: Source) -> dict[int, list[RecordedModule]]:
    """Return the modules that the samples of a recording need, by process."""
    name = recognize(source)
    if name == PCS or name not in READERS:
        raise FormatError(source.path, "stacks", 0, "addresses alone, without modules")
    processes: dict[int, dict[RecordedModule, None]] = {}
    for sample in reader_of(name).read(source):
        of_process = processes.setdefault(sample.process.pid, {})
        for frame in sample.frames:
            if frame.module is not None:
                of_process[frame.module] = None
    return {pid: list(modules) for pid, modules in processes.items() if modules}


def _once(modules: Iterable[RecordedModule]) -> Iterator[list[RecordedModule]]:
    """Yield the mappings of each file that have code."""
    of_file: dict[tuple[str, bytes], list[RecordedModule]] = {}
    for each in modules:
        of_file.setdefault((each.path, each.build_id), []).append(each)
    yield from of_file.values()


def _of_recorded(mapped: list[RecordedModule], finder: ImageFinder, pid: int | None) -> Iterator[SnapshotModule]:
    first = mapped[0]
    if not first.build_id and first.path[:1] in ("", "["):
        return  # [vdso], [heap]
    image = finder.find(Sought.of(first))
    identity = ModuleIdentity(first.build_id) if isinstance(image, str) else identity_of_image(image)
    places = [each for each in mapped if each.base is Base.RUN_TIME]
    if not places:
        yield SnapshotModule(first.path, identity, pid=pid)
    elif not isinstance(image, str):
        biases = {bias_of_listed(((each.start, each.offset),), image.segments) for each in places}
        for bias in sorted(each for each in biases if each is not None):
            yield replace(module_of_image(first.path, image, identity, bias), pid=pid)
        places = places if biases == {None} else []
    for each in places:
        if each.offset == 0:  # the image's lowest page
            yield SnapshotModule(first.path, identity, each.start, pid=pid)
        else:
            mapping = Mapping(each.start, each.end, "r-xp", each.offset, 0, 0, each.path)
            yield SnapshotModule(first.path, identity, mapping=mapping, pid=pid)
