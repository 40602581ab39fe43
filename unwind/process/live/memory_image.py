"""An ELF image read back from the memory of a process: the vdso, or one whose file is no longer available.

The loader keeps the ELF header, the program headers and the segments. The vdso is in memory as a whole; of other
images the section headers are missing, and `.symtab` with them. Then this module makes headers from the dynamic
section, for `.dynsym` and its names, and for each segment. Data is as the program has left it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as ShortError
from struct import iter_unpack, pack_into, unpack_from

from icf.elf.headers import Headers, parse_headers
from icf.elf.types import (
    DT_NULL,
    PF_X,
    PT_DYNAMIC,
    PT_LOAD,
    SHDR,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHN_ABS_16,
    SHN_LORESERVE_16,
    SHT_DYNSYM,
    SHT_NULL,
    SHT_PROGBITS,
    SHT_STRTAB,
    SYM_SIZE_BYTES,
    Segment,
)
from icf.errors import FormatError, IcfError

Read = Callable[[int, int], bytes]  # address and size; returns as many bytes as can be read
_HEAD_BYTES = 4096
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_SHOFF_AT, _SHENTSIZE_AT = 40, 58  # in the ELF header
_NAMES = b"\0.text\0.data\0.dynsym\0.dynstr\0.shstrtab\0"


def read_image(read: Read, start: int, first_bytes: int, limit_bytes: int, name: str) -> bytes:
    """Return a file like that which was mapped at `start`, its beginning there in one piece of `first_bytes`.

    At most `limit_bytes` are read, which is how much of it is mapped. Raise FormatError if no image is there.
    """
    head = bytearray(read(start, min(_HEAD_BYTES, first_bytes)))
    try:
        pack_into("<Q", head, _SHOFF_AT, 0)
        segments = [s for s in parse_headers(memoryview(head), name).segments if s.filesz]
        content, bias = _loaded(read, start, first_bytes, limit_bytes, segments)
    except (ShortError, ValueError) as error:
        raise FormatError(name, "memory", 0, f"at {start:#x} no image is as its headers say") from error
    try:
        whole = parse_headers(memoryview(content), name)
    except IcfError:
        whole = None
    if whole is None or not _has_symbols(whole, len(content)):
        _add_sections(content, segments, bias)
    return bytes(content)


def _loaded(
    read: Read, start: int, first_bytes: int, limit_bytes: int, segments: list[Segment]
) -> tuple[bytearray, int]:
    """Return the bytes of the file as far as they are loaded, and the load bias."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    first = min(loads, key=lambda segment: segment.offset)
    bias = start - (first.vaddr - first.offset)
    size_bytes = max(segment.offset + segment.filesz for segment in loads)
    if size_bytes > limit_bytes or any(segment.vaddr + bias < 0 for segment in loads):
        raise ValueError
    content = bytearray(read(start, first_bytes))
    content += bytes(max(size_bytes - len(content), 0))
    for segment in loads:
        piece = read(segment.vaddr + bias, segment.filesz)
        content[segment.offset : segment.offset + len(piece)] = piece
    return content, bias


def _has_symbols(headers: Headers, size_bytes: int) -> bool:
    return any(s.type == SHT_DYNSYM and s.name == ".dynsym" and s.end <= size_bytes for s in headers.sections)


