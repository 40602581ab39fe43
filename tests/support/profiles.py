"""pprof's profiles, written by hand."""

from __future__ import annotations

import glob
import gzip
import os
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.toolchain import find
from unwind.readers.profile_proto import Profile


class ProfileMaker:
    """A profile that grows; texts are put into the table of strings."""

    def __init__(self, *values: tuple[str, str]) -> None:
        self.message = Profile(string_table=[b""])
        for name, unit in values:
            self.message.sample_type.add(type=self.string(name), unit=self.string(unit))

    def string(self, text: str) -> int:
        """Return the number of a string."""
        encoded = text.encode("utf-8", "surrogateescape")
        if encoded not in self.message.string_table:
            self.message.string_table.append(encoded)
        return list(self.message.string_table).index(encoded)

    def mapping(self, path: str, start: int = 0, limit: int = 0, offset: int = 0, build_id: str = "") -> int:
        """Add a mapping and return its id."""
        table = self.message.mapping
        table.add(id=len(table) + 1, memory_start=start, memory_limit=limit, file_offset=offset)
        table[-1].filename, table[-1].build_id = self.string(path), self.string(build_id)
        return len(table)

    def location(self, address: int, mapping_id: int, *lines: tuple[str, str, int], is_folded: bool = False) -> int:
        """Add a location with its lines (name, file, line) and return its id."""
        table = self.message.location
        added = table.add(id=len(table) + 1, mapping_id=mapping_id, address=address, is_folded=is_folded)
        for name, file, line in lines:
            functions = self.message.function
            functions.add(id=len(functions) + 1, name=self.string(name), filename=self.string(file))
            added.line.add(function_id=len(functions), line=line)
        return len(table)

    def sample(self, locations: list[int], values: list[int], **labels: str | int) -> None:
        """Add a sample; labels that are numbers have the unit `bytes`."""
        added = self.message.sample.add(location_id=locations, value=values)
        for key, label in labels.items():
            if isinstance(label, str):
                added.label.add(key=self.string(key), str=self.string(label))
            else:
                added.label.add(key=self.string(key), num=label, num_unit=self.string("bytes"))

    def write(self) -> bytes:
        """Return the file."""
        return gzip.compress(self.message.SerializeToString(), mtime=0)


def check_valid(profile: Profile) -> None:
    """Check what pprof checks before it shows a profile: github.com/google/pprof, profile.CheckValid and postDecode."""
    assert profile.string_table[0] == b""
    string_count = len(profile.string_table)
    assert profile.sample_type or not profile.sample
    locations = {each.id: each for each in profile.location}
    functions = {each.id: each for each in profile.function}
    mappings = {each.id: each for each in profile.mapping}
    assert 0 not in {*locations, *functions, *mappings}
    assert (len(locations), len(functions), len(mappings)) == (
        len(profile.location),
        len(profile.function),
        len(profile.mapping),
    )
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        assert set(sample.location_id) <= set(locations)
        assert all(0 <= idx < string_count for label in sample.label for idx in (label.key, label.str, label.num_unit))
    for location in profile.location:
        assert location.mapping_id == 0 or location.mapping_id in mappings
        assert all(line.function_id in functions for line in location.line)
    for function in profile.function:
        assert max(function.name, function.system_name, function.filename) < string_count
    for mapping in profile.mapping:
        assert max(mapping.filename, mapping.build_id) < string_count


def pprof_command() -> str:
    """Return pprof, the program; skips the test where there is none."""
    found = find("pprof") or next(iter(glob.glob("/usr/lib/go*/pkg/tool/*/pprof")), "")
    found = os.environ.get("ICF_PPROF", found)
    if not found:
        pytest.skip("needs pprof: go install github.com/google/pprof@latest, or Go up to 1.24")
    return found


def speedscope_command() -> list[str]:
    """Return what prints how speedscope reads a profile; skips the test where it is not installed."""
    node = find("node")
    folders = [os.environ.get("ICF_SPEEDSCOPE", ""), str(ROOT / ".cache" / "npm" / "node_modules")]
    found = [path for each in folders if each and (path := Path(each, "speedscope", "dist", "release")).exists()]
    if node is None or not found:
        pytest.skip("needs node, and speedscope, which tools/setup installs with npm")
    return [node, str(Path(__file__).with_name("speedscope.js")), str(found[0])]
