"""Objects that are there only while a link runs (LTO): how they come to lie in a folder of ours.

    lld                --lto-obj-path=FOLDER/lto.o           a copy of each: lto.o, lto.o1, ...
    clang, gold, mold  -plugin-opt=obj-path=FOLDER/lto.o     the same, by LLVM's plugin
    gcc, gold, mold    -BFOLDER/bin                          gcc runs the `lto-wrapper` that is there

gcc's plugin starts `lto-wrapper`, which makes the objects and prints their names, and deletes them when the link is
over. Ours starts the true one and gives the objects second names. The program that is linked is the same to the byte.
"""

from __future__ import annotations

import os
import shlex
import subprocess

from linkpass.link.command import LinkCommand

_FIRST = "lto.o"
_WRAPPER = "lto-wrapper"
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
    """Whether the link leaves its objects somewhere by itself, where an option of ours would change that."""
    saves = command.linker != "lld" and any(option.endswith("save-temps") for option in command.options)
    return saves or any("obj-path" in option for option in command.options)


def with_kept_objects(command: LinkCommand, added: list[str], folder: str) -> list[str]:
    """The command with these linker options, and with what makes it leave the objects that it makes in `folder`."""
    first = os.path.join(folder, _FIRST)
    if command.linker == "lld":
        return command.with_options([*added, f"--lto-obj-path={first}"])
    words = command.with_options(added)
    if command.direct:
        return words
    if command.is_clang:
        return [*words, f"-Wl,-plugin-opt=obj-path={first}"]
    wrapper = _true_wrapper(command)
    if not wrapper:
        return words
    tools = os.path.join(folder, "bin")
    os.mkdir(tools)
    with open(os.path.join(tools, _WRAPPER), "w", encoding="utf-8", errors="surrogateescape") as script:
        script.write(_SCRIPT.format(wrapper=shlex.quote(wrapper), first=shlex.quote(first)))
        os.fchmod(script.fileno(), 0o700)
    return [*words, f"-B{tools}"]


def kept_objects(folder: str) -> list[str]:
    """The objects that a link has left, in the order in which they were made."""
    names = [name for name in os.listdir(folder) if name.startswith(_FIRST)]
    return [os.path.join(folder, name) for name in sorted(names, key=lambda name: (len(name), name))]


def _true_wrapper(command: LinkCommand) -> str:
    """The `lto-wrapper` that the command would run; "" if there is none."""
    try:
        asked = [*command.command, f"-print-prog-name={_WRAPPER}"]
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    wrapper = os.fsdecode(said).strip()
    return wrapper if os.path.isabs(wrapper) and os.access(wrapper, os.X_OK) else ""
