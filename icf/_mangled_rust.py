# cython: language_level=3, boundscheck=True, wraparound=False
"""How long the demangled form of a Rust (v0) name is at most, and how deep; `icf._mangled` does this for C++.

`B4_` stands for what begins at byte 4 of the name, read again, so a name of 200 bytes may stand for gigabytes. This
keeps the size and depth of each part by where it begins, so each is read once. Time is linear in the length.
"""

SIZE_BITS = 40
SIZE_MASK = (1 << 40) - 1
LIMIT = 1 << 32  # sizes stop there
ONE = 1 << 40  # of depth
TOKEN = 24  # bytes that a letter stands for at most
NOT_KNOWN, TOO_DEEP = 1, 2
_START = 2  # references count from behind _R


def _plus(first, second):
    """Two parts side by side."""
    depth = first >> SIZE_BITS
    if second >> SIZE_BITS > depth:
        depth = second >> SIZE_BITS
    size = (first & SIZE_MASK) + (second & SIZE_MASK)
    if size > LIMIT:
        size = LIMIT
    return depth << SIZE_BITS | size


class RustMeasure:
    """What one name stands for: `size` and `depth` at most, unless `bad` says why that is not known."""

    def __init__(self, text, parts, levels):
        """Measure a name that begins with _R; `parts` are zeros, u64, one more than the name has bytes."""
        self.text, self.parts, self.levels = text, parts, levels
        self.length = len(text)
        self.pos = _START
        self.bad = self.level = 0
        self._digits()
        total = self._path()
        if 0x41 <= self._look() <= 0x5A:  # the crate that it was made for
            self._path()
        total = _plus(total, self.length - self.pos)  # a suffix
        self.size, self.depth = total & SIZE_MASK, total >> SIZE_BITS

    def _fail(self, why):
        if self.bad == 0:
            self.bad = why
        return 0

    def _look(self):
        """The byte at hand; 0 at the end, and once the name is refused: that ends all loops."""
        if self.pos >= self.length or self.bad != 0:
            return 0
        return self.text[self.pos]

    def _digits(self):
        value = 0
        byte = self._look()
        while 0x30 <= byte <= 0x39:
            if value < LIMIT:
                value = value * 10 + byte - 0x30
            self.pos += 1
            byte = self._look()
        return value

    def _base62(self):
        """`_` is 0, `0_` is 1."""
        value = 0
        byte = self._look()
        if byte == 0x5F:
            self.pos += 1
            return 0
        while byte != 0x5F and self.bad == 0:
            if 0x30 <= byte <= 0x39:
                digit = byte - 0x30
            elif 0x61 <= byte <= 0x7A:
                digit = byte - 0x61 + 10
            elif 0x41 <= byte <= 0x5A:
                digit = byte - 0x41 + 36
            else:
                return self._fail(NOT_KNOWN)
            if value < LIMIT:
                value = value * 62 + digit
            self.pos += 1
            byte = self._look()
        self.pos += 1
        return value + 1

    def _optional(self, mark):
        """A number after a letter, if that is there."""
        if self._look() == mark:
            self.pos += 1
            return self._base62() + 1
        return 0

    def _identifier(self):
        self._optional(0x73)  # s
        if self._look() == 0x75:  # u: punycode
            self.pos += 1
        size = self._digits()
        if self._look() == 0x5F:
            self.pos += 1
        if size > self.length - self.pos or self.bad != 0:
            return self._fail(NOT_KNOWN)
        self.pos += size
        return ONE | (4 * size + TOKEN)

    def _reference(self):
        at = self.pos
        self.pos += 1
        target = self._base62() + _START
        if target >= at or self.parts[target] == 0:
            return self._fail(NOT_KNOWN)
        return self.parts[target] + ONE

    def _keep(self, at, part):
        if self.bad == 0:
            self.parts[at] = part
        self.level -= 1
        return part

    def _enter(self):
        self.level += 1
        if self.level > self.levels:
            self._fail(TOO_DEEP)

    def _path(self):
        at = self.pos
        byte = self._look()
        self._enter()
        total = ONE | TOKEN
        if byte == 0x42:  # B
            return self._keep(at, self._reference())
        self.pos += 1
        if byte == 0x43:  # C: a crate
            total = _plus(total, self._identifier())
        elif byte == 0x4D or byte == 0x58:  # M, X: in an impl
            self._optional(0x73)
            self._path()
            total = _plus(total, self._type())
            if byte == 0x58:
                total = _plus(total, self._path())
        elif byte == 0x59:  # Y: of a trait
            total = _plus(total, self._type())
            total = _plus(total, self._path())
        elif byte == 0x4E:  # N: in a path
            self.pos += 1
            total = _plus(total, self._path())
            total = _plus(total, self._identifier())
        elif byte == 0x49:  # I: with arguments
            total = _plus(total, self._path())
            while self._look() != 0x45 and self.bad == 0:
                total = _plus(total, self._generic())
            self.pos += 1
        else:
            return self._fail(NOT_KNOWN)
        return self._keep(at, total + ONE)

    def _generic(self):
        byte = self._look()
        if byte == 0x4C:  # L
            self.pos += 1
            self._base62()
            return ONE | TOKEN
        if byte == 0x4B:  # K
            self.pos += 1
            return _plus(self._constant(), TOKEN)
        return _plus(self._type(), TOKEN)

    def _constant(self):
        at = self.pos
        byte = self._look()
        self._enter()
        if byte == 0x42:  # B: read again as a constant, with the digits that may follow
            return self._keep(at, _plus(self._reference(), self.length))
        self.pos += 1
        if byte == 0x70:  # p
            return self._keep(at, ONE | TOKEN)
        if byte < 0x61 or byte > 0x7A:
            return self._fail(NOT_KNOWN)
        start = self.pos
        byte = self._look()
        while (0x30 <= byte <= 0x39) or (0x61 <= byte <= 0x7A):
            self.pos += 1
            byte = self._look()
        if byte != 0x5F:
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return self._keep(at, ONE | (4 * (self.pos - start) + TOKEN))

    def _type(self):
        at = self.pos
        byte = self._look()
        if byte in (0x43, 0x4D, 0x58, 0x59, 0x4E, 0x49):  # C M X Y N I
            return self._path()
        self._enter()
        if byte == 0x42:  # B
            return self._keep(at, self._reference())
        self.pos += 1
        total = ONE | TOKEN
        if 0x61 <= byte <= 0x7A:
            return self._keep(at, total)
        if byte == 0x41:  # A
            total = _plus(total, self._type())
            total = _plus(total, self._constant())
        elif byte == 0x53 or byte == 0x50 or byte == 0x4F:  # S P O
            total = _plus(total, self._type())
        elif byte == 0x52 or byte == 0x51:  # R Q
            self._optional(0x4C)
            total = _plus(total, self._type())
        elif byte == 0x54:  # T
            while self._look() != 0x45 and self.bad == 0:
                total = _plus(_plus(total, self._type()), TOKEN)
            self.pos += 1
        elif byte == 0x46:  # F
            total = _plus(total, self._lifetimes())
            if self._look() == 0x55:  # U
                self.pos += 1
            if self._look() == 0x4B:  # K
                self.pos += 1
                if self._look() == 0x43:
                    self.pos += 1
                else:
                    total = _plus(total, self._identifier())
            while self._look() != 0x45 and self.bad == 0:
                total = _plus(_plus(total, self._type()), TOKEN)
            self.pos += 1
            total = _plus(total, self._type())
        elif byte == 0x44:  # D
            total = _plus(total, self._lifetimes())
            while self._look() != 0x45 and self.bad == 0:
                total = _plus(_plus(total, self._path()), TOKEN)
                while self._look() == 0x70:  # p
                    self.pos += 1
                    total = _plus(total, self._identifier())
                    total = _plus(total, self._type())
            self.pos += 1
            self._optional(0x4C)
        else:
            return self._fail(NOT_KNOWN)
        return self._keep(at, total + ONE)

    def _lifetimes(self):
        """`G` and how many lifetimes a type binds: each is written."""
        count = self._optional(0x47)
        if count > self.length:  # the demangler refuses more than can be used
            return self._fail(NOT_KNOWN)
        return ONE | (TOKEN * count)
