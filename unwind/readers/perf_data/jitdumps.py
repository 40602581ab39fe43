"""Functions that compilers made at run time, from their jitdumps (`unwind.process.jit.jitdump`).

A producer maps the first page of its jitdump as code, so the recording has a mapping of it:

    MMAP2 of pid 77: /home/u/jit-77.dump          the file, by its device and inode
    in it, at 17.3 s: f at 0x7f0000001000         from then on a mapping of pid 77

So functions are mappings among the others: one is there from its time on, until another takes its place or it is moved.
Their times are those of CLOCK_MONOTONIC. If the recording's are not (`perf record -k mono`), the order in the jitdump
counts, all of it from when the jitdump was mapped; then a name may be that of a later function, and is not certain.

Mappings of memory that is of no file are left out where functions are known: compilers change the rights of their
memory over and over, and each time it is mapped again for the recording. Functions that lie in an image, as V8's
builtins do, are the image's.

`perf inject --jit` does the same, and writes each function to a file of its own, which holds it from offset 0x80 on:

    MMAP2 of pid 77: /home/u/jitted-77-12.so      at 17.3 s, from 0x7f0000001000 on
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache, partial

from icf.elf.image import Image
from icf.errors import FormatError, IcfError
from icf.filebytes import FileBytes
from icf.log import warn
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.jit.code import JitCode
from unwind.process.jit.jitdump import CLOCK_OF_CPU, JitDump, Step
from unwind.process.jit.regions import Regions
from unwind.process.roots import Roots
from unwind.readers.perf_data.changes import Change, Changes, MadeFunction, Mapped
from unwind.samples.recording import RecordedModule

_JITDUMP = re.compile(r"jit-(\d+)\.dump")
_INJECTED = re.compile(r"(jitted-\d+-)\d+\.so")
_ANONYMOUS = ("//anon", "[anon:", "/memfd:")
_NO_FUNCTION = "//anon"


def is_jitdump(path: str) -> bool:
    """Return whether a mapping is that of a jitdump, by its name."""
    return path.endswith(".dump") and _JITDUMP.fullmatch(os.path.basename(path)) is not None


def is_injected(path: str) -> bool:
    """Return whether a mapping is that of a function that perf has written to a file."""
    return path.endswith(".so") and _INJECTED.fullmatch(os.path.basename(path)) is not None


def add_jitdumps(changes: Changes, finder: ImageFinder, roots: Roots, *, is_monotonic: bool) -> None:
    """Add the functions of all jitdumps as mappings; one line for each that cannot be read."""
    for idx, change in enumerate(changes.all):
        if change.mapped is not None and is_injected(change.mapped.path):
            changes.all[idx] = change._replace(mapped=_injected(change.mapped, finder, roots.of(change.pid)))
    added: list[Change] = []
    pids: set[int] = set()
    seen: set[tuple[int, str]] = set()
    for change in changes.all:
        mapped = change.mapped
        if mapped is None or not is_jitdump(mapped.path) or (change.pid, mapped.path) in seen:
            continue
        seen.add((change.pid, mapped.path))
        file_id = mapped.module.file_id if mapped.module is not None else None
        sought = Sought(mapped.path, b"", file_id, roots.of(change.pid))
        try:
            dump, steps = _read(finder, sought)
        except IcfError as error:
            warn(f"{error}: the functions that it lists are unknown")
            continue
        is_timed = is_monotonic and not dump.flags & CLOCK_OF_CPU
        if steps:
            pids.add(change.pid)
        modules = _modules(changes, change.pid)
        for step in steps:
            module = modules.find(step.start)
            if module is not None and not isinstance(finder.find(Sought.of(module, sought.root)), str):
                continue
            time = step.time if is_timed else change.time
            added += [
                Change(time, len(changes.all) + len(added) + number, change.pid, each)
                for number, each in enumerate(_mappings(dump, step, is_certain=is_timed))
            ]
    if seen:
        changes.all = [
            each for each in changes.all if each.mapped is None or not _is_left_out(each.mapped, each.pid in pids)
        ]
    changes.all += added


def _modules(changes: Changes, pid: int) -> Regions[RecordedModule]:
    """Return the files that were mapped in a process."""
    modules: Regions[RecordedModule] = Regions()
    mapped = [each.mapped for each in changes.all if each.pid == pid and each.mapped is not None]
    modules.add([(each.start, each.end, each.module) for each in mapped if each.module and not is_jitdump(each.path)])
    return modules


def _is_left_out(mapped: Mapped, has_functions: bool) -> bool:
    return is_jitdump(mapped.path) or (has_functions and mapped.path.startswith(_ANONYMOUS))


def _mappings(dump: JitDump, step: Step, *, is_certain: bool) -> Iterator[Mapped]:
    """Yield what a step maps: nothing where a function lay before, then the function."""
    _, function, start, old_start = step
    if old_start is not None:
        yield Mapped(old_start, old_start + function.size_bytes, _NO_FUNCTION, None)
    made = MadeFunction(partial(dump.code, start, function), is_certain)
    yield Mapped(start, start + function.size_bytes, _NO_FUNCTION, None, made=made)


def _read(finder: ImageFinder, sought: Sought) -> tuple[JitDump, list[Step]]:
    """Return a jitdump and its steps; raises `IcfError` if it is not found, or of another process."""
    fd, path = finder.find_file(sought)
    try:
        dump = JitDump(path)
        steps, problem = dump.history(fd)
    except OSError as error:
        raise IcfError(f"{path}: {error.strerror}") from error
    finally:
        os.close(fd)
    if problem is not None:
        if not steps:
            raise problem
        warn(f"{problem}: nothing more is read of it")
    match = _JITDUMP.fullmatch(os.path.basename(sought.path))
    if steps and match is not None and dump.pid != int(match[1]):
        raise FormatError(path, "jitdump", 20, f"is of process {dump.pid}, not {match[1]}")
    return dump, steps


def _injected(mapped: Mapped, finder: ImageFinder, root: str) -> Mapped:
    """Return the mapping of a function that perf has written to a file, which is read when its name is wanted."""
    if mapped.module is None:
        return mapped
    sought = Sought(mapped.path, b"", mapped.module.file_id, root)

    @cache
    def name() -> str:
        try:
            fd, path = finder.find_file(sought)
            with Image.of(path, FileBytes.of_descriptor(fd, path)) as image:
                functions = image.symbols.functions
                return image.symbols.name(int(functions[0])) if len(functions) == 1 else ""
        except IcfError:
            shown = _INJECTED.sub(r"\1*.so", mapped.path)
            finder.lack(f"{shown}: not there, or not the files that were mapped", mapped.start)
            return ""

    code = MadeFunction(lambda _: JitCode(name(), mapped.start, mapped.end - mapped.start), is_certain=True)
    return mapped._replace(module=None, made=code)
