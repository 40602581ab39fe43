"""The calls to which a function may pass on the contents of some of its argument registers, such as its object.

    push %rbx; mov %rdi, %rbx; call tick; mov %rbx, %rdi; call flip       rdi -> rbx; tick gets nothing, flip the object

Copies are followed from register to register, and through the stack as a whole: any load from the stack may return any
value that was stored there. Where paths meet, a register may hold the object if it does on one of them; after a jump,
at code to which no known path leads (a landing pad, a switch), if it does anywhere. An address above that of the
object is a part of it, and no longer the object. Values stored elsewhere in memory are not followed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from icf.elf.types import Machine

if TYPE_CHECKING:
    import capstone

Registers = frozenset[str]
_ROUNDS = 8  # until no backward jump adds anything; else all is passed on
_INSTRUCTION_LIMIT = 20_000
_ADDRESS = re.compile(r"(?:0x)?[0-9a-f]+")


class Passed(NamedTuple):
    """A call or a jump out of the function, and the argument registers that may hold one of the given values."""

    vaddr: int
    return_address: int
    is_jump: bool
    registers: Registers


class _Machine(NamedTuple):
    """The words of a machine."""

    arguments: Registers
    result: str
    lost_in_calls: Registers
    kept: Registers
    calls: Registers
    jumps: Registers  # that always jump
    copies: Registers  # first operand = second
    conditional: Registers  # first operand may become one of the others
    adds: Registers  # first operand = base plus a number
    stores: Registers
    loads: Registers
    sets: Registers  # first operand = something else
    narrow: dict[str, str]  # a register of which the lower half, when written, clears the rest
    stack: re.Pattern[str]


def _words(text: str) -> Registers:
    return frozenset(text.split())


_X86_64 = _Machine(
    arguments=_words("rdi rsi rdx rcx r8 r9"),
    result="rax",
    lost_in_calls=_words("rax rcx rdx rsi rdi r8 r9 r10 r11"),
    kept=_words("rbx rbp r12 r13 r14 r15"),
    calls=_words("call"),
    jumps=_words("jmp ret ud2 hlt int3"),
    copies=_words("mov movabs"),
    conditional=frozenset(f"cmov{kind}" for kind in "a ae b be e g ge l le ne no np ns o p s".split()),
    adds=_words("lea"),
    stores=_words("mov push movq vmovq movups movaps"),
    loads=_words("mov pop"),
    sets=_words("xor movzx movsx movsxd"),
    narrow={f"e{name}": f"r{name}" for name in "ax bx cx dx si di bp".split()}
    | {f"r{number}d": f"r{number}" for number in range(8, 16)},
    stack=re.compile(r"\[r[sb]p\b[^*\]]*\]"),
)
_AARCH64 = _Machine(
    arguments=frozenset(f"x{number}" for number in range(8)),
    result="x0",
    lost_in_calls=frozenset(f"x{number}" for number in range(19)),
    kept=frozenset(f"x{number}" for number in range(19, 30)),
    calls=_words("bl blr blraa blrab blraaz blrabz"),
    jumps=_words("b br ret braa brab braaz brabz brk udf"),
    copies=_words("mov"),
    conditional=_words("csel csinc csinv csneg"),
    adds=_words("add"),
    stores=_words("str stp stur"),
    loads=_words("ldr ldp ldur"),
    sets=_words("adrp adr movz movn ldrb ldrh ldrsw cset sxtw ubfx mul madd"),
    narrow={f"w{number}": f"x{number}" for number in range(30)},
    stack=re.compile(r"\[(?:sp|x29)"),
)


def find_passed(code: memoryview, start: int, given: Registers, machine: Machine) -> tuple[Passed, ...] | None:
    """Return the calls and jumps to which one of the `given` registers is passed on; None: it cannot be followed."""
    words = _AARCH64 if machine is Machine.AARCH64 else _X86_64
    lines = list(_disassembler(machine).disasm_lite(bytes(code), start, _INSTRUCTION_LIMIT))
    if not lines or lines[-1][0] + lines[-1][1] != start + len(code):
        return None
    flow = _Flow(words, start, start + len(code))
    for _ in range(_ROUNDS):
        before = flow.known()
        found = flow.follow(lines, given)
        if flow.known() == before:
            return tuple(found)
    return None


class _Flow:
    """Possible contents of registers, where paths meet."""

    def __init__(self, words: _Machine, start: int, end: int) -> None:
        self._words, self._start, self._end = words, start, end
        self._at: dict[int, set[str]] = {}  # by address of a label
        self._anywhere: set[str] = set()  # at code to which no known path leads
        self._is_on_stack = False

    def known(self) -> tuple[int, int, bool]:
        """Return numbers that grow until the result is complete."""
        return sum(map(len, self._at.values())), len(self._anywhere), self._is_on_stack

    def follow(self, lines: list[tuple[int, int, str, str]], given: Registers) -> list[Passed]:
        words, holding = self._words, set(given)
        found: list[Passed] = []
        for vaddr, size_bytes, mnemonic, operands in lines:
            mnemonic = mnemonic.rpartition(" ")[2]  # without prefixes, as `bnd jmp`
            holding |= self._at.get(vaddr, set())
            self._anywhere |= holding & words.kept
            target = operands.rpartition(", ")[2].lstrip("#")
            label = int(target, 16) if _ADDRESS.fullmatch(target) else -1
            if mnemonic in words.calls:
                if handed := frozenset(holding & words.arguments):
                    found.append(Passed(vaddr, vaddr + size_bytes, False, handed))
                holding -= words.lost_in_calls
                holding |= {words.result} if handed else set()
            elif mnemonic in words.jumps or self._may_jump(mnemonic, label):
                if self._start <= label < self._end:
                    self._at.setdefault(label, set()).update(holding)
                elif mnemonic not in ("ret", "ud2", "hlt", "int3", "brk", "udf"):
                    if handed := frozenset(holding & words.arguments):
                        found.append(Passed(vaddr, vaddr + size_bytes, True, handed))
                    if label < 0:
                        self._anywhere |= holding
                if mnemonic in words.jumps:
                    holding = set(self._anywhere)
            else:
                self._step(mnemonic, operands, holding)
        return found

    def _may_jump(self, mnemonic: str, label: int) -> bool:
        return label >= 0 and mnemonic.startswith(("j", "loop", "b.", "cb", "tb"))

    def _step(self, mnemonic: str, operands: str, holding: set[str]) -> None:
        """Change `holding` by an instruction that goes on with the next."""
        words = self._words
        first, _, rest = operands.partition(", ")
        is_held = not holding.isdisjoint(re.findall(r"\w+", rest))
        if mnemonic in words.stores and ("[" in first or mnemonic == "push" or mnemonic not in words.copies):
            is_kept = mnemonic == "push" or "xmm" in first or words.stack.search(operands) is not None
            stored = re.findall(r"\w+", operands.partition("[")[0] + " " + rest.partition("[")[0])
            self._is_on_stack |= is_kept and not holding.isdisjoint(stored)
            return
        if mnemonic in words.conditional:
            holding.update({first} if is_held else set())
            return
        written = [words.narrow.get(first, first)]
        if mnemonic in words.loads and (mnemonic == "pop" or "[" in rest):
            if mnemonic == "ldp":
                written.append(rest.partition(", ")[0])
            is_from_stack = mnemonic == "pop" or words.stack.search(operands) is not None
            is_held = is_from_stack and self._is_on_stack
        elif mnemonic in words.adds:
            is_held = is_held and _is_at_or_below(rest)
        elif mnemonic in words.sets:
            is_held = mnemonic == "xor" and first != rest and first in holding
        elif mnemonic not in words.copies:
            return  # as add: a value that it held, it may still hold
        for name in written:
            (holding.add if is_held and name == words.narrow.get(name, name) else holding.discard)(name)


def _is_at_or_below(operands: str) -> bool:
    """Return whether a sum is not certain to lie above the object; `[rbx + 0x10]` and `x19, #0x10` do."""
    number = re.search(r"\+ (?:0x)?([0-9a-f]+)\]$|^\w+, #(?:0x)?([0-9a-f]+)$", operands)
    return number is None or "*" in operands


@cache
def _disassembler(machine: Machine) -> capstone.Cs:
    import capstone

    if machine is Machine.AARCH64:
        return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
