"""Which images the modules of a dump are: what proves it where no build id does, and the vdso."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.types import Machine
from icf.filebytes import FileBytes
from tests.support.elf import Elf, Part
from unwind.dumps.dump import DumpedModule, ProcessDump
from unwind.dumps.images import DumpImages
from unwind.dumps.memory import FileMemory
from unwind.process.image_finder import ImageFinder
from unwind.process.maps import Mapping
from unwind.walk.vdso import own_vdso, vdso_functions

START = 0x7000
TEXT = bytes(range(1, 17)) * 2 + bytes(range(16))  # the exclusive or is that of the last 16 bytes


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """An image without a build id."""
    path = tmp_path / "shop"
    path.write_bytes(Elf([Part(".text", content=TEXT, vaddr=0x1000, flags=6)]).build())
    return path


def images_of(module: DumpedModule, finder: ImageFinder) -> DumpImages:
    return DumpImages(ProcessDump("dump", Machine.X86_64, memory_of(Path(module.path)), modules=[module]), finder)


def memory_of(path: Path) -> FileMemory:
    return FileMemory(FileBytes.open(str(path)), [])


def module_of(path: Path, build_id: bytes, inode: int) -> DumpedModule:
    device = path.stat().st_dev if inode else 0
    mapping = Mapping(START, START + 0x2000, "r-xp", 0, device, inode, str(path))
    return DumpedModule(str(path), build_id, (mapping,), load_address=START)


def test_a_made_id_needs_the_inode_too(shop: Path) -> None:
    made_id, inode = TEXT[32:], shop.stat().st_ino
    with ImageFinder() as finder:
        (found,) = images_of(proven := module_of(shop, made_id, inode), finder).of(proven)
        assert found.image.path == str(shop)
    for module, problem in (
        (module_of(shop, made_id, 0), f"{shop}: dump does not say of which build it is"),
        (
            module_of(shop, made_id, inode + 1),
            f"{shop}: is another file than the one that was mapped, inode {inode + 1}",
        ),
        (module_of(shop, TEXT[:16], inode), f"{shop}: has build id none, not {TEXT[:16].hex()}"),
        (module_of(shop, b"", inode), f"{shop}: dump does not say of which build it is"),
    ):
        with ImageFinder() as finder:
            images = images_of(module, finder)
            assert not images.of(module) and images.problem_at(START) == problem


def test_the_user_may_name_a_file_of_which_the_id_was_made(shop: Path) -> None:
    for build_id, count in ((TEXT[32:], 1), (TEXT[:16], 0), (b"", 1)):
        with ImageFinder(image=str(shop)) as finder:
            module = module_of(shop, build_id, 0)
            assert len(images_of(module, finder).of(module)) == count


def test_the_vdso_of_this_process_stands_for_one_of_the_same_build(shop: Path) -> None:
    own = own_vdso()
    assert own is not None
    name_of = {name: start for start, _, name in vdso_functions(own)}
    for build_id in (own.build_id, b"\1" * 20, b""):
        with ImageFinder() as finder:
            dump = ProcessDump("dump", Machine.X86_64, memory_of(shop), vdso=START, vdso_build_id=build_id)
            found = DumpImages(dump, finder).at(START + name_of["clock_gettime"])
            assert (found is not None) == (build_id == own.build_id)
            assert found is None or isinstance(found.image, Image) and found.bias == START
