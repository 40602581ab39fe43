"""The images of a dump: which one lies at an address, and the memory that a dump leaves out because they have it.

An image is identified by its build id, which stands in its first page. An image without one must have the same first
page as the memory of the process; without that page only an image is taken that the user has named, or whose directory,
or that has the id that a minidump made of it, and the same inode.
The kernel's own image, the vdso, is in no file. A core file has a copy of it; of a minidump the one of this process is
taken, if it is the same build.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from icf.elf.image import Image
from icf.errors import IcfError
from icf.image import AnyImage
from unwind.dumps.dump import DumpedModule, ProcessDump
from unwind.dumps.loaded import LoadedImage, loaded, read
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.live.memory_image import read_image
from unwind.process.load_address import biases_of
from unwind.process.maps import VDSO
from unwind.walk.vdso import RecordedVdso

_PAGE_BYTES = 4096
_VDSO_LIMIT_BYTES = 1 << 20


class DumpImages:
    """Finds images by run-time addresses, as they are needed (`unwind.dumps.loaded.Images`)."""

    def __init__(self, dump: ProcessDump, finder: ImageFinder) -> None:
        self._dump, self._finder = dump, finder
        self._loaded: dict[DumpedModule, list[LoadedImage]] = {}
        self.problems: dict[DumpedModule, str] = {}  # why there is no image
        self._vdso: LoadedImage | None = None
        self._has_read_vdso = False
        ranges = [(each.start, each.end, module) for module in dump.modules for each in module.mappings]
        self._ranges = sorted(ranges, key=lambda each: each[:2])
        self._starts = [start for start, _, _ in self._ranges]
        folders = (os.path.dirname(module.path) for module in dump.modules)
        finder.program_folders = tuple(dict.fromkeys(each for each in folders if each))

    def module_at(self, address: int) -> DumpedModule | None:
        """Return the module that is mapped at an address."""
        at = bisect_right(self._starts, address) - 1
        return self._ranges[at][2] if at >= 0 and address < self._ranges[at][1] else None

    def at(self, address: int) -> LoadedImage | None:
        """Return the image that lies at an address; None if it is not found, or nothing lies there."""
        module = self.module_at(address)
        if module is None:
            vdso = self.vdso
            return vdso if vdso is not None and vdso.start <= address < vdso.end else None
        return next((each for each in self.of(module) if each.start <= address < each.end), None)

    def of(self, module: DumpedModule) -> list[LoadedImage]:
        """Return the image of a module, once for each time that it was loaded; `problems` says why there is none."""
        if module not in self._loaded:
            self._loaded[module] = self._load(module)
        return self._loaded[module]

    @property
    def vdso(self) -> LoadedImage | None:
        """The kernel's own image; None if it was not copied."""
        if not self._has_read_vdso:
            self._has_read_vdso = True
            self._vdso = self._read_vdso()
        return self._vdso

    def problem_at(self, address: int) -> str:
        """Return why the image at an address was not found; empty if it was, or nothing lies there."""
        module = self.module_at(address)
        return "" if module is None or self.of(module) else self.problems[module]

    def read(self, address: int, size_bytes: int, /) -> bytes | None:
        """Return memory of the process: what the dump has of it, else what its images say."""
        return read(self._dump.memory, self, address, size_bytes)

    def _load(self, module: DumpedModule) -> list[LoadedImage]:
        image = self._find(module)
        if isinstance(image, str) or image.machine is not self._dump.machine:
            self.problems[module] = image if isinstance(image, str) else f"{image.path}: is for another processor"
            return []
        low, high = image.span
        low = low // _PAGE_BYTES * _PAGE_BYTES
        if module.load_address is not None or image.format == "PE":
            start = module.mappings[0].start if module.load_address is None else module.load_address
            biases = [start - low]
        else:
            biases = biases_of(module.mappings, image.segments)
        if not biases:
            self.problems[module] = f"{image.path}: no segment of it is mapped as {module.path} is"
        return [loaded(image, bias, low + bias, high + bias) for bias in biases]

    def _find(self, module: DumpedModule) -> AnyImage | str:
        """Return the image of a module, or why there is none."""
        if module.pe is not None:
            return self._finder.find_pe(Sought(module.path, module.build_id, pe=module.pe))
        first = module.mappings[0]
        file_id = first.file_id if first.inode else None
        image = self._finder.find(Sought(module.path, module.build_id, file_id))
        if isinstance(image, str) or (module.build_id and (image.build_id or file_id)):
            return image
        page = module.first_page
        if page and bytes(image.data[: len(page)]) != page:
            return f"{image.path}: is not the file that was mapped"
        is_named = image is self._finder.given or image.path != module.path  # the user has named it, or where it is
        if not page and not is_named:
            return f"{module.path}: {self._dump.path} does not say of which build it is"
        return image

    def _read_vdso(self) -> LoadedImage | None:
        start = self._dump.vdso
        extent = self._dump.memory.extent(start) if start else None
        if extent is None:
            return self._same_vdso(start)
        if extent[1] - start > _VDSO_LIMIT_BYTES:
            return None
        try:
            content = read_image(self._part, start, extent[1] - start, extent[1] - start, VDSO)
            image = Image(VDSO, memoryview(content))
        except IcfError:
            return None
        low = image.span[0] // _PAGE_BYTES * _PAGE_BYTES
        return loaded(image, start - low, start, extent[1])

    def _same_vdso(self, start: int) -> LoadedImage | None:
        """Return the vdso of this process, or one that perf has kept, if it is of the same build."""
        build_id = self._dump.vdso_build_id
        image = RecordedVdso(build_id, self._finder.roots, is_same_kernel=False).image if build_id else None
        return None if image is None else loaded(image, start - image.span[0], start, start + image.span[1])

    def _part(self, start: int, size_bytes: int) -> bytes:
        """Return as much memory as there is, up to a size."""
        extent = self._dump.memory.extent(start)
        return b"" if extent is None else bytes(self._dump.memory.view(start, min(start + size_bytes, extent[1])))
