"""The images of the process that gdb looks at: where each lies, its build id in memory, whether it has tables.

`info files` lists the sections of all of them, at run-time addresses:

    Local exec file:
            `/usr/bin/shop', file type elf64-x86-64.
            0x00005555555559e0 - 0x0000555555555c64 is .text
            0x00007ffff7c9d1d0 - 0x00007ffff7d995be is .text in /lib/x86_64-linux-gnu/libstdc++.so.6

The build id is read from memory: in a core, and of a process whose file was replaced, it is that of what has run.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import gdb

from unwind.debugger.inside.sections import BUILD_ID, NOTE_LIMIT, build_id_of, has_tables, read_sections
from unwind.debugger.inside.stack import Module

_SECTION = re.compile(r"\s*0x([0-9a-f]+) - 0x([0-9a-f]+) is (\S+)(?: in (.+))?")
_FILE = re.compile(r"\s*`(.+)', file type ")


class Modules:
    """The images, read again when gdb has loaded or dropped one."""

    def __init__(self) -> None:
        self._listed: Optional[Tuple[Any, Tuple[Module, ...]]] = None
        for event in ("new_objfile", "free_objfile", "clear_objfiles", "exited", "inferior_deleted"):
            if hasattr(gdb.events, event):
                getattr(gdb.events, event).connect(self._forget)

    def listed(self) -> Tuple[Module, ...]:
        """Return the images of the current process."""
        space = gdb.current_progspace()
        if self._listed is None or self._listed[0] is not space:
            self._listed = space, tuple(_read())
        return self._listed[1]

    def _forget(self, _: object) -> None:
        self._listed = None


def _read() -> List[Module]:
    debug_files: Dict[str, List[str]] = {}
    for objfile in gdb.objfiles():
        if objfile.owner is not None:
            debug_files.setdefault(objfile.owner.filename or "", []).append(objfile.filename or "")
    found = []
    for path, sections in _loaded(gdb.execute("info files", to_string=True)):
        linked = read_sections(path)
        moved = [start - linked[name] for name, (start, _) in sections.items() if linked.get(name)]
        if moved:
            with_tables = any(has_tables(each) for each in (path, *debug_files.get(path, ())))
            found.append(Module(path, _build_id(sections.get(BUILD_ID)), moved[0], with_tables))
    return found


def _loaded(text: str) -> List[Tuple[str, Dict[str, Tuple[int, int]]]]:
    """Return each image with its sections, start and end of each."""
    found: List[Tuple[str, Dict[str, Tuple[int, int]]]] = []
    main = ""
    for line in text.splitlines():
        file = _FILE.match(line)
        if file:
            main = file[1]
            continue
        section = _SECTION.fullmatch(line)
        if section is None:
            continue
        path, name = section[4] or main, section[3]
        if not found or found[-1][0] != path or name in found[-1][1]:  # else it is loaded twice
            found.append((path, {}))
        found[-1][1][name] = int(section[1], 16), int(section[2], 16)
    return found


def _build_id(place: Optional[Tuple[int, int]]) -> str:
    """Return the build id in a note in memory, in hexadecimal; "" if there is none."""
    if place is None or place[1] - place[0] > NOTE_LIMIT:
        return ""
    try:
        return build_id_of(bytes(gdb.selected_inferior().read_memory(place[0], place[1] - place[0])))
    except gdb.error:
        return ""
