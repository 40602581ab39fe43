# cython: language_level=3, boundscheck=True, wraparound=False
"""Bounds on the length and depth of the demangled form of an Itanium C++ name, found without demangling it.

A name of 250 bytes may stand for gigabytes: `S0_` stands for the text of an earlier part, which may itself refer to
others, twice each. So this module reads a name as LLVM's demangler does, and counts where that one builds text: each
part has a size and a depth, and a table keeps the parts that a reference can mean. Time is linear in the length of the
name.

A size counts each letter that stands for something as the longest thing that it may be. A pack expansion (`Dp`) counts
its pattern as often as the longest pack so far has elements, plus the packs themselves.

It also sees whether a part of the name has internal linkage, by the L before it: what each unit has for itself.

What is not a name, or is of a kind that this module does not know, is not measured: `bad` is set.
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

STANDARD = cython.declare(u64, 96)  # what Sa, Ss, Si ... stand for, written in full
IS_PACK = cython.declare(u64, 1 << 63)  # of an argument
LISTED = cython.declare(cython.int, 9)  # as many operands as there are up to an E

# Operators of expressions, by how many operands they have.
ONE_OPERAND = b"ad az co de dl da mm ng nt nx pp ps sz tw "
TWO_OPERANDS = b"aa an aN aS cm ds dv dV eo eO eq ge gt ix le ls lS lt mi mI ml mL ne oo or oR pl pL pm rm rM rs rS ss "
THREE_OPERANDS = b"qu "
LISTS = b"cl cp il "


def _codes(operators: bytes) -> frozenset[int]:
    """Return operators as numbers of two letters."""
    return frozenset(operators[at] << 8 | operators[at + 1] for at in range(0, len(operators), 3))


OPERANDS = {
    code: count
    for count, operators in ((1, ONE_OPERAND), (2, TWO_OPERANDS), (3, THREE_OPERANDS), (9, LISTS))
    for code in _codes(operators)
}


@cython.cclass
class Measure:
    """Measures one name: upper bounds `size` and `depth`, unless `bad` has the reason why they are not known.

    `has_internal`: a part of it is a static function, or another name with internal linkage.
    """

    text: Bytes
    subs: u64[::1]
    args: u64[::1]
    length: cython.size_t
    pos: cython.size_t
    levels: cython.size_t
    level: cython.size_t
    sub_count: cython.size_t
    arg_start: cython.size_t
    arg_count: cython.size_t
    arg_top: cython.size_t
    pack: u64
    packed: u64
    forward: u64
    largest: u64
    identifier: u64
    is_forward: cython.int
    conversion: cython.int
    in_lambda: cython.int
    size = cython.declare(u64, visibility="readonly")
    depth = cython.declare(u64, visibility="readonly")
    bad = cython.declare(cython.int, visibility="readonly")
    has_internal = cython.declare(cython.int, visibility="readonly")

    def __init__(self, text: Bytes, subs: u64[::1], args: u64[::1], levels: cython.size_t) -> None:
        """Measure a name that begins with _Z; `subs` and `args` are u64, one more than the name has bytes.

        `levels` is how deep its parts may be nested, else it is TOO_DEEP: what this takes of the stack.
        """
        self.text, self.subs, self.args, self.levels = text, subs, args, levels
        self.length = len(text)
        self.forward = 0
        total: u64 = 0
        turn: cython.int = 0
        while turn < 3:  # T_ may mean arguments that follow; their size is known in the second turn
            self.pos = 2
            self.bad = self.level = self.sub_count = self.arg_start = self.arg_count = self.arg_top = 0
            self.pack = self.packed = self.largest = self.identifier = 0
            self.is_forward = self.conversion = self.in_lambda = self.has_internal = 0
            total = self._encoding()
            if self.bad != 0 or self.is_forward == 0 or self.forward == self.largest:
                break
            self.forward = self.largest
            turn += 1
        if turn == 3:
            self._fail(NOT_KNOWN)
        total = plus(total, len(text) - self.pos)  # a suffix
        self.size, self.depth = total & SIZE_MASK, total >> SIZE_BITS

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _fail(self, why: cython.int) -> u64:
        if self.bad == 0:
            self.bad = why
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _look(self, ahead: cython.int) -> cython.int:
        """Return the byte at hand, or one after it.

        0 at the end, and once the name is refused, which ends all loops.
        """
        at: cython.size_t = self.pos + ahead
        if at >= self.length or self.bad != 0:
            return 0
        return self.text[at]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _enter(self) -> u64:
        self.level += 1
        if self.level > self.levels:
            self._fail(TOO_DEEP)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _push(self, part: u64) -> u64:
        """Keep a part that a reference can mean; it is one deeper than what it is of."""
        self.subs[self.sub_count] = part
        self.sub_count += 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _digits(self) -> u64:
        """Read a decimal number, or nothing."""
        value: u64 = 0
        byte: cython.int = self._look(0)
        while ord("0") <= byte <= ord("9"):
            if value < LIMIT:
                value = value * 10 + byte - ord("0")
            self.pos += 1
            byte = self._look(0)
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _number(self) -> u64:
        """Read a number that may be negative."""
        if self._look(0) == ord("n"):
            self.pos += 1
        self._digits()

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _index(self) -> u64:
        """Read the number of a reference: 0 for nothing, else the base 36 number up to `_` plus 1."""
        value: u64 = 0
        byte: cython.int = self._look(0)
        if byte == ord("_"):
            self.pos += 1
            return 0
        while (ord("0") <= byte <= ord("9")) or (ord("A") <= byte <= ord("Z")):
            if value < LIMIT:
                value = value * 36 + (byte - ord("0") if byte <= ord("9") else byte - ord("7"))
            self.pos += 1
            byte = self._look(0)
        if byte != ord("_"):
            self._fail(NOT_KNOWN)
        self.pos += 1
        return value + 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _source_name(self) -> u64:
        byte: cython.int = self._look(0)
        size: u64
        if byte < ord("0") or byte > ord("9"):
            return self._fail(NOT_KNOWN)
        size = self._digits()
        if size > self.length - self.pos or self.bad != 0:
            return self._fail(NOT_KNOWN)
        self.pos += size
        if size + TOKEN > self.identifier:
            self.identifier = size + TOKEN
        return ONE | (size + TOKEN)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _discriminator(self) -> u64:
        """Read what distinguishes local entities of one name."""
        if self._look(0) == ord("_"):
            if self._look(1) == ord("_"):
                self.pos += 2
                self._digits()
                if self._look(0) == ord("_"):
                    self.pos += 1
            elif ord("0") <= self._look(1) <= ord("9"):
                self.pos += 2

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _substitution(self) -> u64:
        """Read `S_`, `S0_`: a part that came before; `Sa` and the like. The caller reads `St`."""
        part: u64
        number: u64
        byte: cython.int
        self.pos += 1
        byte = self._look(0)
        if ord("a") <= byte <= ord("z"):
            self.pos += 1
            if self.identifier < STANDARD:
                self.identifier = STANDARD
            part = ONE | STANDARD
            if self._look(0) == ord("B"):
                while self._look(0) == ord("B"):
                    self.pos += 1
                    part = plus(part, self._source_name()) + ONE
                self._push(part)
            return part
        number = self._index()
        if number >= self.sub_count:
            return self._fail(NOT_KNOWN)
        return self.subs[number]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _template_param(self) -> u64:
        """Read `T_`, `T0_`, `TL0__`: an argument of the template."""
        part: u64
        number: u64
        self.pos += 1
        if self._look(0) == ord("L"):  # L: of a lambda, or of a template that is an argument
            self.pos += 1
            self._digits()
            if self._look(0) != ord("_"):
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
            return plus(part, TOKEN) + ONE
        if self.in_lambda:  # auto
            return ONE | TOKEN
        return self._fail(NOT_KNOWN)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _template_args(self, is_named: cython.bint) -> u64:
        """Read `I ... E`; with `is_named` these are the arguments that `T_` means from now on."""
        part: u64
        total: u64
        byte: cython.int
        own: cython.size_t
        is_pack: cython.int
        self.pos += 1
        self._enter()
        if is_named:
            self.arg_start = self.arg_top
            self.arg_count = 0
        own = self.arg_start
        total = ONE | TOKEN
        byte = self._look(0)
        while byte != ord("E") and self.bad == 0:
            if byte == ord("Q"):
                self.pos += 1
                total = plus(total, self._expression())
            else:
                is_pack = byte == ord("J")
                part = self._template_arg()
                if part & SIZE_MASK > self.largest & SIZE_MASK:
                    self.largest = part
                if is_named and self.bad == 0:
                    if own != self.arg_start:
                        return self._fail(NOT_KNOWN)
                    self.args[self.arg_top] = part | IS_PACK if is_pack else part
                    self.arg_top += 1
                    self.arg_count += 1
                total = plus(total, part)
            byte = self._look(0)
        self.pos += 1
        self.level -= 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _template_arg(self) -> u64:
        byte: cython.int = self._look(0)
        following: cython.int = self._look(1)
        part: u64
        total: u64
        count: u64
        if byte == ord("X"):
            self.pos += 1
            return self._ended(self._expression())
        if byte == ord("J"):  # J: a pack
            self.pos += 1
            self._enter()
            total = ONE | TOKEN
            count = 0
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._template_arg())
                count += 1
            if count > self.pack:
                self.pack = count
            self.pos += 1
            self.level -= 1
            return total + ONE
        if byte == ord("L"):
            return self._literal()
        if byte == ord("T") and (
            following == ord("y") or following == ord("n") or following == ord("t") or following == ord("p")
        ):  # Ty Tn ..
            part = self._param_declaration()
            return plus(part, self._template_arg())
        return self._type(True)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _param_declaration(self) -> u64:
        """Read `Ty`, `Tn TYPE`, `Tt ...

        E`, `Tp`: a parameter of a template, in a lambda or a template template argument.
        """
        following: cython.int = self._look(1)
        total: u64
        self.pos += 2
        if following == ord("y"):
            return ONE | TOKEN
        if following == ord("n"):
            return plus(ONE | TOKEN, self._type(True))
        if following == ord("p"):
            return plus(ONE | TOKEN, self._param_declaration())
        if following == ord("t"):
            self._enter()
            total = ONE | TOKEN
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._param_declaration())
            self.pos += 1
            self.level -= 1
            return total
        return self._fail(NOT_KNOWN)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _ended(self, part: u64) -> u64:
        """Take the `E` after a part."""
        if self._look(0) != ord("E"):
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return part + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _literal(self) -> u64:
        """Read `L TYPE VALUE E`, `L _Z ENCODING E`."""
        part: u64
        byte: cython.int
        start: cython.size_t
        self.pos += 1
        if self._look(0) == ord("_") and self._look(1) == ord("Z"):
            self.pos += 2
            return self._ended(self._encoding())
        if self._look(0) == ord("Z"):
            self.pos += 1
            return self._ended(self._encoding())
        part = self._type(True)
        byte = self._look(0)
        start = self.pos
        while (ord("0") <= byte <= ord("9")) or (ord("a") <= byte <= ord("z")) or byte == ord("_"):
            self.pos += 1
            byte = self._look(0)
        return self._ended(plus(part, TOKEN + 3 * (self.pos - start)))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _encoding(self) -> u64:
        """Read a function, its parameters and all that is in them; or data."""
        part: u64
        total: u64
        byte: cython.int
        old_args: cython.size_t
        old_count: cython.size_t
        self._enter()
        old_args = self.arg_start
        old_count = self.arg_count
        byte = self._look(0)
        if (byte == ord("T") or byte == ord("G")) and self._look(1) != 0:
            total = self._special_name()
        else:
            total = self._name(True)
            byte = self._look(0)
            while (
                byte != 0
                and byte != ord("E")
                and byte != ord(".")
                and byte != ord("@")
                and byte != ord("_")
                and self.bad == 0
            ):
                # E . @ _
                if byte == ord("Q"):
                    self.pos += 1
                    part = self._expression()
                elif byte == ord("U") and self._look(1) == ord("a") and self._look(2) == ord("9"):
                    self.pos += 2
                    part = self._source_name()
                    if self._look(0) == ord("I"):
                        part = plus(part, self._template_args(False))
                else:
                    part = self._type(True)
                total = plus(total, part)
                total = plus(total, TOKEN)
                byte = self._look(0)
        self.arg_start = old_args
        self.arg_count = old_count
        self.level -= 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _call_offset(self) -> u64:
        """Read how far a thunk adjusts `this`."""
        byte: cython.int = self._look(0)
        self.pos += 1
        if byte != ord("h") and byte != ord("v"):
            self._fail(NOT_KNOWN)
        self._number()
        if byte == ord("v"):
            self.pos += 1
            self._number()
        if self._look(0) != ord("_"):
            self._fail(NOT_KNOWN)
        self.pos += 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _special_name(self) -> u64:
        """Read vtables, type information, thunks, guards."""
        first: cython.int = self._look(0)
        byte: cython.int = self._look(1)
        total: u64
        self.pos += 2
        total = ONE | 2 * TOKEN
        if first == ord("G"):
            if byte == ord("I"):  # I: a module's initializer
                while self._look(0) == ord("W"):
                    self.pos += 1
                    if self._look(0) == ord("P"):
                        self.pos += 1
                    total = plus(total, self._source_name())
                return total
            if byte != ord("V") and byte != ord("R"):
                return self._fail(NOT_KNOWN)
            total = plus(total, self._name(byte == ord("R")))
            if byte == ord("R"):
                self._index()
            return total
        if byte == ord("V") or byte == ord("T") or byte == ord("I") or byte == ord("S"):
            return plus(total, self._type(True))
        if byte == ord("W") or byte == ord("H"):
            return plus(total, self._name(False))
        if byte == ord("A"):
            return plus(total, self._template_arg())
        if byte == ord("C"):
            total = plus(total, self._type(True))
            self._digits()
            if self._look(0) != ord("_"):
                return self._fail(NOT_KNOWN)
            self.pos += 1
            return plus(total, self._type(True))
        if byte == ord("c"):
            self._call_offset()
            self._call_offset()
        else:
            self.pos -= 1
            self._call_offset()
        return plus(total, self._encoding())

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _name(self, is_named: cython.bint) -> u64:
        byte: cython.int = self._look(0)
        total: u64
        if byte == ord("N"):
            return self._nested_name(is_named)
        if byte == ord("Z"):
            return self._local_name(is_named)
        if byte == ord("S") and self._look(1) != ord("t"):
            total = self._substitution()
            if self._look(0) != ord("I"):
                return self._fail(NOT_KNOWN)
            return plus(total, self._template_args(is_named)) + ONE
        total = ONE | TOKEN
        if byte == ord("S"):
            self.pos += 2
        total = plus(total, self._unqualified_name(is_named)) + ONE
        if self._look(0) == ord("I"):
            self._push(total)
            total = plus(total, self._template_args(is_named)) + ONE
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _local_name(self, is_named: cython.bint) -> u64:
        total: u64
        byte: cython.int
        self.pos += 1
        total = self._encoding()
        if self._look(0) != ord("E"):
            return self._fail(NOT_KNOWN)
        self.pos += 1
        byte = self._look(0)
        if byte == ord("s"):  # s: a string
            self.pos += 1
            self._discriminator()
            return plus(total, TOKEN)
        if byte == ord("d"):  # d: in a default argument
            self.pos += 1
            self._number()
            if self._look(0) != ord("_"):
                return self._fail(NOT_KNOWN)
            self.pos += 1
            return plus(total, self._name(is_named)) + ONE
        total = plus(total, self._name(is_named)) + ONE
        self._discriminator()
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unqualified_name(self, is_named: cython.bint) -> u64:
        byte: cython.int = self._look(0)
        total: u64 = ONE | TOKEN
        following: cython.int
        while byte == ord("W"):  # W: a module
            self.pos += 1
            if self._look(0) == ord("P"):
                self.pos += 1
            total = plus(total, self._source_name())
            self._push(total)
            byte = self._look(0)
        if byte == ord("F"):  # F: a friend
            self.pos += 1
            byte = self._look(0)
        if byte == ord("L"):  # L: with internal linkage
            self.has_internal = 1
            self.pos += 1
            byte = self._look(0)
        if ord("0") <= byte <= ord("9"):
            total = plus(total, self._source_name())
        elif byte == ord("U"):
            total = plus(total, self._unnamed())
        elif byte == ord("D") and self._look(1) == ord("C"):  # DC: a structured binding
            self.pos += 2
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._source_name())
            self.pos += 1
        elif byte == ord("C") or byte == ord("D"):  # C1, CI1 TYPE, D0: repeats the name of the class
            following = self._look(1)
            self.pos += 2
            if byte == ord("C") and following == ord("I"):
                self.pos += 1
                total = plus(total, self._name(False))
            total = plus(total, self.identifier)
        else:
            total = plus(total, self._operator_name(is_named))
        while self._look(0) == ord("B"):  # B: an ABI tag
            self.pos += 1
            total = plus(total, self._source_name()) + ONE
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _operator_name(self, is_named: cython.bint) -> u64:
        first: cython.int = self._look(0)
        second: cython.int = self._look(1)
        part: u64
        outside: u64
        if first < ord("a") or first > ord("z") or second == 0:
            return self._fail(NOT_KNOWN)
        self.pos += 2
        if first == ord("c") and second == ord("v"):  # cv: to a type
            outside = self.conversion
            if is_named:
                self.conversion = 1
            part = self._type(False)
            self.conversion = outside
            return plus(ONE | TOKEN, part)
        if first == ord("l") and second == ord("i"):  # li: ""_name
            return plus(ONE | TOKEN, self._source_name())
        if first == ord("v") and ord("0") <= second <= ord("9"):
            return plus(ONE | TOKEN, self._source_name())
        return ONE | TOKEN

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unnamed(self) -> u64:
        """Read `Ut_`, `Ul TYPES E_`, `Ub_`: a type without a name, a lambda, a block."""
        kind: cython.int = self._look(1)
        part: u64
        total: u64
        byte: cython.int
        following: cython.int
        self.pos += 2
        total = ONE | 2 * TOKEN
        if kind == ord("l"):
            self._enter()
            self.in_lambda += 1
            byte = self._look(0)
            while byte != ord("E") and self.bad == 0:
                following = self._look(1)
                if byte == ord("Q"):
                    self.pos += 1
                    part = self._expression()
                elif byte == ord("T") and (
                    following == ord("y") or following == ord("n") or following == ord("t") or following == ord("p")
                ):
                    part = self._param_declaration()
                else:
                    part = self._type(True)
                total = plus(total, part)
                byte = self._look(0)
            self.pos += 1
            self.in_lambda -= 1
            self.level -= 1
        elif kind != ord("t") and kind != ord("b"):
            return self._fail(NOT_KNOWN)
        self._digits()
        if self._look(0) != ord("_"):
            return self._fail(NOT_KNOWN)
        self.pos += 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _nested_name(self, is_named: cython.bint) -> u64:
        total: u64
        byte: cython.int
        following: cython.int
        is_pushed: cython.int
        self.pos += 1
        self._enter()
        byte = self._look(0)
        while byte == ord("r") or byte == ord("V") or byte == ord("K") or byte == ord("H") or byte == ord("O"):
            self.pos += 1
            byte = self._look(0)
        if byte == ord("R"):
            self.pos += 1
            byte = self._look(0)
        total = ONE | TOKEN
        is_pushed = 0
        while byte != ord("E") and self.bad == 0:
            is_pushed = 1
            following = self._look(1)
            if byte == ord("I"):
                total = plus(total, self._template_args(is_named)) + ONE
            elif byte == ord("T"):
                total = plus(total, self._template_param()) + ONE
            elif byte == ord("D") and (following == ord("t") or following == ord("T")):
                total = plus(total, self._decltype()) + ONE
            elif byte == ord("S") and following == ord("t"):
                self.pos += 2
                total = plus(total, TOKEN)
                is_pushed = 0
            elif byte == ord("S"):
                total = plus(total, self._substitution())
                is_pushed = 0
            elif byte == ord("M"):  # M: of a data member
                self.pos += 1
                is_pushed = 0
            else:
                total = plus(total, self._unqualified_name(is_named)) + ONE
            if is_pushed and self.bad == 0:
                self._push(total)
            byte = self._look(0)
        if self.sub_count == 0:
            return self._fail(NOT_KNOWN)
        self.sub_count -= 1  # the whole is not a part of itself
        self.pos += 1
        self.level -= 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _decltype(self) -> u64:
        self.pos += 2
        return self._ended(plus(ONE | TOKEN, self._expression()))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _type(self, takes_args: cython.bint) -> u64:
        """Read a type. All but the plain ones are parts that a reference can mean."""
        part: u64
        byte: cython.int
        following: cython.int
        last: cython.int
        ahead: cython.int
        before: cython.size_t
        self._enter()
        before = 0  # P, R and the like in a row: each is a part
        byte = self._look(0)
        while byte == ord("P") or byte == ord("R") or byte == ord("O") or byte == ord("C") or byte == ord("G"):
            before += 1
            self.pos += 1
            byte = self._look(0)
        if byte == ord("r") or byte == ord("V") or byte == ord("K"):
            ahead = 1
            following = self._look(ahead)
            while following == ord("r") or following == ord("V") or following == ord("K"):
                ahead += 1
                following = self._look(ahead)
            last = self._look(ahead + 1)
            self.pos += ahead
            if following == ord("F") or (
                following == ord("D") and (last == ord("o") or last == ord("O") or last == ord("w") or last == ord("x"))
            ):
                part = self._bare_type(takes_args)  # those of a member function, part of its type
            else:
                part = plus(self._type(takes_args), TOKEN) + ONE
                self._push(part)
        else:
            part = self._bare_type(takes_args)
        while before and self.bad == 0:
            part = plus(part, TOKEN) + ONE
            self._push(part)
            before -= 1
        self.level -= 1
        return part

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _bare_type(self, takes_args: cython.bint) -> u64:
        byte: cython.int = self._look(0)
        following: cython.int = self._look(1)
        part: u64
        outside: u64
        if byte == 0:
            return self._fail(NOT_KNOWN)
        if ord("a") <= byte <= ord("z") and byte != ord("u") and byte != ord("r"):  # a to z: plain
            self.pos += 1
            return ONE | TOKEN
        if byte == ord("u"):  # u: one of the vendor
            self.pos += 1
            part = self._source_name()
            if self._look(0) == ord("I"):
                self.pos += 1
                part = self._ended(plus(part, self._type(True)))
        elif byte == ord("U"):  # U: qualified by the vendor
            self.pos += 1
            part = self._source_name()
            if self._look(0) == ord("I"):
                part = plus(part, self._template_args(False))
            byte = self._look(0)
            while (
                byte == ord("U") or byte == ord("r") or byte == ord("V") or byte == ord("K")
            ) and self.bad == 0:  # U r V K: one part
                self.pos += 1
                if byte == ord("U"):
                    part = plus(part, self._source_name()) + ONE
                    if self._look(0) == ord("I"):
                        part = plus(part, self._template_args(False))
                byte = self._look(0)
            part = plus(plus(part, TOKEN), self._type(takes_args)) + ONE
        elif byte == ord("F") or (
            byte == ord("D")
            and (following == ord("o") or following == ord("O") or following == ord("w") or following == ord("x"))
        ):
            part = self._function_type()
        elif byte == ord("D"):
            if following == ord("t") or following == ord("T"):
                part = self._decltype()
            elif following == ord("p"):  # p: a pack expansion
                self.pos += 2
                outside = self.packed
                self.packed = 0
                part = self._type(takes_args)
                part = self._expanded(part)
                self.packed = outside
            elif following == ord("v"):  # v: a vector
                self.pos += 2
                if ord("0") <= self._look(0) <= ord("9"):
                    self._digits()
                    part = ONE | TOKEN
                elif self._look(0) == ord("_"):
                    part = ONE | TOKEN
                else:
                    part = plus(self._expression(), TOKEN)
                if self._look(0) != ord("_"):
                    return self._fail(NOT_KNOWN)
                self.pos += 1
                if self._look(0) == ord("p"):  # p: of pixels
                    self.pos += 1
                else:
                    part = plus(part, self._type(True)) + ONE
            elif following == ord("F") or following == ord("B") or following == ord("U"):  # F16_ B8_ U8_: of a width
                self.pos += 2
                part = ONE | 2 * TOKEN
                if ord("0") <= self._look(0) <= ord("9"):
                    self._digits()
                else:
                    part = plus(part, self._expression())
                if self._look(0) == ord("b"):
                    self.pos += 1
                elif self._look(0) == ord("_"):
                    self.pos += 1
                else:
                    return self._fail(NOT_KNOWN)
                return part
            elif following == ord("k") or following == ord("K"):  # k K: constrained
                return self._fail(NOT_KNOWN)
            elif ord("a") <= following <= ord("z"):
                self.pos += 2
                return ONE | TOKEN
            else:
                return self._fail(NOT_KNOWN)
        elif byte == ord("A"):
            self.pos += 1
            part = ONE | TOKEN
            if ord("0") <= self._look(0) <= ord("9"):
                self._digits()
            elif self._look(0) != ord("_"):
                part = plus(part, self._expression())
            if self._look(0) != ord("_"):
                return self._fail(NOT_KNOWN)
            self.pos += 1
            part = plus(part, self._type(True)) + ONE
        elif byte == ord("M"):
            self.pos += 1
            part = self._type(True)
            part = plus(plus(part, self._type(True)), TOKEN) + ONE
        elif byte == ord("T") and (following == ord("s") or following == ord("u") or following == ord("e")):
            self.pos += 2
            part = plus(self._name(False), TOKEN)
        elif byte == ord("T"):
            part = self._template_param()
            if takes_args and self._look(0) == ord("I"):
                self._push(part)
                part = plus(part, self._template_args(False)) + ONE
        elif byte == ord("S") and following != ord("t"):
            part = self._substitution()
            if not takes_args or self._look(0) != ord("I"):
                return part + ONE
            part = plus(part, self._template_args(False)) + ONE
        elif (
            byte == ord("r")
            or byte == ord("V")
            or byte == ord("K")
            or byte == ord("P")
            or byte == ord("R")
            or byte == ord("O")
        ):
            return self._type(takes_args)
        else:
            part = self._name(False)
        if self.bad == 0:
            self._push(part)
        return part

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _expanded(self, part: u64) -> u64:
        """Read a pattern as often as the longest pack has elements, and once the packs that are in it."""
        size: u64 = part & SIZE_MASK
        packed: u64 = self.packed
        count: u64
        if packed > size:
            packed = size
        count = self.pack + 1
        if (size - packed + TOKEN) * count + packed > LIMIT or count > LIMIT:
            size = LIMIT
        else:
            size = (size - packed + TOKEN) * count + packed
        return ((part >> SIZE_BITS) + 1) << SIZE_BITS | size

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _function_type(self) -> u64:
        total: u64
        byte: cython.int
        kind: cython.int
        self._enter()
        total = ONE | 2 * TOKEN
        while self._look(0) == ord("D"):  # Do, DO EXPR E, Dw TYPES E, Dx
            kind = self._look(1)
            self.pos += 2
            if kind == ord("O"):
                total = self._ended(plus(total, self._expression()))
            elif kind == ord("w"):
                while self._look(0) != ord("E") and self.bad == 0:
                    total = plus(total, self._type(True))
                self.pos += 1
            elif kind != ord("o") and kind != ord("x"):
                return self._fail(NOT_KNOWN)
        if self._look(0) != ord("F"):
            return self._fail(NOT_KNOWN)
        self.pos += 1
        if self._look(0) == ord("Y"):  # Y: extern "C"
            self.pos += 1
        byte = self._look(0)
        while byte != ord("E") and self.bad == 0:
            if (byte == ord("R") or byte == ord("O")) and self._look(1) == ord("E"):
                self.pos += 1
                break
            total = plus(total, self._type(True))
            byte = self._look(0)
        self.pos += 1
        self.level -= 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _expression(self) -> u64:
        part: u64
        total: u64
        count: u64
        outside: u64
        first: cython.int
        second: cython.int
        self._enter()
        total = ONE | TOKEN
        first = self._look(0)
        second = self._look(1)
        if first == ord("g") and second == ord("s"):
            self.pos += 2
            first = self._look(0)
            second = self._look(1)
        if first == ord("L"):
            total = plus(total, self._literal())
        elif first == ord("T"):
            total = plus(total, self._template_param())
        elif first == ord("f") and (
            second == ord("p") or (second == ord("L") and ord("0") <= self._look(2) <= ord("9"))
        ):
            self.pos += 2
            if second == ord("p") and self._look(0) == ord("T"):  # fpT: this
                self.pos += 1
            else:
                if second == ord("L"):
                    self._digits()
                    self.pos += 1
                while self._look(0) in (ord("r"), ord("V"), ord("K")):
                    self.pos += 1
                self._digits()
                if self._look(0) != ord("_"):
                    return self._fail(NOT_KNOWN)
                self.pos += 1
        elif (
            ord("0") <= first <= ord("9")
            or (first == ord("o") and second == ord("n"))
            or (first == ord("d") and second == ord("n"))
        ):
            total = plus(total, self._base_name())
        elif first == ord("s") and second == ord("r"):
            total = plus(total, self._unresolved_name())
        elif (first == ord("c") and second == ord("v")) or (first == ord("t") and second == ord("l")):
            self.pos += 2
            total = plus(total, self._type(False))
            if first == ord("t"):
                total = plus(total, self._list())
            elif self._look(0) == ord("_"):
                self.pos += 1
                total = plus(total, self._list())
            else:
                total = plus(total, self._expression())
        elif (
            (first == ord("s") or first == ord("a") or first == ord("t"))
            and second == ord("t")
            or (first == ord("t") and second == ord("i"))
        ):
            self.pos += 2  # st at tt ti TYPE
            total = plus(total, self._type(True))
        elif first == ord("t") and second == ord("e") or (first == ord("a") and second == ord("z")):
            self.pos += 2
            total = plus(total, self._expression())
        elif (first == ord("d") or first == ord("p")) and second == ord("t"):
            self.pos += 2
            total = plus(total, self._expression())
            total = plus(total, self._unresolved_name())
        elif (first == ord("d") or first == ord("s") or first == ord("c") or first == ord("r")) and second == ord("c"):
            self.pos += 2
            total = plus(total, self._type(True))
            total = plus(total, self._expression())
        elif first == ord("s") and (second == ord("Z") or second == ord("p")):
            self.pos += 2
            if second == ord("p"):
                outside = self.packed
                self.packed = 0
                part = self._expression()
                total = plus(total, self._expanded(part))
                self.packed = outside
            elif self._look(0) == ord("T"):
                total = plus(total, self._template_param())
            else:
                total = plus(total, self._expression())
        elif first == ord("s") and second == ord("P"):
            self.pos += 2
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._template_arg())
            self.pos += 1
        elif first == ord("t") and second == ord("r"):
            self.pos += 2
        elif first == ord("f") and second in (ord("l"), ord("r"), ord("L"), ord("R")):
            self.pos += 4
            total = plus(total, TOKEN)
            outside = self.packed
            self.packed = 0
            part = self._expression()
            if second == ord("L") or second == ord("R"):
                part = plus(part, self._expression())
            total = plus(total, self._expanded(part))
            self.packed = outside
        else:
            count = OPERANDS.get(first << 8 | second, 0)
            if count == 0:
                return self._fail(NOT_KNOWN)
            self.pos += 2
            if count == LISTED:
                total = plus(total, self._list())
            else:
                if count == 1 and self._look(0) == ord("_") and (first == ord("p") or first == ord("m")):
                    self.pos += 1
                while count > 0 and self.bad == 0:
                    total = plus(total, self._expression())
                    count -= 1
        self.level -= 1
        return total + ONE

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _list(self) -> u64:
        """Expressions up to an `E`."""
        total: u64 = ONE | TOKEN
        while self._look(0) != ord("E") and self.bad == 0:
            total = plus(total, self._expression())
        self.pos += 1
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _base_name(self) -> u64:
        """Read the last part of a name that is not resolved: a name, `on` and an operator, `dn` and a type."""
        first: cython.int = self._look(0)
        second: cython.int = self._look(1)
        total: u64
        if first == ord("d") and second == ord("n"):
            self.pos += 2
            if ord("0") <= self._look(0) <= ord("9"):
                return self._simple_id()
            return self._unresolved_type()
        if first == ord("o") and second == ord("n"):
            self.pos += 2
            total = self._operator_name(False)
            if self._look(0) == ord("I"):
                total = plus(total, self._template_args(False))
            return total
        return self._simple_id()

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _simple_id(self) -> u64:
        total: u64 = self._source_name()
        if self._look(0) == ord("I"):
            total = plus(total, self._template_args(False)) + ONE
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unresolved_type(self) -> u64:
        byte: cython.int = self._look(0)
        total: u64
        if byte == ord("T"):
            total = self._template_param()
            self._push(total)
            return total
        if byte == ord("D"):
            total = self._decltype()
            self._push(total)
            return total
        return self._substitution()

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unresolved_name(self) -> u64:
        """Read `sr TYPE NAME`, `srN TYPE NAMES E NAME`, `sr NAMES E NAME`, or a plain name."""
        total: u64
        if self._look(0) == ord("g") and self._look(1) == ord("s"):
            self.pos += 2
        if self._look(0) != ord("s") or self._look(1) != ord("r"):
            return self._base_name()
        self.pos += 2
        if self._look(0) == ord("N"):
            self.pos += 1
            total = self._unresolved_type()
            if self._look(0) == ord("I"):
                total = plus(total, self._template_args(False)) + ONE
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._simple_id()) + ONE
            self.pos += 1
        elif ord("0") <= self._look(0) <= ord("9"):
            total = ONE | TOKEN
            while self._look(0) != ord("E") and self.bad == 0:
                total = plus(total, self._simple_id()) + ONE
            self.pos += 1
        else:
            total = self._unresolved_type()
            if self._look(0) == ord("I"):
                total = plus(total, self._template_args(False)) + ONE
        return plus(total, self._base_name()) + ONE
