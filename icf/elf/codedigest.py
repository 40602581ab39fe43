"""The digest of the code of an image, which shows that tables are about this code.

It is the SHA-256, cut to 16 bytes, of the following for each executable section that is loaded, by address:

    address         u64, little endian
    size            u64
    contents        as in the file

Names, indices and offsets of sections are left out, and so is all that is not code: `strip`, `objcopy
--only-keep-debug`, `gdb-add-index`, `patchelf` and tools that compress debug information do not change the digest. A
tool that moves or edits code does (BOLT), though it may keep the build id. 50 MB of code take 0.03 s where the
processor has instructions for SHA-256.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS

if TYPE_CHECKING:
    from icf.elf.file import ElfFile

DIGEST_BYTES = 16
_PLACE = Struct("<2Q")
_PIECE_BYTES = 1 << 20


def find_code_digest(image: ElfFile) -> bytes:
    """Return the digest; empty where the file has no section with code, as a separate debug file."""
    is_code = SHF_ALLOC | SHF_EXECINSTR
    code = [each for each in image.sections if each.flags & is_code == is_code and each.type != SHT_NOBITS]
    if not code or image.is_debug_file:
        return b""
    from hashlib import sha256  # brings OpenSSL, of which readers of tables need nothing

    state = sha256()
    for section in sorted(code, key=lambda each: (each.vaddr, each.size_bytes)):
        state.update(_PLACE.pack(section.vaddr, section.size_bytes))
        for _, piece in image.unkept(section).pieces(_PIECE_BYTES):
            state.update(piece)
    return state.digest()[:DIGEST_BYTES]
