"""Which originals share a body after folding, from the two links alone.

    --icf=none image   every function at its own address: an *original*
    --icf=all image    bodies; several originals at one address

The symbol tables of both say most of it: same key, so same function. But gold drops the folded local symbols and mold
the folded COMDAT ones; for those the linker's own report (`--print-icf-sections`) names the sections, and the objects
say which function each section holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.truth.symbols import FunctionTable, base_name, read_functions

GOLD_FOLD = re.compile(r"ICF folding section '(.+?)' in file '(.+?)' into '(.+?)' in file '(.+?)'$")
SELECTED = re.compile(r"^selected section (.+):\((.+)\)$")
REMOVED = re.compile(r"^\s+removing identical section (.+):\((.+)\)$")
Place = tuple[str, str]  # object file, section


def read_folds(report: str) -> Iterator[tuple[Place, Place]]:
    """(kept, removed) pairs from a report of gold, lld or mold."""
    kept: Place | None = None
    for line in report.splitlines():
        if match := GOLD_FOLD.search(line):
            section, file, kept_section, kept_file = match.groups()
            yield (kept_file, kept_section), (file, section)
        elif match := SELECTED.match(line):
            kept = (match[1], match[2])
        elif (match := REMOVED.match(line)) and kept:
            yield kept, (match[1], match[2])


@dataclass
class Folding:
    """Both images and the map between their functions."""

    originals: FunctionTable
    bodies: FunctionTable
    bodies_of: dict[int, set[int]]  # original's start -> body starts; more than one only for names used twice
    members: dict[int, set[int]]  # body start -> originals' starts

    def groups(self) -> list[tuple[int, list[int]]]:
        """Merged bodies and their originals, where the map leaves no doubt: what entries are sampled at."""
        found = []
        for body, originals in sorted(self.members.items()):
            certain = [start for start in sorted(originals) if len(self.bodies_of[start]) == 1]
            if len(originals) > 1 and len(certain) == len(originals):
                found.append((body, certain))
        return found


def _body_starts(bodies: FunctionTable, report: str, folder: Path) -> dict[str, set[int]]:
    """Key -> addresses in the folded image, with the functions whose symbol the linker dropped."""
    starts: dict[str, set[int]] = defaultdict(set)
    by_name: dict[str, set[int]] = defaultdict(set)
    for key, addresses in bodies.starts_of.items():
        starts[key] |= addresses
        by_name[base_name(key)] |= addresses
    objects: dict[str, dict[str, list[tuple[str, int]]]] = {}

    def functions_in(place: Place) -> list[tuple[str, int]]:
        file, section = place
        if file not in objects:
            by_section: dict[str, list[tuple[str, int]]] = defaultdict(list)
            path = folder / file
            if path.suffix == ".o" and path.exists():
                table = read_functions(path)
                for function in table.functions:
                    if function.section_idx < len(table.section_names):
                        name = table.section_names[function.section_idx]
                        by_section[name].append((function.key, function.start))
            objects[file] = by_section
        return objects[file].get(section, [])

    for kept, removed in read_folds(report):
        section_starts = {
            address - offset
            for key, offset in functions_in(kept)
            for address in bodies.starts_of.get(key, ()) or by_name.get(key, ())  # mold makes weak symbols local
        }
        if len(section_starts) == 1:
            section_start = section_starts.pop()
            for key, offset in functions_in(removed):
                if not starts.get(key):
                    starts[key].add(section_start + offset)
    return starts


def match_images(original_path: Path, folded_path: Path, report: str, folder: Path = Path()) -> Folding:
    """Compare two links of the same objects; paths in the report are relative to `folder`, where the link ran."""
    originals, bodies = read_functions(original_path), read_functions(folded_path)
    starts = _body_starts(bodies, report, folder)
    by_name: dict[str, set[int]] = defaultdict(set)  # a global symbol may become local, of no certain file
    for key, addresses in starts.items():
        by_name[base_name(key)] |= addresses
    bodies_of: dict[int, set[int]] = {}
    members: dict[int, set[int]] = defaultdict(set)
    for start, keys in originals.keys_at.items():
        found = {address for key in keys for address in starts.get(key, ())}
        found = found or {address for key in keys for address in by_name.get(base_name(key), ())}
        size_bytes = originals.size_at[start]
        found = {address for address in found if bodies.size_at.get(address, size_bytes) == size_bytes}
        bodies_of[start] = found
        for address in found:
            members[address].add(start)
    return Folding(originals, bodies, bodies_of, dict(members))
