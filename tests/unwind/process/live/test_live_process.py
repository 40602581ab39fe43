"""Processes that run while they are looked into: which image is where, and which file that is."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from tests.support.toolchain import LINKERS
from tests.unwind.process.live.host import build_host, build_library, running
from unwind.process.live.live_process import LiveProcess, Place

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other users can get at."""
    path = Path(tempfile.mkdtemp(prefix="icf-live-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def symbol_at(place: Place) -> str:
    """The dynamic or other symbol that begins there, in the image that was found."""
    assert place.module is not None
    symbols = place.module.image.symbols
    rows = symbols.functions[symbols.value[symbols.functions] == place.vaddr]
    return symbols.name(int(rows[0])) if len(rows) else ""


@pytest.mark.parametrize(
    ("linker", "flags"),
    [
        *((linker, (kind,)) for linker in LINKERS for kind in ("-pie", "-no-pie")),
        ("bfd", ("-pie", "-Wl,-z,noseparate-code")),
        ("lld", ("-pie", "-Wl,-z,separate-loadable-segments")),
        ("lld", ("-no-pie", "-Wl,--no-rosegment")),
    ],
)
def test_biases_are_those_of_the_loader(linker: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    program = build_host(tmp_path / "host", *flags, linker=linker)
    library = build_library(tmp_path / "liba.so", "apples", linker=linker)
    moved = build_library(tmp_path / "libb.so", "pears", 3, "-Wl,--image-base=0x3000000000", linker="lld")
    with running(program) as host, LiveProcess(host.pid) as live:
        for path, name in ((library, "apples"), (moved, "pears")):
            bias, address = host.ask(f"load {path} {name}")
            place = live.where(address)
            assert place.module is not None and place.module.bias % (1 << 64) == bias
            assert place.module.path == str(path) == place.module.image.path
            assert symbol_at(place) == name and place.module.start <= address < place.module.end
        place = live.where(host.inner)
        assert symbol_at(place) == "_ZL14inner_functioni" and place.path == str(program)
        if "-no-pie" in flags:
            assert place.module is not None and place.module.bias == 0
        assert {module.path for module in live.modules()} >= {str(program), str(library), "[vdso]"}


def test_one_file_that_is_loaded_twice(tmp_path: Path) -> None:
    library = build_library(tmp_path / "liba.so", "apples")
    other = tmp_path / "libb.so"
    os.link(library, other)
    with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
        loads = [host.ask(f"load {path} apples") for path in (library, shutil.copy(library, tmp_path / "libc.so"))]
        places = [live.where(address) for _, address in loads]
        assert len({place.module for place in places}) == 2
        assert [symbol_at(place) for place in places] == ["apples", "apples"]


def test_deleted_and_replaced_files_are_those_that_were_mapped(tmp_path: Path) -> None:
    program = build_host(tmp_path / "host")
    library = build_library(tmp_path / "liba.so", "apples")
    with running(program) as host:
        _, address = host.ask(f"load {library} apples")
        program.unlink()
        os.replace(build_library(tmp_path / "new.so", "pears"), library)
        with LiveProcess(host.pid) as live:
            assert symbol_at(live.where(address)) == "apples"
            assert symbol_at(live.where(host.inner)) == "_ZL14inner_functioni"
            assert live.where(address).path == f"{library} (deleted)"
            place = live.where(host.inner)
            assert place.module is not None and place.module.path == str(program)


def test_a_library_in_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    first, second = (build_library(tmp_path / f"lib{name}.so", name) for name in ("apples", "pears"))
    with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
        bias, address = host.ask(f"load {first} apples")
        assert symbol_at(live.where(address)) == "apples"
        before = live.generation
        host.ask("unload 0")
        assert live.where(address) == Place(is_mapped=False) and live.generation != before
        new_bias, new_address = host.ask(f"load {second} pears")
        assert symbol_at(live.where(new_address)) == "pears"
        assert (bias, address) == (new_bias, new_address), "the loader takes the same place"
        host.ask("unload 1")
        first.unlink()  # so that the next file may get its inode number
        third = build_library(tmp_path / "libplums.so", "plums")
        assert host.ask(f"load {third} plums") == [bias, address]
        assert symbol_at(live.where(address)) == "plums"


def test_without_the_kernels_help_the_list_of_mappings_is_compared(tmp_path: Path) -> None:
    first, second = (build_library(tmp_path / f"lib{name}.so", name) for name in ("apples", "pears"))
    with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
        live.target.can_query = False  # as before Linux 6.11
        for number, (path, name) in enumerate(((first, "apples"), (second, "pears"))):
            _, address = host.ask(f"load {path} {name}")
            assert symbol_at(live.where(address)) == name
            host.ask(f"unload {number}")
        assert live.where(address) == Place(is_mapped=False)


def test_code_that_was_copied_over_itself_is_still_the_programs(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host:
        host.ask("copy")
        with LiveProcess(host.pid) as live:
            place = live.where(host.inner)
            assert place.path == "" and symbol_at(place) == "_ZL14inner_functioni"


def test_the_vdso_is_read_from_memory(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
        place = live.where(host.clock_gettime)
        assert place.path == "[vdso]" and symbol_at(place) in ("clock_gettime", "__vdso_clock_gettime")


def test_this_process(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build_library(tmp_path / "liba.so", "apples")))
    with LiveProcess("self") as live:
        for function, name in ((library.apples, "apples"), (ctypes.pythonapi.PyObject_Repr, "PyObject_Repr")):
            address = ctypes.cast(function, ctypes.c_void_p).value
            assert address is not None and symbol_at(live.where(address)) == name
        assert live.where(id(live)).module is None and live.where(id(live)).is_mapped


def test_what_is_no_code_of_an_image(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
        assert live.where(host.arena) == Place(path="")
        assert live.where(0) == live.where(1 << 63) == live.where((1 << 64) - 1) == Place(is_mapped=False)


def test_a_process_that_has_ended_is_an_error(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host:
        live = LiveProcess(host.pid)
        assert live.where(host.inner).module
    with pytest.raises(IcfError, match=rf"process {host.pid}: has ended"):
        live.where(host.inner)
    live.close()
    with pytest.raises(IcfError, match="process 4194305: no such process"):
        LiveProcess(4194305)


def as_nobody(work: Callable[[], None]) -> None:
    """Do it as another user, in a child."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")


@needs_root
def test_another_users_process_is_an_error(tmp_path: Path) -> None:
    with running(build_host(tmp_path / "host")) as host:

        def look() -> None:
            with pytest.raises(IcfError, match=rf"process {host.pid}: permission denied") as refused:
                LiveProcess(host.pid)
            assert refused.value.hint == "run as the owner of the process or as root"

        as_nobody(look)


@needs_root
def test_an_ordinary_user_needs_no_map_files(folder: Path) -> None:
    program = build_host(folder / "host")
    library = build_library(folder / "liba.so", "apples")
    gone = build_library(folder / "libgone.so", "pears")
    replaced = build_library(folder / "libreplaced.so", "plums")
    with running(program, user=NOBODY) as host:
        addresses = {}
        for path, name in ((library, "apples"), (gone, "pears"), (replaced, "plums")):
            _, addresses[name] = host.ask(f"load {path} {name}")
        program.unlink()
        gone.unlink()
        os.replace(build_library(folder / "new.so", "figs"), replaced)

        def look() -> None:
            with LiveProcess(host.pid) as live:
                with pytest.raises(OSError):
                    live.target.open(f"map_files/{next(iter(live.mappings)).start:x}")
                assert symbol_at(live.where(addresses["apples"])) == "apples"
                assert symbol_at(live.where(host.inner)) == "_ZL14inner_functioni", "by /proc/PID/exe"
                for name in ("pears", "plums"):
                    place = live.where(addresses[name])
                    assert symbol_at(place) == name, "read back from memory"
                    assert place.module is not None and place.module.image.build_id

        as_nobody(look)


def test_an_image_read_back_has_the_dynamic_symbols_of_its_file(tmp_path: Path) -> None:
    from unwind.process.live.memory_image import read_image

    for linker in LINKERS:
        path = build_library(tmp_path / f"lib{linker}.so", "apples", 3, "-Wl,--build-id=sha1", linker=linker)
        with running(build_host(tmp_path / "host")) as host, LiveProcess(host.pid) as live:
            bias, address = host.ask(f"load {path} apples")
            assert live.where(address).module
            of_file = [each for each in live.mappings if each.path == str(path)]
            limit = sum(each.end - each.start for each in of_file)
            first = of_file[0]
            content = read_image(live.target.read, first.start, first.end - first.start, limit, "memory")
            with Image("memory", memoryview(content)) as image, Image.open(path) as file:
                names = [table.names(range(table.count)) for table in (image.symbols, file.dynamic_symbols)]
                assert names[0] == names[1] and "apples" in names[0]
                assert image.symbols.is_defined.tolist() == file.dynamic_symbols.is_defined.tolist()
                assert image.build_id == file.build_id != b""
                assert image.read(address - bias, 8) == file.read(address - bias, 8)


def test_a_file_that_is_no_image_is_no_module(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\xc3" * 8192)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    with path.open("rb") as file:
        address = libc.mmap(None, 4096, 5, 2, file.fileno(), 0)  # PROT_READ | PROT_EXEC, MAP_PRIVATE
        with LiveProcess() as live:
            assert live.where(address) == Place(path=str(path))
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(4096))
