"""Where modules lay in a process that a text is of, as `--modules` and `-e` say it."""

from __future__ import annotations

from icf.elf.image import Image
from icf.elf.types import ET_EXEC, PT_INTERP
from icf.log import note, warn
from unwind.process.image_finder import ImageFinder
from unwind.process.module_list import find_images, read_modules
from unwind.readers.module_places import ModulePlace
from unwind.samples.recording import RecordedModule, Sample

_PIE_BASES = (
    0x555555554000,  # where Linux on x86-64 loads a program without randomization, as gdb starts it
    0x108000,  # where valgrind loads it
)


def places_of_list(path: str, images: ImageFinder, cache_dir: str | None) -> list[ModulePlace]:
    """Return the places of the modules in a list; reports each whose image is not found."""
    modules = read_modules(path)
    build_ids = {module.path: module.build_id for module in modules}
    placed, missing = find_images(modules, images, cache_dir)
    for problem in missing:
        warn(f"{problem}: its frames are unknown")
    return [
        ModulePlace(
            each.start, each.end, each.bias, RecordedModule(each.found or each.path, build_ids[each.path]), each.path
        )
        for each in placed
    ]


def places_of_image(path: str, *, with_linked: bool = False) -> list[ModulePlace]:
    """Return where a program lies: as linked, or where gdb and valgrind load one that can lie anywhere."""
    with Image.open(path) as image:
        low, high = image.span
        module = RecordedModule(path, image.build_id)
        biases = []
        if with_linked or image.headers.elf_type == ET_EXEC:
            biases.append(0)
        if image.headers.elf_type != ET_EXEC and any(segment.type == PT_INTERP for segment in image.segments):
            biases += _PIE_BASES
    return [ModulePlace(low + bias, high + bias, bias, module) for bias in biases]


def is_placed(sample: Sample) -> bool:
    """Return whether any frame is in a module."""
    return any(frame.module is not None for frame in sample.frames)


def note_unplaced(path: str, count: int) -> None:
    """Tell the user that nothing says where the modules of so many stacks of a text lay."""
    stacks = f"{count:,} stacks" if count != 1 else "1 stack"
    note(
        f"{path}: nothing says where the modules of {stacks} lay",
        "--modules FILE, the text of /proc/PID/maps or of lldb's `image list`; or -e IMAGE, if the stacks name two"
        " functions that are not merged",
    )
