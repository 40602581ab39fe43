# cython: language_level=3, boundscheck=True, wraparound=False
"""How long the demangled form of an Itanium C++ name is at most, and how deep: found without making it.

A name of 250 bytes may stand for gigabytes: `S0_` stands for the text of a part that came before, which may itself
refer to others, twice each. So this reads a name as LLVM's demangler does, and counts where that one builds: each part
has a size and a depth, those that a reference can mean are kept in a table. Time is linear in the length of the name.

A size counts each letter that stands for something as the longest thing that it may be. A pack expansion (`Dp`) is its
pattern as often as the longest pack so far has elements, and once the packs themselves.

Where a name is no name, or is of a kind that is not known here, it is not measured, and `bad`.
"""

SIZE_BITS = 40
SIZE_MASK = (1 << 40) - 1
LIMIT = 1 << 32  # sizes stop there
ONE = 1 << 40  # of depth
TOKEN = 24  # bytes that a letter or two stand for at most
STANDARD = 96  # what Sa, Ss, Si ... stand for, written in full

IS_PACK = 1 << 63  # of an argument
NOT_KNOWN, TOO_DEEP = 1, 2


def _plus(first, second):
    """Two parts side by side."""
    depth = first >> SIZE_BITS
    if second >> SIZE_BITS > depth:
        depth = second >> SIZE_BITS
    size = (first & SIZE_MASK) + (second & SIZE_MASK)
    if size > LIMIT:
        size = LIMIT
    return depth << SIZE_BITS | size


def _operands(first, second):
    """How many operands an operator of expressions has; 9: as many as there are up to an E, 0: of another form."""
    if first == 0x61:  # a
        if second == 0x64:
            return 1
        return 2 if second in (0x61, 0x6E, 0x4E, 0x53) else 0
    if first == 0x63:  # c
        return 2 if second == 0x6D else 1 if second == 0x6F else 9 if second in (0x6C, 0x70) else 0
    if first == 0x64:  # d
        return 2 if second in (0x73, 0x76, 0x56) else 1 if second in (0x65, 0x6C, 0x61) else 0
    if first == 0x65:  # e
        return 2 if second in (0x6F, 0x4F, 0x71) else 0
    if first == 0x67:  # g
        return 2 if second in (0x65, 0x74) else 0
    if first == 0x69:  # i
        return 2 if second == 0x78 else 9 if second == 0x6C else 0
    if first == 0x6C:  # l
        return 2 if second in (0x65, 0x73, 0x53, 0x74) else 0
    if first == 0x6D:  # m
        return 2 if second in (0x69, 0x49, 0x6C, 0x4C) else 1 if second == 0x6D else 0
    if first == 0x6E:  # n
        return 2 if second == 0x65 else 1 if second in (0x67, 0x74, 0x78) else 0
    if first == 0x6F:  # o
        return 2 if second in (0x6F, 0x72, 0x52) else 0
    if first == 0x70:  # p
        return 2 if second in (0x6C, 0x4C, 0x6D) else 1 if second in (0x70, 0x73) else 0
    if first == 0x71:  # q
        return 3 if second == 0x75 else 0
    if first == 0x72:  # r
        return 2 if second in (0x6D, 0x4D, 0x73, 0x53) else 0
    if first == 0x73:  # s
        return 2 if second == 0x73 else 1 if second == 0x7A else 0
    if first == 0x74 and second == 0x77:  # tw
        return 1
    if first == 0x61 and second == 0x7A:
        return 1
    return 0


