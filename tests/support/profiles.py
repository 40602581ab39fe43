"""pprof's profiles, written by hand."""

from __future__ import annotations

import gzip

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
