"""Objects that exist only while a link runs (LTO): keeps copies of them in a temporary directory.

    lld                --lto-obj-path=FOLDER/lto.o           a copy of each: lto.o, lto.o1, ...
    clang, gold, mold  -plugin-opt=obj-path=FOLDER/lto.o     the same, by LLVM's plugin
    gcc, gold, mold    -BFOLDER/bin                          gcc runs the `lto-wrapper` that is there

gcc's plugin starts `lto-wrapper`, which makes the objects and prints their names, and deletes them when the link is
over. The wrapper put there starts the true one and makes second names for the objects. The linked program is the
same to the byte.

If the user has them left somewhere (`--lto-obj-path`, `obj-path`, `save-temps` of the plugin) they are read there.
Objects from lld's ThinLTO cache are in none of these places (`linkpass.link.thin_cache`). gold names these files
among its inputs; those that were read as inputs are not read again.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from icf.errors import IcfError
from linkpass.link.command import LinkCommand
from linkpass.link.driver import program_of
from linkpass.link.output import Identity
from linkpass.link.thin_cache import CacheWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkpass.objects.functions import LinkObjects

_FIRST = "lto.o"
_WRAPPER = "lto-wrapper"
_LLD_PATH = ("--lto-obj-path", "-lto-obj-path")
_PLUGIN_PATH = re.compile(r"--?plugin-opt=obj-path=(.+)")
_LLD_CACHE = ("--thinlto-cache-dir", "-thinlto-cache-dir")
_SCRIPT = """#!/bin/sh
made=$({wrapper} "$@") || exit
[ -n "$made" ] || exit 0
number=0
printf '%s\\n' "$made" | while IFS= read -r object; do
    ln "$object" {first}$number || cp "$object" {first}$number
    number=$((number + 1))
done >/dev/null 2>&1
printf '%s\\n' "$made"
"""


def keeps_objects(command: LinkCommand) -> bool:
    """Return whether the link itself leaves its objects somewhere, which a further option would change."""
    saves = command.linker.takes_lto_plugin and any(option.endswith("save-temps") for option in command.options)
    return saves or any("obj-path" in option for option in command.options)


def with_kept_objects(command: LinkCommand, added: list[str], folder: str) -> list[str]:
    """Return the command with these linker options, and with those that make it leave its LTO objects in `folder`."""
    first = os.path.join(folder, _FIRST)
    if not command.linker.takes_lto_plugin:
        return command.with_options([*added, f"--lto-obj-path={first}"])
    words = command.with_options(added)
    if command.direct:
        return words
    if command.is_clang:
        return [*words, f"-Wl,-plugin-opt=obj-path={first}"]
    wrapper = program_of(command, _WRAPPER)
    if not wrapper:
        return words
    tools = os.path.join(folder, "bin")
    os.mkdir(tools)
    with open(os.path.join(tools, _WRAPPER), "w", encoding="utf-8", errors="surrogateescape") as script:
        script.write(_SCRIPT.format(wrapper=shlex.quote(wrapper), first=shlex.quote(first)))
        os.fchmod(script.fileno(), 0o700)
    return [*words, f"-B{tools}"]


class LtoObjects:
    """The objects that a link makes, and where it leaves them; made before the link starts.

    `folder` is the temporary directory, "" if the link leaves them elsewhere; `output` is the linker's output.
    """

    def __init__(self, command: LinkCommand, folder: str, output: str) -> None:
        if folder:
            self._firsts = [os.path.join(folder, _FIRST)]
        elif not command.linker.takes_lto_plugin:
            self._firsts = [command.value_of(*_LLD_PATH)]
        else:
            self._firsts = [f"{output}.{_FIRST}"]  # save-temps
            self._firsts += [found[1] for option in command.options if (found := _PLUGIN_PATH.fullmatch(option))]
        self._before = set(self._files())
        cache = "" if command.linker.takes_lto_plugin else command.value_of(*_LLD_CACHE)
        self._cache = CacheWatch(cache) if cache else None

    def add_to(self, objects: LinkObjects) -> None:
        """Add the objects that the link has made, after it."""
        from icf.linkinputs.inputs import open_inputs

        paths = [path for path, identity in self._files() if (path, identity) not in self._before]
        entries = self._cache.entries() if self._cache is not None else []
        if entries is None:
            raise IcfError("the system does not say what was used of the ThinLTO cache", hint="link without the cache")
        read_already = list(objects.objects)
        for made in open_inputs(paths + entries, missing_ok=True):  # lld may have pruned its cache
            if not any(len(made.data) == len(other.data) and made.data == other.data for other in read_already):
                objects.add(made)

    def _files(self) -> Iterator[tuple[str, Identity | None]]:
        """Yield the files that may be such objects."""
        for first in self._firsts:
            yield from _numbered(first)


def _numbered(first: str) -> Iterator[tuple[str, Identity | None]]:
    """Yield the files FIRST, FIRST1, FIRST2 and so on."""
    folder, name = os.path.split(first)
    if not name or not os.path.isdir(folder or os.curdir):
        return
    found = [each for each in os.listdir(folder or os.curdir) if re.fullmatch(re.escape(name) + "[0-9]*", each)]
    for each in sorted(found, key=lambda each: (len(each), each)):
        path = os.path.join(folder, each)
        yield path, Identity.of(path)
