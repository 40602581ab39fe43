"""Identity from notes: the build id, and the linker that made the image.

lld and mold sign in `.comment`, gold leaves a note of its own. GNU ld leaves no sign, so an image
with the compilers' `.comment` and no other sign is its work. Distributions strip `.comment`: then the order of sections
decides. GNU ld places constants after the code, lld and mold before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from icf.elf.types import NT_GNU_BUILD_ID, PT_NOTE, SHT_NOTE
from icf.linkers import BFD, GOLD, LLD, MOLD, UNKNOWN, Linker
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.elf.file import ElfFile

_COMMENT_LIMIT_BYTES = 1 << 20


def find_build_id(image: ElfFile) -> bytes:
    """Return the GNU build id, from the note sections or, without those, the note segments."""
    for place, notes, align in _note_areas(image):
        build_id = build_id_of_notes(Reader(notes, image.path, place), align)
        if build_id:
            return build_id
    return b""


def build_id_of_notes(reader: Reader, align: int = 4) -> bytes:
    """Return the GNU build id among the notes of a section, a segment or /sys/kernel/notes; empty if there is none."""
    while reader.remaining >= 12:
        name_size_bytes, desc_size_bytes, kind = reader.u32(), reader.u32(), reader.u32()
        name = bytes(reader.take(name_size_bytes))
        reader.pos = -(-reader.pos // align) * align
        desc = bytes(reader.take(desc_size_bytes))
        reader.pos = -(-reader.pos // align) * align
        if kind == NT_GNU_BUILD_ID and name == b"GNU\0":
            return desc
    return b""


def build_id_note(build_id: bytes) -> bytes:
    """Return the note that has a build id: sizes of name and id, NT_GNU_BUILD_ID, the name `GNU`, the id."""
    head = b"".join(number.to_bytes(4, "little") for number in (4, len(build_id), NT_GNU_BUILD_ID))
    return head + b"GNU\0" + build_id + bytes(-len(build_id) % 4)


def _note_areas(image: ElfFile) -> Iterator[tuple[str, memoryview, int]]:
    own = image.section(".note.gnu.build-id")
    sections = [s for s in image.sections if s.type == SHT_NOTE and s is not own]
    if own is not None:
        sections.insert(0, own)
    for section in sections:
        yield section.name, image.contents(section), 8 if section.align == 8 else 4
    if not sections and not image.is_debug_file:
        for segment in image.segments:
            if segment.type == PT_NOTE:
                notes = image.data[segment.offset : segment.offset + segment.filesz]
                yield "PT_NOTE", notes, 8 if segment.align == 8 else 4


def find_linker(image: ElfFile) -> Linker:
    """Return the linker that made the image, by what it leaves there."""
    if image.section(".note.gnu.gold-version") is not None:
        return GOLD
    comment = bytes(image.contents(".comment")[:_COMMENT_LIMIT_BYTES])
    for line in comment.split(b"\0"):
        if line.startswith(b"Linker: ") and b"LLD " in line:  # "Linker: Debian LLD 19.1.7"
            return LLD
        if line.startswith(b"mold "):
            return MOLD
    code, constants = image.section(".text"), image.section(".rodata")
    is_behind = code is not None and constants is not None and constants.vaddr > code.vaddr
    return BFD if comment or is_behind else UNKNOWN