def _add_sections(content: bytearray, segments: list[Segment], bias: int) -> None:
    """Append section headers for the segments and the dynamic symbols."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    try:
        symbols, strings_at, strings_bytes = _dynamic_symbols(content, segments, bias)
    except (ShortError, ValueError, StopIteration):
        symbols, strings_at, strings_bytes = bytearray(), 0, 0  # the code is there nevertheless
    for at in range(0, len(symbols), SYM_SIZE_BYTES):
        section_idx, value = unpack_from("<HQ", symbols, at + 6)
        if 0 < section_idx < SHN_LORESERVE_16:  # an index of what is no longer there
            inside = [n for n, s in enumerate(loads, 1) if s.vaddr <= value <= s.vaddr + s.memsz]
            pack_into("<H", symbols, at + 6, inside[-1] if inside else SHN_ABS_16)  # the last: `_end` lies after one
    content += bytes(-len(content) % 8)
    symbols_at = len(content)
    content += symbols
    names_at = len(content)
    content += _NAMES + bytes(-len(_NAMES) % 8)
    headers = [SHDR.pack(0, SHT_NULL, *[0] * 8)]
    for segment in loads:
        name, flags = (1, SHF_ALLOC | SHF_EXECINSTR) if segment.flags & PF_X else (7, SHF_ALLOC)
        place = segment.vaddr, segment.offset, segment.filesz
        headers.append(SHDR.pack(name, SHT_PROGBITS, flags, *place, 0, 0, 1, 0))
    strings_idx = len(headers) + 1
    headers.append(
        SHDR.pack(13, SHT_DYNSYM, 0, 0, symbols_at, len(symbols), strings_idx, 1, 8, SYM_SIZE_BYTES),
    )
    headers.append(SHDR.pack(21, SHT_STRTAB, 0, 0, strings_at, strings_bytes, 0, 0, 1, 0))
    headers.append(SHDR.pack(29, SHT_STRTAB, 0, 0, names_at, len(_NAMES), 0, 0, 1, 0))
    pack_into("<Q", content, _SHOFF_AT, len(content))
    pack_into("<3H", content, _SHENTSIZE_AT, SHDR.size, len(headers), len(headers) - 1)
    content += b"".join(headers)


def _dynamic_symbols(content: bytearray, segments: list[Segment], bias: int) -> tuple[bytearray, int, int]:
    """Return `.dynsym`, where `.dynstr` is in the file, and its size in bytes."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]

    def offset_of(address: int) -> int:
        """Return the offset in the file; the loader has relocated addresses of most images, not of the vdso."""
        for vaddr in (address - bias, address):
            for segment in loads:
                if segment.vaddr <= vaddr < segment.vaddr + segment.filesz:
                    return vaddr - segment.vaddr + segment.offset
        raise ValueError

    dynamic = next(segment for segment in segments if segment.type == PT_DYNAMIC)
    entries = content[dynamic.offset : dynamic.offset + dynamic.filesz // 16 * 16]
    tags: dict[int, int] = {}
    for tag, value in iter_unpack("<QQ", entries):
        if tag == DT_NULL:
            break
        tags[tag] = value
    if _DT_HASH in tags:
        count = unpack_from("<I", content, offset_of(tags[_DT_HASH]) + 4)[0]
    else:
        count = _hashed_symbols(content, offset_of(tags.get(_DT_GNU_HASH, 0)))
    symbols_at, strings_at = offset_of(tags.get(_DT_SYMTAB, 0)), offset_of(tags.get(_DT_STRTAB, 0))
    symbols = content[symbols_at : symbols_at + count * SYM_SIZE_BYTES]
    del symbols[len(symbols) // SYM_SIZE_BYTES * SYM_SIZE_BYTES :]
    return symbols, strings_at, min(tags.get(_DT_STRSZ, 0), len(content) - strings_at)


def _hashed_symbols(content: bytearray, at: int) -> int:
    """Return how many symbols there are, by the GNU hash table: its chains end with the last one."""
    bucket_count, first_hashed, bloom_words, _ = unpack_from("<4I", content, at)
    buckets_at = at + 16 + bloom_words * 8
    chains_at = buckets_at + bucket_count * 4
    if chains_at > len(content):
        raise ValueError
    last = max(unpack_from(f"<{bucket_count}I", content, buckets_at), default=0)
    if last < first_hashed:
        return int(first_hashed)
    while not unpack_from("<I", content, chains_at + (last - first_hashed) * 4)[0] & 1:
        last += 1
    return int(last) + 1
