"""Which registers and places of a frame still hold what the function was entered with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from icf.elf.image import Image
from tests.support.toolchain import lasting_folder, run, tool
from unwind.objects.kept import Kept

RBX, RSI, RDI, R12 = 3, 4, 5, 12
# The calls of each function are numbered from 0; `far` is a part that lies elsewhere.
CODE = """
    plain:  push %rbx; mov %rdi, %rbx; call tick
        1:  mov %rbx, %rdi; call tick; dec %rax; jne 1b
            pop %rbx; ret
    chain:  push %rbx; mov %rdi, %rbx
        1:  mov %rbx, %rdi; call tick; mov 8(%rbx), %rbx; test %rbx, %rbx; jne 1b
            pop %rbx; ret
    again:  push %rbx; mov %rdi, %rbx; call tick; mov 8(%rbx), %rdi; pop %rbx; test %rdi, %rdi; jne again; ret
    spill:  push %rbp; mov %rsp, %rbp; sub $32, %rsp; mov %rdi, -8(%rbp); movl $5, -12(%rbp); call tick
            mov -8(%rbp), %rbx; call tick; mov %rbx, -8(%rbp); mov 8(%rbx), %rbx; mov %rbx, -8(%rbp); call tick
            leave; ret
    second: push %rbx; mov %rsi, %rbx; call tick; pop %rbx; jmp tick
    moved:  push %rbx; lea 8(%rdi), %rbx; call tick; lea -8(%rbx), %rbx; call tick; pop %rbx; ret
    switch: push %rbx; push %r12; mov %rdi, %rbx; mov %rdi, %r12
            call tick; mov %rax, %r12; lea table(%rip), %rdx; movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax
            mov %rbx, %rdi; call tick; pop %r12; pop %rbx; ret
    onward: push %rbx; mov %rdi, %rbx; call tick; mov (%rbx), %rax; mov %rbx, %rdi; pop %rbx; jmp *16(%rax)
            push %rbx; mov %rdi, %rbx; call tick; pop %rbx; ret
    pads:   push %rbx; mov %rdi, %rbx; call tick; pop %rbx; ret
            call tick; ud2
    later:  push %rbx; mov %rdi, %rbx; call tick; xor %ebx, %ebx; call tick; pop %rbx; ret
            call tick; ud2
    parted: push %rbx; mov %rdi, %rbx; test %rsi, %rsi; jne far
        2:  call tick; pop %rbx; ret
    inside: push %rbx; mov %rdi, %rbx; call 1f
        1:  pop %rax; call tick; pop %rbx; ret
    far:    mov 8(%rbx), %rbx; jmp 2b
    tick:   ret
    table:  .long 0
