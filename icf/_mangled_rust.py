# cython: language_level=3, boundscheck=True, wraparound=False
"""Bounds on the length and depth of the demangled form of a Rust (v0) name; `icf._mangled` does this for C++.

`B4_` stands for the part that begins at byte 4 of the name, read again, so a name of 200 bytes may stand for gigabytes.
This module keeps the size and depth of each part by its begin, so it reads each once. Time is linear in the length.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._sizes import LIMIT, NOT_KNOWN, ONE, SIZE_BITS, SIZE_MASK, TOKEN, TOO_DEEP, plus
    from cython.cimports.icf._types import Bytes, u64
else:
    from icf._sizes import LIMIT, NOT_KNOWN, ONE, SIZE_BITS, SIZE_MASK, TOKEN, TOO_DEEP, plus
    from icf._types import Bytes, u64

_START = cython.declare(cython.size_t, 2)  # references count from after _R


@cython.cclass
class RustMeasure:
    """Measures one name: upper bounds `size` and `depth`, unless `bad` has the reason why they are not known."""

    text: Bytes
    parts: u64[::1]
    length: cython.size_t
    pos: cython.size_t
    levels: cython.size_t
    level: cython.size_t
    size = cython.declare(u64, visibility="readonly")
    depth = cython.declare(u64, visibility="readonly")
    bad = cython.declare(cython.int, visibility="readonly")

    def __init__(self, text: Bytes, parts: u64[::1], levels: cython.size_t) -> None:
        """Measure a name that begins with _R; `parts` are zeros, u64, one more than the name has bytes."""
        self.text, self.parts, self.levels = text, parts, levels
        self.length = len(text)
        self.pos = _START
        self.bad = self.level = 0
        self._digits()
        total: u64 = self._path()
        if ord("A") <= self._look() <= ord("Z"):  # the crate that it was made for
            self._path()
        total = plus(total, self.length - self.pos)  # a suffix
        self.size, self.depth = total & SIZE_MASK, total >> SIZE_BITS

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _fail(self, why: cython.int) -> u64:
        if self.bad == 0:
            self.bad = why
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _look(self) -> cython.int:
        """Return the byte at hand; 0 at the end, and once the name is refused, which ends all loops."""
        if self.pos >= self.length or self.bad != 0:
            return 0
        return self.text[self.pos]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _digits(self) -> u64:
        value: u64 = 0
        byte: cython.int = self._look()
        while ord("0") <= byte <= ord("9"):
            if value < LIMIT:
                value = value * 10 + byte - ord("0")
            self.pos += 1
            byte = self._look()
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _base62(self) -> u64:
        """Read a number in base 62: `_` is 0, `0_` is 1."""
        value: u64 = 0
        byte: cython.int = self._look()
        digit: u64
        if byte == ord("_"):
            self.pos += 1
            return 0
        while byte != ord("_") and self.bad == 0:
            if ord("0") <= byte <= ord("9"):
                digit = byte - ord("0")
            elif ord("a") <= byte <= ord("z"):
                digit = byte - ord("a") + 10
            elif ord("A") <= byte <= ord("Z"):
                digit = byte - ord("A") + 36
            else:
                return self._fail(NOT_KNOWN)
            if value < LIMIT:
                value = value * 62 + digit
            self.pos += 1
            byte = self._look()
        self.pos += 1
        return value + 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _optional(self, mark: cython.int) -> u64:
        """Read a number after a letter, if that is there."""
        if self._look() == mark:
            self.pos += 1
            return self._base62() + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _identifier(self) -> u64:
        size: u64
        self._optional(ord("s"))
        if self._look() == ord("u"):  # u: punycode
            self.pos += 1
        size = self._digits()
        if self._look() == ord("_"):
            self.pos += 1
        if size > self.length - self.pos or self.bad != 0:
            return self._fail(NOT_KNOWN)
        self.pos += size
        return ONE | (4 * size + TOKEN)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _reference(self) -> u64:
        at: cython.size_t = self.pos
        target: u64
        self.pos += 1
        target = self._base62() + _START
        if target >= at or self.parts[target] == 0:
            return self._fail(NOT_KNOWN)
        return self.parts[target] + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _keep(self, at: cython.size_t, part: u64) -> u64:
        if self.bad == 0:
            self.parts[at] = part
        self.level -= 1
        return part

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _enter(self) -> u64:
        self.level += 1
        if self.level > self.levels:
            self._fail(TOO_DEEP)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _path(self) -> u64:
        at: cython.size_t = self.pos
        byte: cython.int = self._look()
        total: u64
        self._enter()
        total = ONE | TOKEN
        if byte == ord("B"):
            return self._keep(at, self._reference())
        self.pos += 1
        if byte == ord("C"):  # C: a crate
            total = plus(total, self._identifier())
        elif byte == ord("M") or byte == ord("X"):  # M, X: in an impl
            self._optional(ord("s"))
            self._path()
            total = plus(total, self._type())
            if byte == ord("X"):
                total = plus(total, self._path())
        elif byte == ord("Y"):  # Y: of a trait
            total = plus(total, self._type())
            total = plus(total, self._path())
        elif byte == ord("N"):  # N: in a path
            self.pos += 1
            total = plus(total, self._path())
            total = plus(total, self._identifier())
        elif byte == ord("I"):  # I: with arguments
            total = plus(total, self._path())
            while self._look() != ord("E") and self.bad == 0:
                total = plus(total, self._generic())
            self.pos += 1
        else:
            return self._fail(NOT_KNOWN)
        return self._keep(at, total + ONE)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _generic(self) -> u64:
        byte: cython.int = self._look()
        if byte == ord("L"):
            self.pos += 1
            self._base62()
            return ONE | TOKEN
        if byte == ord("K"):
            self.pos += 1
            return plus(self._constant(), TOKEN)
        return plus(self._type(), TOKEN)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _constant(self) -> u64:
        at: cython.size_t = self.pos
        byte: cython.int = self._look()
        start: cython.size_t
        self._enter()
        if byte == ord("B"):  # B: read again as a constant, with the digits that may follow
            return self._keep(at, plus(self._reference(), self.length))
        self.pos += 1
        if byte == ord("p"):
            return self._keep(at, ONE | TOKEN)
        if byte < ord("a") or byte > ord("z"):
            return self._fail(NOT_KNOWN)
        start = self.pos
        byte = self._look()
        while (ord("0") <= byte <= ord("9")) or (ord("a") <= byte <= ord("z")):
            self.pos += 1
            byte = self._look()
        if byte != ord("_"):
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return self._keep(at, ONE | (4 * (self.pos - start) + TOKEN))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _type(self) -> u64:
        at: cython.size_t = self.pos
        byte: cython.int = self._look()
        total: u64
        if byte in (ord("C"), ord("M"), ord("X"), ord("Y"), ord("N"), ord("I")):
            return self._path()
        self._enter()
        if byte == ord("B"):
            return self._keep(at, self._reference())
        self.pos += 1
        total = ONE | TOKEN
        if ord("a") <= byte <= ord("z"):
            return self._keep(at, total)
        if byte == ord("A"):
            total = plus(total, self._type())
            total = plus(total, self._constant())
        elif byte == ord("S") or byte == ord("P") or byte == ord("O"):
            total = plus(total, self._type())
        elif byte == ord("R") or byte == ord("Q"):
            self._optional(ord("L"))
            total = plus(total, self._type())
        elif byte == ord("T"):
            while self._look() != ord("E") and self.bad == 0:
                total = plus(plus(total, self._type()), TOKEN)
            self.pos += 1
        elif byte == ord("F"):
            total = plus(total, self._lifetimes())
            if self._look() == ord("U"):
                self.pos += 1
            if self._look() == ord("K"):
                self.pos += 1
                if self._look() == ord("C"):
                    self.pos += 1
                else:
                    total = plus(total, self._identifier())
            while self._look() != ord("E") and self.bad == 0:
                total = plus(plus(total, self._type()), TOKEN)
            self.pos += 1
            total = plus(total, self._type())
        elif byte == ord("D"):
            total = plus(total, self._lifetimes())
            while self._look() != ord("E") and self.bad == 0:
                total = plus(plus(total, self._path()), TOKEN)
                while self._look() == ord("p"):
                    self.pos += 1
                    total = plus(total, self._identifier())
                    total = plus(total, self._type())
            self.pos += 1
            self._optional(ord("L"))
        else:
            return self._fail(NOT_KNOWN)
        return self._keep(at, total + ONE)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _lifetimes(self) -> u64:
        """Read `G` and how many lifetimes a type binds: each is written."""
        count: u64 = self._optional(ord("G"))
        if count > self.length:  # the demangler refuses more than can be used
            return self._fail(NOT_KNOWN)
        return ONE | (TOKEN * count)