class Measure:
    """What one name stands for: `size` and `depth` at most, unless `bad` says why that is not known."""

    def __init__(self, text, subs, args, levels):
        """Measure a name that begins with _Z; `subs` and `args` are u64, one more than the name has bytes.

        `levels` is how deep its parts may be nested, else it is TOO_DEEP: what this takes of the stack.
        """
        self.text, self.subs, self.args, self.levels = text, subs, args, levels
        self.length = len(text)
        self.forward = 0
        turn = 0
        while turn < 3:  # T_ may mean arguments that follow; their size is known in the second turn
            self.pos = 2
            self.bad = self.level = self.sub_count = self.arg_start = self.arg_count = self.arg_top = 0
            self.pack = self.packed = self.largest = self.identifier = 0
            self.is_forward = self.conversion = self.in_lambda = 0
            total = self._encoding()
            if self.bad != 0 or self.is_forward == 0 or self.forward == self.largest:
                break
            self.forward = self.largest
            turn += 1
        if turn == 3:
            self._fail(NOT_KNOWN)
        total = _plus(total, len(text) - self.pos)  # a suffix
        self.size, self.depth = total & SIZE_MASK, total >> SIZE_BITS

    def _fail(self, why):
        if self.bad == 0:
            self.bad = why
        return 0

    def _look(self, ahead):
        """The byte at hand, or one after it; 0 at the end, and once the name is refused: that ends all loops."""
        at = self.pos + ahead
        if at >= self.length or self.bad != 0:
            return 0
        return self.text[at]

    def _enter(self):
        self.level += 1
        if self.level > self.levels:
            self._fail(TOO_DEEP)

    def _push(self, part):
        """Keep a part that a reference can mean; it is one deeper than what it is of."""
        self.subs[self.sub_count] = part
        self.sub_count += 1

    def _digits(self):
        """A decimal number, or nothing."""
        value = 0
        byte = self._look(0)
        while 0x30 <= byte <= 0x39:
            if value < LIMIT:
                value = value * 10 + byte - 0x30
            self.pos += 1
            byte = self._look(0)
        return value

    def _number(self):
        """A number that may be negative."""
        if self._look(0) == 0x6E:  # n
            self.pos += 1
        self._digits()

    def _index(self):
        """The number of a reference: nothing is 0, else one more than what base 36 says; up to `_`."""
        value = 0
        byte = self._look(0)
        if byte == 0x5F:
            self.pos += 1
            return 0
        while (0x30 <= byte <= 0x39) or (0x41 <= byte <= 0x5A):
            if value < LIMIT:
                value = value * 36 + (byte - 0x30 if byte <= 0x39 else byte - 0x37)
            self.pos += 1
            byte = self._look(0)
        if byte != 0x5F:
            self._fail(NOT_KNOWN)
        self.pos += 1
        return value + 1

    def _source_name(self):
        byte = self._look(0)
        if byte < 0x30 or byte > 0x39:
            return self._fail(NOT_KNOWN)
        size = self._digits()
        if size > self.length - self.pos or self.bad != 0:
            return self._fail(NOT_KNOWN)
        self.pos += size
        if size + TOKEN > self.identifier:
            self.identifier = size + TOKEN
        return ONE | (size + TOKEN)

    def _discriminator(self):
        """What tells local entities of one name apart."""
        if self._look(0) == 0x5F:  # _
            if self._look(1) == 0x5F:
                self.pos += 2
                self._digits()
                if self._look(0) == 0x5F:
                    self.pos += 1
            elif 0x30 <= self._look(1) <= 0x39:
                self.pos += 2

    def _substitution(self):
        """`S_`, `S0_`: a part that came before; `Sa` and the like. `St` is read by others."""
        self.pos += 1
        byte = self._look(0)
        if 0x61 <= byte <= 0x7A:  # a to z
            self.pos += 1
            if self.identifier < STANDARD:
                self.identifier = STANDARD
            part = ONE | STANDARD
            if self._look(0) == 0x42:  # B
                while self._look(0) == 0x42:
                    self.pos += 1
                    part = _plus(part, self._source_name()) + ONE
                self._push(part)
            return part
        number = self._index()
        if number >= self.sub_count:
            return self._fail(NOT_KNOWN)
        return self.subs[number]

    def _template_param(self):
        """`T_`, `T0_`, `TL0__`: an argument of the template."""
        self.pos += 1
        if self._look(0) == 0x4C:  # L: of a lambda, or of a template that is an argument
            self.pos += 1
            self._digits()
            if self._look(0) != 0x5F:
                return self._fail(NOT_KNOWN)
            self.pos += 1
            self._index()
            return ONE | TOKEN
        number = self._index()
        if self.conversion:  # of arguments that are still to come
            self.is_forward = 1
            return self.forward + ONE
        if number < self.arg_count:
            part = self.args[self.arg_start + number]
            if part & IS_PACK:
                part ^= IS_PACK
                self.packed += part & SIZE_MASK
                if self.packed > LIMIT:
                    self.packed = LIMIT
            return _plus(part, TOKEN) + ONE
        if self.in_lambda:  # auto
            return ONE | TOKEN
        return self._fail(NOT_KNOWN)

    def _template_args(self, is_named):
        """`I ... E`; with `is_named` these are what `T_` means from now on."""
        self.pos += 1
        self._enter()
        if is_named:
            self.arg_start = self.arg_top
            self.arg_count = 0
        own = self.arg_start
        total = ONE | TOKEN
        byte = self._look(0)
        while byte != 0x45 and self.bad == 0:  # E
            if byte == 0x51:  # Q
                self.pos += 1
                total = _plus(total, self._expression())
            else:
                is_pack = byte == 0x4A
                part = self._template_arg()
                if part & SIZE_MASK > self.largest & SIZE_MASK:
                    self.largest = part
                if is_named and self.bad == 0:
                    if own != self.arg_start:
                        return self._fail(NOT_KNOWN)
                    self.args[self.arg_top] = part | IS_PACK if is_pack else part
                    self.arg_top += 1
                    self.arg_count += 1
                total = _plus(total, part)
            byte = self._look(0)
        self.pos += 1
        self.level -= 1
        return total + ONE

    def _template_arg(self):
        byte = self._look(0)
        following = self._look(1)
        if byte == 0x58:  # X
            self.pos += 1
            return self._ended(self._expression())
        if byte == 0x4A:  # J: a pack
            self.pos += 1
            self._enter()
            total = ONE | TOKEN
            count = 0
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._template_arg())
                count += 1
            if count > self.pack:
                self.pack = count
            self.pos += 1
            self.level -= 1
            return total + ONE
        if byte == 0x4C:  # L
            return self._literal()
        if byte == 0x54 and (
            following == 0x79 or following == 0x6E or following == 0x74 or following == 0x70
        ):  # Ty Tn ..
            part = self._param_declaration()
            return _plus(part, self._template_arg())
        return self._type(True)

    def _param_declaration(self):
        """`Ty`, `Tn TYPE`, `Tt ... E`, `Tp`: a parameter of a template, in a lambda or a template template argument."""
        following = self._look(1)
        self.pos += 2
        if following == 0x79:
            return ONE | TOKEN
        if following == 0x6E:
            return _plus(ONE | TOKEN, self._type(True))
        if following == 0x70:
            return _plus(ONE | TOKEN, self._param_declaration())
        if following == 0x74:
            self._enter()
            total = ONE | TOKEN
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._param_declaration())
            self.pos += 1
            self.level -= 1
            return total
        return self._fail(NOT_KNOWN)

    def _ended(self, part):
        """Take the `E` after a part."""
        if self._look(0) != 0x45:
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return part + ONE

    def _literal(self):
        """`L TYPE VALUE E`, `L _Z ENCODING E`."""
        self.pos += 1
        if self._look(0) == 0x5F and self._look(1) == 0x5A:  # _Z
            self.pos += 2
            return self._ended(self._encoding())
        if self._look(0) == 0x5A:  # Z, as old compilers have it
            self.pos += 1
            return self._ended(self._encoding())
        part = self._type(True)
        byte = self._look(0)
        start = self.pos
        while (0x30 <= byte <= 0x39) or (0x61 <= byte <= 0x7A) or byte == 0x5F:
            self.pos += 1
            byte = self._look(0)
        return self._ended(_plus(part, TOKEN + 3 * (self.pos - start)))

    def _encoding(self):
        """A function, its parameters and all that is in them; or data."""
        self._enter()
        old_args = self.arg_start
        old_count = self.arg_count
        byte = self._look(0)
        if (byte == 0x54 or byte == 0x47) and self._look(1) != 0:  # T, G
            total = self._special_name()
        else:
            total = self._name(True)
            byte = self._look(0)
            while byte != 0 and byte != 0x45 and byte != 0x2E and byte != 0x40 and byte != 0x5F and self.bad == 0:
                # E . @ _
                if byte == 0x51:  # Q
                    self.pos += 1
                    part = self._expression()
                elif byte == 0x55 and self._look(1) == 0x61 and self._look(2) == 0x39:  # Ua9enable_ifI..E
                    self.pos += 2
                    part = self._source_name()
                    if self._look(0) == 0x49:
                        part = _plus(part, self._template_args(False))
                else:
                    part = self._type(True)
                total = _plus(total, part)
                total = _plus(total, TOKEN)
                byte = self._look(0)
        self.arg_start = old_args
        self.arg_count = old_count
        self.level -= 1
        return total + ONE

    def _call_offset(self):
        """How far a thunk adjusts `this`."""
        byte = self._look(0)
        self.pos += 1
        if byte != 0x68 and byte != 0x76:  # h, v
            self._fail(NOT_KNOWN)
        self._number()
        if byte == 0x76:
            self.pos += 1
            self._number()
        if self._look(0) != 0x5F:
            self._fail(NOT_KNOWN)
        self.pos += 1

    def _special_name(self):
        """Vtables, type information, thunks, guards."""
        first = self._look(0)
        byte = self._look(1)
        self.pos += 2
        total = ONE | 2 * TOKEN
        if first == 0x47:  # G
            if byte == 0x49:  # I: a module's initializer
                while self._look(0) == 0x57:
                    self.pos += 1
                    if self._look(0) == 0x50:
                        self.pos += 1
                    total = _plus(total, self._source_name())
                return total
            if byte != 0x56 and byte != 0x52:  # V, R
                return self._fail(NOT_KNOWN)
            total = _plus(total, self._name(byte == 0x52))
            if byte == 0x52:
                self._index()
            return total
        if byte == 0x56 or byte == 0x54 or byte == 0x49 or byte == 0x53:  # V T I S
            return _plus(total, self._type(True))
        if byte == 0x57 or byte == 0x48:  # W H
            return _plus(total, self._name(False))
        if byte == 0x41:  # A
            return _plus(total, self._template_arg())
        if byte == 0x43:  # C
            total = _plus(total, self._type(True))
            self._digits()
            if self._look(0) != 0x5F:
                return self._fail(NOT_KNOWN)
            self.pos += 1
            return _plus(total, self._type(True))
        if byte == 0x63:  # c
            self._call_offset()
            self._call_offset()
        else:
            self.pos -= 1
            self._call_offset()
        return _plus(total, self._encoding())

    def _name(self, is_named):
        byte = self._look(0)
        if byte == 0x4E:  # N
            return self._nested_name(is_named)
        if byte == 0x5A:  # Z
            return self._local_name(is_named)
        if byte == 0x53 and self._look(1) != 0x74:
            total = self._substitution()
            if self._look(0) != 0x49:
                return self._fail(NOT_KNOWN)
            return _plus(total, self._template_args(is_named)) + ONE
        total = ONE | TOKEN
        if byte == 0x53:  # St
            self.pos += 2
        total = _plus(total, self._unqualified_name(is_named)) + ONE
        if self._look(0) == 0x49:  # I
            self._push(total)
            total = _plus(total, self._template_args(is_named)) + ONE
        return total

    def _local_name(self, is_named):
        self.pos += 1
        total = self._encoding()
        if self._look(0) != 0x45:
            return self._fail(NOT_KNOWN)
        self.pos += 1
        byte = self._look(0)
        if byte == 0x73:  # s: a string
            self.pos += 1
            self._discriminator()
            return _plus(total, TOKEN)
        if byte == 0x64:  # d: in a default argument
            self.pos += 1
            self._number()
            if self._look(0) != 0x5F:
                return self._fail(NOT_KNOWN)
            self.pos += 1
            return _plus(total, self._name(is_named)) + ONE
        total = _plus(total, self._name(is_named)) + ONE
        self._discriminator()
        return total

    def _unqualified_name(self, is_named):
        byte = self._look(0)
        total = ONE | TOKEN
        while byte == 0x57:  # W: a module
            self.pos += 1
            if self._look(0) == 0x50:
                self.pos += 1
            total = _plus(total, self._source_name())
            self._push(total)
            byte = self._look(0)
        if byte == 0x46:  # F: a friend
            self.pos += 1
            byte = self._look(0)
        if byte == 0x4C:  # L: with internal linkage
            self.pos += 1
            byte = self._look(0)
        if 0x30 <= byte <= 0x39:
            total = _plus(total, self._source_name())
        elif byte == 0x55:  # U
            total = _plus(total, self._unnamed())
        elif byte == 0x44 and self._look(1) == 0x43:  # DC: a structured binding
            self.pos += 2
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._source_name())
            self.pos += 1
        elif byte == 0x43 or byte == 0x44:  # C1, CI1 TYPE, D0: repeats the name of the class
            following = self._look(1)
            self.pos += 2
            if byte == 0x43 and following == 0x49:
                self.pos += 1
                total = _plus(total, self._name(False))
            total = _plus(total, self.identifier)
        else:
            total = _plus(total, self._operator_name(is_named))
        while self._look(0) == 0x42:  # B: an ABI tag
            self.pos += 1
            total = _plus(total, self._source_name()) + ONE
        return total

    def _operator_name(self, is_named):
        first = self._look(0)
        second = self._look(1)
        if first < 0x61 or first > 0x7A or second == 0:
            return self._fail(NOT_KNOWN)
        self.pos += 2
        if first == 0x63 and second == 0x76:  # cv: to a type
            outside = self.conversion
            if is_named:
                self.conversion = 1
            part = self._type(False)
            self.conversion = outside
            return _plus(ONE | TOKEN, part)
        if first == 0x6C and second == 0x69:  # li: ""_name
            return _plus(ONE | TOKEN, self._source_name())
        if first == 0x76 and 0x30 <= second <= 0x39:
            return _plus(ONE | TOKEN, self._source_name())
        return ONE | TOKEN

    def _unnamed(self):
        """`Ut_`, `Ul TYPES E_`, `Ub_`: a type without a name, a lambda, a block."""
        kind = self._look(1)
        self.pos += 2
        total = ONE | 2 * TOKEN
        if kind == 0x6C:  # l
            self._enter()
            self.in_lambda += 1
            byte = self._look(0)
            while byte != 0x45 and self.bad == 0:
                following = self._look(1)
                if byte == 0x51:  # Q
                    self.pos += 1
                    part = self._expression()
                elif byte == 0x54 and (
                    following == 0x79 or following == 0x6E or following == 0x74 or following == 0x70
                ):
                    part = self._param_declaration()
                else:
                    part = self._type(True)
                total = _plus(total, part)
                byte = self._look(0)
            self.pos += 1
            self.in_lambda -= 1
            self.level -= 1
        elif kind != 0x74 and kind != 0x62:  # t, b
            return self._fail(NOT_KNOWN)
        self._digits()
        if self._look(0) != 0x5F:
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return total + ONE

    def _nested_name(self, is_named):
        self.pos += 1
        self._enter()
        byte = self._look(0)
        while byte == 0x72 or byte == 0x56 or byte == 0x4B or byte == 0x48 or byte == 0x4F:  # r V K H O
            self.pos += 1
            byte = self._look(0)
        if byte == 0x52:  # R
            self.pos += 1
            byte = self._look(0)
        total = ONE | TOKEN
        is_pushed = 0
        while byte != 0x45 and self.bad == 0:
            is_pushed = 1
            following = self._look(1)
            if byte == 0x49:  # I
                total = _plus(total, self._template_args(is_named)) + ONE
            elif byte == 0x54:  # T
                total = _plus(total, self._template_param()) + ONE
            elif byte == 0x44 and (following == 0x74 or following == 0x54):  # Dt, DT
                total = _plus(total, self._decltype()) + ONE
            elif byte == 0x53 and following == 0x74:
                self.pos += 2
                total = _plus(total, TOKEN)
                is_pushed = 0
            elif byte == 0x53:
                total = _plus(total, self._substitution())
                is_pushed = 0
            elif byte == 0x4D:  # M: of a data member
                self.pos += 1
                is_pushed = 0
            else:
                total = _plus(total, self._unqualified_name(is_named)) + ONE
            if is_pushed and self.bad == 0:
                self._push(total)
            byte = self._look(0)
        if self.sub_count == 0:
            return self._fail(NOT_KNOWN)
        self.sub_count -= 1  # the whole is no part of itself
        self.pos += 1
        self.level -= 1
        return total + ONE

    def _decltype(self):
        self.pos += 2
        return self._ended(_plus(ONE | TOKEN, self._expression()))

    def _type(self, takes_args):
        """A type. All but the plain ones are parts that a reference can mean."""
        self._enter()
        before = 0  # P, R and the like in a row: each is a part
        byte = self._look(0)
        while byte == 0x50 or byte == 0x52 or byte == 0x4F or byte == 0x43 or byte == 0x47:  # P R O C G
            before += 1
            self.pos += 1
            byte = self._look(0)
        if byte == 0x72 or byte == 0x56 or byte == 0x4B:  # r V K in a row are one part
            ahead = 1
            following = self._look(ahead)
            while following == 0x72 or following == 0x56 or following == 0x4B:
                ahead += 1
                following = self._look(ahead)
            last = self._look(ahead + 1)
            self.pos += ahead
            if following == 0x46 or (
                following == 0x44 and (last == 0x6F or last == 0x4F or last == 0x77 or last == 0x78)
            ):
                part = self._bare_type(takes_args)  # those of a member function, part of its type
            else:
                part = _plus(self._type(takes_args), TOKEN) + ONE
                self._push(part)
        else:
            part = self._bare_type(takes_args)
        while before and self.bad == 0:
            part = _plus(part, TOKEN) + ONE
            self._push(part)
            before -= 1
        self.level -= 1
        return part

    def _bare_type(self, takes_args):
        byte = self._look(0)
        following = self._look(1)
        if byte == 0:
            return self._fail(NOT_KNOWN)
        if 0x61 <= byte <= 0x7A and byte != 0x75 and byte != 0x72:  # a to z: plain
            self.pos += 1
            return ONE | TOKEN
        if byte == 0x75:  # u: one of the vendor
            self.pos += 1
            part = self._source_name()
            if self._look(0) == 0x49:
                self.pos += 1
                part = self._ended(_plus(part, self._type(True)))
        elif byte == 0x55:  # U: qualified by the vendor
            self.pos += 1
            part = self._source_name()
            if self._look(0) == 0x49:
                part = _plus(part, self._template_args(False))
            byte = self._look(0)
            while (byte == 0x55 or byte == 0x72 or byte == 0x56 or byte == 0x4B) and self.bad == 0:  # U r V K: one part
                self.pos += 1
                if byte == 0x55:
                    part = _plus(part, self._source_name()) + ONE
                    if self._look(0) == 0x49:
                        part = _plus(part, self._template_args(False))
                byte = self._look(0)
            part = _plus(_plus(part, TOKEN), self._type(takes_args)) + ONE
        elif byte == 0x46 or (
            byte == 0x44 and (following == 0x6F or following == 0x4F or following == 0x77 or following == 0x78)
        ):
            part = self._function_type()
        elif byte == 0x44:  # D
            if following == 0x74 or following == 0x54:
                part = self._decltype()
            elif following == 0x70:  # p: a pack expansion
                self.pos += 2
                outside = self.packed
                self.packed = 0
                part = self._type(takes_args)
                part = self._expanded(part)
                self.packed = outside
            elif following == 0x76:  # v: a vector
                self.pos += 2
                if 0x30 <= self._look(0) <= 0x39:
                    self._digits()
                    part = ONE | TOKEN
                elif self._look(0) == 0x5F:
                    part = ONE | TOKEN
                else:
                    part = _plus(self._expression(), TOKEN)
                if self._look(0) != 0x5F:
                    return self._fail(NOT_KNOWN)
                self.pos += 1
                if self._look(0) == 0x70:  # p: of pixels
                    self.pos += 1
                else:
                    part = _plus(part, self._type(True)) + ONE
            elif following == 0x46 or following == 0x42 or following == 0x55:  # F16_ B8_ U8_: of a width
                self.pos += 2
                part = ONE | 2 * TOKEN
                if 0x30 <= self._look(0) <= 0x39:
                    self._digits()
                else:
                    part = _plus(part, self._expression())
                if self._look(0) == 0x62:
                    self.pos += 1
                elif self._look(0) == 0x5F:
                    self.pos += 1
                else:
                    return self._fail(NOT_KNOWN)
                return part
            elif following == 0x6B or following == 0x4B:  # k K: constrained
                return self._fail(NOT_KNOWN)
            elif 0x61 <= following <= 0x7A:
                self.pos += 2
                return ONE | TOKEN
            else:
                return self._fail(NOT_KNOWN)
        elif byte == 0x41:  # A
            self.pos += 1
            part = ONE | TOKEN
            if 0x30 <= self._look(0) <= 0x39:
                self._digits()
            elif self._look(0) != 0x5F:
                part = _plus(part, self._expression())
            if self._look(0) != 0x5F:
                return self._fail(NOT_KNOWN)
            self.pos += 1
            part = _plus(part, self._type(True)) + ONE
        elif byte == 0x4D:  # M
            self.pos += 1
            part = self._type(True)
            part = _plus(_plus(part, self._type(True)), TOKEN) + ONE
        elif byte == 0x54 and (following == 0x73 or following == 0x75 or following == 0x65):  # Ts Tu Te
            self.pos += 2
            part = _plus(self._name(False), TOKEN)
        elif byte == 0x54:
            part = self._template_param()
            if takes_args and self._look(0) == 0x49:
                self._push(part)
                part = _plus(part, self._template_args(False)) + ONE
        elif byte == 0x53 and following != 0x74:
            part = self._substitution()
            if not takes_args or self._look(0) != 0x49:
                return part + ONE
            part = _plus(part, self._template_args(False)) + ONE
        elif byte == 0x72 or byte == 0x56 or byte == 0x4B or byte == 0x50 or byte == 0x52 or byte == 0x4F:
            return self._type(takes_args)
        else:
            part = self._name(False)
        if self.bad == 0:
            self._push(part)
        return part

    def _expanded(self, part):
        """A pattern as often as the longest pack has elements, and once the packs that are in it."""
        size = part & SIZE_MASK
        packed = self.packed
        if packed > size:
            packed = size
        count = self.pack + 1
        if (size - packed + TOKEN) * count + packed > LIMIT or count > LIMIT:
            size = LIMIT
        else:
            size = (size - packed + TOKEN) * count + packed
        return ((part >> SIZE_BITS) + 1) << SIZE_BITS | size

    def _function_type(self):
        self._enter()
        total = ONE | 2 * TOKEN
        while self._look(0) == 0x44:  # Do, DO EXPR E, Dw TYPES E, Dx
            kind = self._look(1)
            self.pos += 2
            if kind == 0x4F:
                total = self._ended(_plus(total, self._expression()))
            elif kind == 0x77:
                while self._look(0) != 0x45 and self.bad == 0:
                    total = _plus(total, self._type(True))
                self.pos += 1
            elif kind != 0x6F and kind != 0x78:
                return self._fail(NOT_KNOWN)
        if self._look(0) != 0x46:  # F
            return self._fail(NOT_KNOWN)
        self.pos += 1
        if self._look(0) == 0x59:  # Y: extern "C"
            self.pos += 1
        byte = self._look(0)
        while byte != 0x45 and self.bad == 0:
            if (byte == 0x52 or byte == 0x4F) and self._look(1) == 0x45:  # R E, O E
                self.pos += 1
                break
            total = _plus(total, self._type(True))
            byte = self._look(0)
        self.pos += 1
        self.level -= 1
        return total + ONE

    def _expression(self):
        self._enter()
        total = ONE | TOKEN
        first = self._look(0)
        second = self._look(1)
        if first == 0x67 and second == 0x73:  # gs
            self.pos += 2
            first = self._look(0)
            second = self._look(1)
        if first == 0x4C:  # L
            total = _plus(total, self._literal())
        elif first == 0x54:  # T
            total = _plus(total, self._template_param())
        elif first == 0x66 and (second == 0x70 or (second == 0x4C and 0x30 <= self._look(2) <= 0x39)):  # fp, fL0p
            self.pos += 2
            if second == 0x70 and self._look(0) == 0x54:  # fpT: this
                self.pos += 1
            else:
                if second == 0x4C:
                    self._digits()
                    self.pos += 1
                while self._look(0) in (0x72, 0x56, 0x4B):
                    self.pos += 1
                self._digits()
                if self._look(0) != 0x5F:
                    return self._fail(NOT_KNOWN)
                self.pos += 1
        elif 0x30 <= first <= 0x39 or (first == 0x6F and second == 0x6E) or (first == 0x64 and second == 0x6E):
            total = _plus(total, self._base_name())
        elif first == 0x73 and second == 0x72:  # sr
            total = _plus(total, self._unresolved_name())
        elif (first == 0x63 and second == 0x76) or (first == 0x74 and second == 0x6C):  # cv, tl
            self.pos += 2
            total = _plus(total, self._type(False))
            if first == 0x74:
                total = _plus(total, self._list())
            elif self._look(0) == 0x5F:
                self.pos += 1
                total = _plus(total, self._list())
            else:
                total = _plus(total, self._expression())
        elif (first == 0x73 or first == 0x61 or first == 0x74) and second == 0x74 or (first == 0x74 and second == 0x69):
            self.pos += 2  # st at tt ti TYPE
            total = _plus(total, self._type(True))
        elif first == 0x74 and second == 0x65 or (first == 0x61 and second == 0x7A):  # te az
            self.pos += 2
            total = _plus(total, self._expression())
        elif (first == 0x64 or first == 0x70) and second == 0x74:  # dt pt
            self.pos += 2
            total = _plus(total, self._expression())
            total = _plus(total, self._unresolved_name())
        elif (first == 0x64 or first == 0x73 or first == 0x63 or first == 0x72) and second == 0x63:  # dc sc cc rc
            self.pos += 2
            total = _plus(total, self._type(True))
            total = _plus(total, self._expression())
        elif first == 0x73 and (second == 0x5A or second == 0x70):  # sZ sp
            self.pos += 2
            if second == 0x70:
                outside = self.packed
                self.packed = 0
                part = self._expression()
                total = _plus(total, self._expanded(part))
                self.packed = outside
            elif self._look(0) == 0x54:
                total = _plus(total, self._template_param())
            else:
                total = _plus(total, self._expression())
        elif first == 0x73 and second == 0x50:  # sP
            self.pos += 2
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._template_arg())
            self.pos += 1
        elif first == 0x74 and second == 0x72:  # tr
            self.pos += 2
        elif first == 0x66 and second in (0x6C, 0x72, 0x4C, 0x52):  # folds
            self.pos += 4
            total = _plus(total, TOKEN)
            outside = self.packed
            self.packed = 0
            part = self._expression()
            if second == 0x4C or second == 0x52:
                part = _plus(part, self._expression())
            total = _plus(total, self._expanded(part))
            self.packed = outside
        else:
            count = _operands(first, second)
            if count == 0:
                return self._fail(NOT_KNOWN)
            self.pos += 2
            if count == 9:
                total = _plus(total, self._list())
            else:
                if count == 1 and self._look(0) == 0x5F and (first == 0x70 or first == 0x6D):  # pp_ mm_
                    self.pos += 1
                while count > 0 and self.bad == 0:
                    total = _plus(total, self._expression())
                    count -= 1
        self.level -= 1
        return total + ONE

    def _list(self):
        """Expressions up to an `E`."""
        total = ONE | TOKEN
        while self._look(0) != 0x45 and self.bad == 0:
            total = _plus(total, self._expression())
        self.pos += 1
        return total

    def _base_name(self):
        """The last part of a name that is not resolved: a name, `on` and an operator, `dn` and a type."""
        first = self._look(0)
        second = self._look(1)
        if first == 0x64 and second == 0x6E:  # dn
            self.pos += 2
            if 0x30 <= self._look(0) <= 0x39:
                return self._simple_id()
            return self._unresolved_type()
        if first == 0x6F and second == 0x6E:  # on
            self.pos += 2
            total = self._operator_name(False)
            if self._look(0) == 0x49:
                total = _plus(total, self._template_args(False))
            return total
        return self._simple_id()

    def _simple_id(self):
        total = self._source_name()
        if self._look(0) == 0x49:
            total = _plus(total, self._template_args(False)) + ONE
        return total

    def _unresolved_type(self):
        byte = self._look(0)
        if byte == 0x54:
            total = self._template_param()
            self._push(total)
            return total
        if byte == 0x44:
            total = self._decltype()
            self._push(total)
            return total
        return self._substitution()

    def _unresolved_name(self):
        """`sr TYPE NAME`, `srN TYPE NAMES E NAME`, `sr NAMES E NAME`, or a plain one."""
        if self._look(0) == 0x67 and self._look(1) == 0x73:
            self.pos += 2
        if self._look(0) != 0x73 or self._look(1) != 0x72:
            return self._base_name()
        self.pos += 2
        if self._look(0) == 0x4E:  # N
            self.pos += 1
            total = self._unresolved_type()
            if self._look(0) == 0x49:
                total = _plus(total, self._template_args(False)) + ONE
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._simple_id()) + ONE
            self.pos += 1
        elif 0x30 <= self._look(0) <= 0x39:
            total = ONE | TOKEN
            while self._look(0) != 0x45 and self.bad == 0:
                total = _plus(total, self._simple_id()) + ONE
            self.pos += 1
        else:
            total = self._unresolved_type()
            if self._look(0) == 0x49:
                total = _plus(total, self._template_args(False)) + ONE
        return _plus(total, self._base_name()) + ONE