"""


@cache
def _image() -> Path:
    folder = lasting_folder()
    (folder / "code.s").write_text(CODE)
    run(tool("gcc"), "-nostdlib", "-shared", folder / "code.s", "-o", folder / "code.so")
    return folder / "code.so"


def _kept(name: str, register: int, *, has_pads: bool = False, parts: tuple[str, ...] = ()) -> list[int | None]:
    """The argument that a register, or a place in the frame, has at each call of a function."""
    places = _symbols()
    names = sorted(places, key=lambda each: places[each])
    ranges = [(places[each], places[names[names.index(each) + 1]]) for each in (name, *parts)]
    with Image.open(str(_image())) as image:
        kept = Kept(image, ranges, places[name], has_pads=has_pads)
        ends = [low + at + 5 for low, high in ranges for at in _calls(bytes(image.read(low, high - low)))]
        in_frame = register < 0
        return [kept.argument_at(end - 1, register, is_call=True, in_frame=in_frame) for end in ends]


def _places(name: str, register: int) -> list[list[tuple[int, bool]]]:
    """The places that hold an argument at each call of a function."""
    low = _symbols()[name]
    high = min(place for place in _symbols().values() if place > low)
    with Image.open(str(_image())) as image:
        kept = Kept(image, [(low, high)], low, has_pads=False)
        ends = [low + at + 5 for at in _calls(bytes(image.read(low, high - low)))]
        return [sorted(kept.places_of(register, end - 1, is_call=True)) for end in ends]


def _calls(code: bytes) -> list[int]:
    return [at for at in range(len(code) - 4) if code[at] == 0xE8 and code[at + 3 : at + 5] in (b"\0\0", b"\xff\xff")]


@cache
def _symbols() -> dict[str, int]:
    lines = run(tool("nm"), _image()).stdout.splitlines()
    fields = [line.split() for line in lines]
    return {field[-1]: int(field[0], 16) for field in fields if field[-1] in CODE}


def test_a_loop_with_one_object() -> None:
    assert _kept("plain", RBX) == [RDI, RDI]


def test_a_loop_that_goes_on_with_another_object() -> None:
    assert _kept("chain", RBX) == [None]
    assert _kept("again", RBX) == [None]


def test_places_in_the_frame() -> None:
    assert _kept("spill", -24) == [RDI, RDI, None]
    assert _kept("spill", RBX) == [RBX, RDI, None]


def test_other_arguments_and_addresses_in_the_object() -> None:
    assert _kept("second", RBX) == [RSI]
    assert _kept("moved", RBX) == [None, RDI]


def test_a_jump_to_an_unknown_place() -> None:
    assert _kept("switch", RBX) == [RDI, RDI]
    assert _kept("switch", R12) == [RDI, None]
    assert _kept("onward", RBX) == [RDI, None]  # a tail call; no path leads to what follows


def test_landing_pads() -> None:
    assert _kept("pads", RBX) == [RDI, None]
    assert _kept("pads", RBX, has_pads=True) == [RDI, RDI]
    assert _kept("later", RBX, has_pads=True) == [RDI, None, None]


def test_parts_that_lie_elsewhere() -> None:
    assert _kept("parted", RBX) == [None]
    assert _kept("parted", RBX, parts=("far",)) == [None]  # it comes back with another object


def test_a_call_into_the_function_itself() -> None:
    assert _kept("inside", RBX) == [None, None]


AARCH64 = """
    plain:  stp x29, x30, [sp, -32]!; str x19, [sp, 16]; mov x19, x0; bl tick
        1:  mov x0, x19; bl tick; cbnz x0, 1b
            ldr x19, [sp, 16]; ldp x29, x30, [sp], 32; ret
    chain:  stp x29, x30, [sp, -32]!; str x19, [sp, 16]; mov x19, x0
        1:  mov x0, x19; bl tick; ldr x19, [x19, 8]; cbnz x19, 1b
            ldr x19, [sp, 16]; ldp x29, x30, [sp], 32; ret
    spill:  sub sp, sp, 48; str x0, [sp, 8]; bl tick; add sp, sp, 48; ret
    tick:   ret
"""


def test_aarch64(tmp_path: Path) -> None:
    (tmp_path / "code.s").write_text(AARCH64)
    run(tool("aarch64-linux-gnu-gcc"), "-nostdlib", "-shared", "code.s", "-o", "code.so", folder=tmp_path)
    lines = run(tool("nm"), "code.so", folder=tmp_path).stdout.splitlines()
    places = {line.split()[-1]: int(line.split()[0], 16) for line in lines if line.split()[-1] in AARCH64}
    found = {}
    with Image.open(str(tmp_path / "code.so")) as image:
        for name, following in (("plain", "chain"), ("chain", "spill"), ("spill", "tick")):
            low, high = places[name], places[following]
            kept = Kept(image, [(low, high)], low, has_pads=False)
            calls = [at for at in range(low, high, 4) if image.read(at, 4)[3] == 0x97 or image.read(at, 4)[3] == 0x94]
            place, in_frame = (-40, True) if name == "spill" else (19, False)
            found[name] = [kept.argument_at(at + 3, place, is_call=True, in_frame=in_frame) for at in calls]
    assert found == {"plain": [0, 0], "chain": [None], "spill": [0]}


def test_all_places_that_hold_an_argument() -> None:
    assert _places("plain", RDI) == [[(RBX, False), (RDI, False)], [(RBX, False), (RDI, False)]]
    assert _places("spill", RDI) == [[(-24, True), (RDI, False)], [(-24, True), (RBX, False)], []]
    assert _places("chain", RDI) == [[]]
