# cython: language_level=3, boundscheck=True, wraparound=False
"""Splits linkage names of methods into class and method; `icf.vtables.methods` says how.

    _ZN2ns3Foo3getEv      class N2ns3Foo       method 3getE
    _ZZ4mainENK3Foo3getEv class Z4mainEN3Foo   without qualifiers of the method; classes within functions have an EN

A class is kept as the hash of this text. One name can be split in several ways. Each is a row, and only one has the
hash of a class that there is.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK
    from cython.cimports.icf._types import Bytes, u64
else:
    from icf._bytes import MASK
    from icf._types import Bytes, u64


@cython.ccall
def split_methods(
    text: Bytes,
    edges: cython.const[u64][:, ::1],
    first: cython.size_t,
    rows: u64[:, ::1],
    flags: cython.uchar[::1],
    forks: u64[::1],
) -> tuple[cython.size_t, cython.size_t]:
    """Split names from `first` on, as many as fit; return the name to go on with, and how many rows are filled.

    edges    where each name begins, and where it ends
    rows     u64[n, 3]: index of the name; hash of the class; bytes of the thunk's adjustment << 2 | destructor
             (0: none, 1: D0, 2: another). A name needs up to 9 for each of its bytes
    flags    of each name: 1 if its class is one of the C++ library, 2 if it has too many ways to be split
    forks    u64[16]
    """
    count: cython.size_t = edges.shape[1]
    limit: cython.size_t = rows.shape[0]
    name: cython.size_t = first
    found: cython.size_t = 0
    fork: cython.size_t
    fork_count: cython.size_t
    start: cython.size_t
    end: cython.size_t
    at: cython.size_t
    begin: cython.size_t
    thunk: cython.size_t
    kind: u64
    value: u64
    forks_max: cython.size_t = 8  # qualifiers in one name that may be those of the method
    is_local: cython.bint
    is_scoped: cython.bint
    with cython.nogil:
        while name < count:
            start = edges[0, name]
            end = edges[1, name]
            if (end - start) * (forks_max + 1) > limit - found:
                break
            at = start + 2
            if end < at + 2 or text[start] != ord("_") or text[start + 1] != ord("Z"):
                name += 1
                continue
            if text[at] == ord("T"):
                at = after_adjustment(text, at + 1, end)
            thunk = at - start - 2
            if at >= end or (text[at] != ord("N") and text[at] != ord("Z")):
                name += 1
                continue
            is_local = text[at] == ord("Z")
            is_scoped = not is_local
            value = hashed(0xCBF29CE484222325, text[at])
            at += 1
            if not is_local:
                at = after_qualifiers(text, at, end)
                if is_standard(text, at, end):
                    flags[name] |= 1
            begin = at
            fork_count = 0
            while at < end:
                kind = method_at(text, at, end) if is_scoped and at > begin else 0
                if kind:
                    kind = thunk << 2 | kind - 1
                    rows[found, 0] = name
                    rows[found, 1] = value
                    rows[found, 2] = kind
                    found += 1
                    fork = 0
                    while fork < fork_count:
                        if at > forks[2 * fork + 1]:
                            rows[found, 0] = name
                            rows[found, 1] = forks[2 * fork]
                            rows[found, 2] = kind
                            found += 1
                        fork += 1
                value = hashed(value, text[at])
                fork = 0
                while fork < fork_count:
                    if at >= forks[2 * fork + 1]:
                        forks[2 * fork] = hashed(forks[2 * fork], text[at])
                    fork += 1
                at += 1
                if is_local and at > begin + 1 and text[at - 1] == ord("N") and text[at - 2] == ord("E"):
                    is_scoped = True
                    if after_qualifiers(text, at, end) > at:
                        if fork_count == forks_max:
                            flags[name] |= 2
                            break
                        forks[2 * fork_count] = value
                        forks[2 * fork_count + 1] = after_qualifiers(text, at, end)
                        fork_count += 1
            name += 1
    return name, found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hashed(value: u64, byte: cython.uchar) -> u64:
    """Return the FNV-1a with one more byte (see `icf.strings`)."""
    prime: u64 = 0x100000001B3
    return ((value ^ byte) * prime) & MASK


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_digit(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.bint:
    return at < end and ord("0") <= text[at] <= ord("9")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_number(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after a number and its underscore; `end` if there is none."""
    if at < end and text[at] == ord("n"):
        at += 1
    if not is_digit(text, at, end):
        return end
    while is_digit(text, at, end):
        at += 1
    return at + 1 if at < end and text[at] == ord("_") else end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_offset(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after the offset of a thunk, such as hn16_ or v0_n24_; `end` if there is none."""
    if at < end and text[at] == ord("h"):
        return after_number(text, at + 1, end)
    if at < end and text[at] == ord("v"):
        return after_number(text, after_number(text, at + 1, end), end)
    return end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_adjustment(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after what follows the T of a thunk; `end` if it is another name."""
    if at < end and text[at] == ord("c"):
        return after_offset(text, after_offset(text, at + 1, end), end)
    return after_offset(text, at, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_qualifiers(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after the qualifiers of a method: const, volatile, restrict, & or &&."""
    while at < end and text[at] in b"rVK":
        at += 1
    return at + 1 if at < end and text[at] in b"RO" else at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_standard(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.bint:
    """Return whether a scope is one of the C++ library: S..., 9__gnu_cxx, 10__cxxabiv1."""
    length: cython.size_t = end - at
    i: cython.size_t = 0
    if length and text[at] == ord("S"):
        return True
    if length >= 10 and text[at] == ord("9"):
        while i < 10 and text[at + i] == b"9__gnu_cxx"[i]:
            i += 1
        return i == 10
    while i < 12 and i < length and text[at + i] == b"10__cxxabiv1"[i]:
        i += 1
    return i == 12


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_source_name(text: Bytes, at: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after a name with its length before it; `end` if there is none."""
    length: cython.size_t = 0
    while is_digit(text, at, end) and length < end:
        length = 10 * length + (text[at] - ord("0"))
        at += 1
    return at + length if length < end - at else end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def method_at(text: Bytes, at: cython.size_t, end: cython.size_t) -> u64:
    """Return whether the last part of a scope stands there: 1, and 2 for D0, 3 for other destructors; 0 if not."""
    kind: u64 = 1
    tags: cython.uint = 0
    if is_digit(text, at, end):
        at = after_source_name(text, at, end)
    elif end - at < 2:
        return 0
    elif text[at] == ord("D") and ord("0") <= text[at + 1] <= ord("5"):
        kind = 2 if text[at + 1] == ord("0") else 3
        at += 2
    elif text[at] == ord("c") and text[at + 1] == ord("v"):  # a conversion; its type may be anything
        return 1 if text[end - 2] == ord("E") and text[end - 1] == ord("v") else 0
    elif ord("a") <= text[at] <= ord("z") and (
        ord("a") <= text[at + 1] <= ord("z") or ord("A") <= text[at + 1] <= ord("Z")
    ):
        at += 2
    else:
        return 0
    while tags < 64 and at + 1 < end and text[at] == ord("B") and is_digit(text, at + 1, end):  # [abi:cxx11]
        tags += 1
        at = after_source_name(text, at + 1, end)
    return kind if at < end and text[at] == ord("E") else 0
