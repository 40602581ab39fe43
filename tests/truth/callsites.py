"""Which direct calls a tool can know of: those with a relocation, or a call site with an origin in DWARF.

Read from the unfolded image, where every call site still has its address, with llvm-dwarfdump. This bounds what is
possible for an image linked without relocations; it plays no part in what is true.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.support.toolchain import find

ATTRIBUTE = re.compile(r"^\s+DW_AT_(call_return_pc|call_origin|low_pc|abstract_origin)\t\((0x[0-9a-f]+)")


def call_sites_with_origin(image: Path) -> frozenset[int]:
    """Return addresses of the call sites in DWARF that name their callee; kept beside the image once found."""
    cache = image.with_suffix(image.suffix + ".callsites.json")
    if cache.exists() and cache.stat().st_mtime >= image.stat().st_mtime:
        return frozenset(json.loads(cache.read_text()))
    dump = find("llvm-dwarfdump")
    if dump is None:
        return frozenset()
    found: set[int] = set()
    attributes: dict[str, int] = {}
    with subprocess.Popen([dump, "--debug-info", str(image)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        in_site = False
        for line in process.stdout:
            if "DW_TAG_" in line:
                in_site = "call_site" in line and "parameter" not in line
                attributes = {}
            elif in_site and (match := ATTRIBUTE.match(line)):
                attributes[match[1]] = int(match[2], 16)
                return_pc = attributes.get("call_return_pc", attributes.get("low_pc"))
                if return_pc and ("call_origin" in attributes or "abstract_origin" in attributes):
                    found.add(return_pc)
    cache.write_text(json.dumps(sorted(found)))
    return frozenset(found)
