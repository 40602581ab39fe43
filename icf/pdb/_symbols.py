# cython: language_level=3, boundscheck=True, wraparound=False
"""Walks symbol records of a PDB: procedures with their inlined calls, and public symbols.

    record   u16 length (of what follows), u16 kind, contents

Sources: LLVM, `SymbolRecord.h`; microsoft-pdb, `cvinfo.h`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.pdb import columns as col
else:
    from icf._bytes import word
    from icf._types import Bytes, u64
    from icf.pdb import columns as col


@cython.ccall
def scan_procedures(
    stream: Bytes,
    begin: cython.size_t,
    end: cython.size_t,
    procedures: u64[:, ::1],
    sites: u64[:, ::1],
    used: u64[::1],
) -> cython.int:
    """Find the procedures of a module, and their inlined calls.

    stream      the module's stream; records from `begin` to `end`, which are inside of it
    procedures  u64[n, PROCEDURE_WIDTH]; one row for 41 bytes of records is enough
    sites       u64[m, SITE_WIDTH]; one for 16 bytes is enough
    used        u64[USED_WIDTH]: FIRST_COUNT procedures, SECOND_COUNT sites
    """
    at: cython.size_t = begin
    after: cython.size_t
    kind: u64
    name: cython.size_t
    found: cython.size_t = 0
    site_count: cython.size_t = 0
    open_site: cython.size_t = 0  # its row and 1
    is_inside: cython.bint = False
    used[col.ERROR] = 0
    with cython.nogil:
        while at < end:
            if end - at < 4 or word(stream, at, 2) < 2 or word(stream, at, 2) > end - at - 2:
                used[col.ERROR] = col.ERR_LENGTH
                break
            after = at + 2 + word(stream, at, 2)
            kind = word(stream, at + 2, 2)
            if (
                kind == 0x1110 or kind == 0x110F or kind == 0x1147 or kind == 0x1146
                or kind == 0x1155 or kind == 0x1156 or kind == 0x1102
            ):  # fmt: skip
                name = at + (25 if kind == 0x1102 else 39)
                if after < name:
                    used[col.ERROR] = col.ERR_SHORT
                    break
                procedures[found, col.P_RECORD] = at
                if kind == 0x1102:  # S_THUNK32: parent, end, next, offset, segment, length, ordinal, name
                    procedures[found, col.P_ADDRESS] = word(stream, at + 16, 4)
                    procedures[found, col.P_SEGMENT] = word(stream, at + 20, 2)
                    procedures[found, col.P_SIZE] = word(stream, at + 22, 2)
                    procedures[found, col.P_TYPE] = 0
                    procedures[found, col.P_KIND] = col.THUNK
                else:  # parent, end, next, size, debug start, debug end, type, offset, segment, flags, name
                    procedures[found, col.P_SIZE] = word(stream, at + 16, 4)
                    procedures[found, col.P_TYPE] = word(stream, at + 28, 4)
                    procedures[found, col.P_ADDRESS] = word(stream, at + 32, 4)
                    procedures[found, col.P_SEGMENT] = word(stream, at + 36, 2)
                    procedures[found, col.P_KIND] = col.GLOBAL if kind == 0x1110 or kind == 0x1147 else col.LOCAL
                procedures[found, col.P_NAME] = name
                while name < after and stream[name] != 0:
                    name += 1
                procedures[found, col.P_NAME_BYTES] = name - procedures[found, col.P_NAME]
                procedures[found, col.P_FIRST_SITE] = site_count
                procedures[found, col.P_LAST_SITE] = site_count
                open_site = 0
                is_inside = True
                found += 1
            elif kind == 0x114D or kind == 0x115D:  # S_INLINESITE: parent, end, inlinee; S_INLINESITE2: a count, too
                name = at + (16 if kind == 0x114D else 20)
                if not is_inside:
                    used[col.ERROR] = col.ERR_SITE
                    break
                if after < name:
                    used[col.ERROR] = col.ERR_SHORT
                    break
                sites[site_count, col.S_PROCEDURE] = found - 1
                sites[site_count, col.S_UP] = 0 if open_site == 0 else site_count + 1 - open_site
                sites[site_count, col.S_INLINEE] = word(stream, at + 12, 4)
                sites[site_count, col.S_START] = name
                sites[site_count, col.S_END] = after
                site_count += 1
                open_site = site_count
                procedures[found - 1, col.P_LAST_SITE] = site_count
            elif kind == 0x114E:  # S_INLINESITE_END
                if open_site == 0:
                    used[col.ERROR] = col.ERR_SITE
                    break
                open_site = 0 if sites[open_site - 1, col.S_UP] == 0 else open_site - sites[open_site - 1, col.S_UP]
            at = after
    used[col.FIRST_COUNT] = found
    used[col.SECOND_COUNT] = site_count
    used[col.ERROR_AT] = at
    return 0


@cython.ccall
def scan_publics(stream: Bytes, publics: u64[:, ::1], used: u64[::1]) -> cython.int:
    """Find the public symbols in the stream of symbol records.

    publics  u64[n, PUBLIC_WIDTH]; one row for 14 bytes of the stream is enough
    used     u64[USED_WIDTH]: FIRST_COUNT symbols
    """
    at: cython.size_t = 0
    end: cython.size_t = stream.shape[0]
    after: cython.size_t
    name: cython.size_t
    found: cython.size_t = 0
    used[col.ERROR] = 0
    with cython.nogil:
        while at < end:
            if end - at < 4 or word(stream, at, 2) < 2 or word(stream, at, 2) > end - at - 2:
                used[col.ERROR] = col.ERR_LENGTH
                break
            after = at + 2 + word(stream, at, 2)
            if word(stream, at + 2, 2) == 0x110E:  # S_PUB32: flags, offset, segment, name
                name = at + 14
                if after < name:
                    used[col.ERROR] = col.ERR_SHORT
                    break
                publics[found, col.U_RECORD] = at
                publics[found, col.U_FLAGS] = word(stream, at + 4, 4)
                publics[found, col.U_ADDRESS] = word(stream, at + 8, 4)
                publics[found, col.U_SEGMENT] = word(stream, at + 12, 2)
                publics[found, col.U_NAME] = name
                while name < after and stream[name] != 0:
                    name += 1
                publics[found, col.U_NAME_BYTES] = name - publics[found, col.U_NAME]
                found += 1
            at = after
    used[col.FIRST_COUNT] = found
    used[col.ERROR_AT] = at
    return 0
