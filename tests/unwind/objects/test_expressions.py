"""Single expressions in a made frame: the place that each names, or why it has none."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack

import pytest

from icf.elf.image import Image
from tests.support import toolchain
from unwind.objects.activation import Activation, Described
from unwind.objects.entry import new_evaluator
from unwind.objects.expressions import Form, Lack, Place, Unknown
from unwind.objects.parameters import read_parameters
from unwind.walk.frame import WalkedFrame

SOURCE = "int twice(int n) { return 2 * n; }\nint main() { return twice(0); }\n"
CFA = 0x7FFF1000
REGISTERS: dict[int, int] = {3: 0x1000, 6: CFA - 16}
MEMORY = {0x1008: pack("<q", -2), 0x2000: pack("<Q", 0x1122334455667788)}


class Memory:
    def read(self, address: int, size_bytes: int) -> bytes | None:
        return MEMORY[address][:size_bytes] if address in MEMORY and size_bytes <= 8 else None


@cache
def program() -> Path:
    folder = toolchain.lasting_folder()
    (folder / "twice.c").write_text(SOURCE)
    toolchain.run(toolchain.tool("gcc"), "-O0", "-g", "-gdwarf-5", "twice.c", "-o", "twice", folder=folder)
    return folder / "twice"


@cache
def frame(sp: int = CFA - 8) -> Activation:
    image = Image.open(str(program()))
    described = Described(image)
    (low,) = (symbol.value for symbol in _symbols(image) if symbol.name == "twice")
    registers = [sp if number == 7 else REGISTERS.get(number) for number in range(33)]
    return Activation(WalkedFrame(low + 8 + 0x10000, False, CFA, registers), lambda _: (described, 0x10000))


class _Symbol:
    def __init__(self, name: str, value: int) -> None:
        self.name, self.value = name, value


def _symbols(image: Image) -> list[_Symbol]:
    table = image.symbols
    return [_Symbol(table.name(row), int(table.value[row])) for row in range(len(table.value))]


def places(expression: bytes) -> list[Place]:
    at = frame()
    (function,) = at.functions
    return new_evaluator(Memory()).places(memoryview(expression), at, function)


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("53", Place(Form.REGISTER, 3)),  # DW_OP_reg3
        ("9003", Place(Form.REGISTER, 3)),  # DW_OP_regx 3
        ("7308", Place(Form.MEMORY, 0x1008)),  # DW_OP_breg3 8
        ("9168", Place(Form.MEMORY, CFA - 24)),  # DW_OP_fbreg -24; the frame base is the CFA
        ("9c", Place(Form.MEMORY, CFA)),  # DW_OP_call_frame_cfa
        ("7308069f", Place(Form.VALUE, (1 << 64) - 2)),  # DW_OP_breg3 8, deref, stack_value
        ("730894049f", Place(Form.VALUE, (1 << 32) - 2)),  # the same with DW_OP_deref_size 4
        ("739004 23 10 9f", Place(Form.VALUE, 0x1220)),  # DW_OP_breg3 528, plus_uconst 16
        ("9e03010203", Place(Form.BYTES, 0, b"\1\2\3")),  # DW_OP_implicit_value
        ("03" + pack("<Q", 0x4000).hex(), Place(Form.MEMORY, 0x14000)),  # DW_OP_addr, with the load bias
        ("359ff0", Place(Form.VALUE, 5)),  # DW_OP_lit5, stack_value, GNU_uninit
    ],
)
def test_places(expression: str, place: Place) -> None:
    assert places(bytes.fromhex(expression)) == [place]


def test_parts() -> None:
    at = frame()
    found = places(bytes.fromhex("539304 359f9304"))  # DW_OP_reg3, piece 4; lit5, stack_value, piece 4
    assert found == [Place(Form.REGISTER, 3, b"", 4), Place(Form.VALUE, 5, b"", 4)]
    assert new_evaluator(Memory()).contents(found, at, 8) == pack("<II", 0x1000, 5)


@pytest.mark.parametrize(
    ("expression", "lack"),
    [
        ("", Lack.OPTIMIZED_OUT),
        ("a00000000000", Lack.OPTIMIZED_OUT),  # DW_OP_implicit_pointer
        ("9304", Lack.OPTIMIZED_OUT),  # a part without a place
        ("7500", Lack.NO_REGISTER),  # DW_OP_breg5: rdi is not known
        ("730006", Lack.NO_MEMORY),
        ("a301559f", Lack.NO_ENTRY_VALUE),  # the frame has no caller
        ("5322", Lack.REFUSED),  # something after a register
        ("06", Lack.REFUSED),  # nothing to load from
        ("9b", Lack.REFUSED),  # DW_OP_form_tls_address
        ("73", Lack.REFUSED),  # cut short
        ("9eff01", Lack.REFUSED),
        ("2ffdff", Lack.REFUSED),  # back to itself
        ("9d0800", Lack.REFUSED),  # DW_OP_bit_piece
    ],
)
def test_what_is_not_known_has_a_reason(expression: str, lack: Lack) -> None:
    with pytest.raises(Unknown) as unknown:
        places(bytes.fromhex(expression))
    assert unknown.value.lack is lack


def test_contents() -> None:
    at = frame()
    evaluator = new_evaluator(Memory())
    assert evaluator.contents([Place(Form.MEMORY, 0x2000)], at, 4) == pack("<I", 0x55667788)
    assert evaluator.contents([Place(Form.REGISTER, 3)], at, 2) == pack("<H", 0x1000)
    for place, size_bytes, lack in (
        (Place(Form.REGISTER, 5), 8, Lack.NO_REGISTER),
        (Place(Form.REGISTER, 3), 16, Lack.REFUSED),
        (Place(Form.MEMORY, 0x3000), 8, Lack.NO_MEMORY),
        (Place(Form.BYTES, 0, b"\1"), 8, Lack.REFUSED),
        (Place(Form.VALUE, 1, b"", 4), 8, Lack.OPTIMIZED_OUT),
    ):
        with pytest.raises(Unknown) as unknown:
            evaluator.contents([place], at, size_bytes)
        assert unknown.value.lack is lack


def test_the_stack_below_the_red_zone_is_given_up() -> None:
    """After `leave` a signal handler may have overwritten the parameters of the function that it interrupted."""
    ((scope,), (late,)) = (read_parameters(frame(sp), AnyMemory()) for sp in (CFA - 8, CFA + 0x200))
    assert scope.parameters[0].value == 0x01010101
    assert (late.parameters[0].value, late.parameters[0].lack) == (None, Lack.NO_MEMORY)


class AnyMemory:
    def read(self, address: int, size_bytes: int) -> bytes | None:
        return b"\1" * size_bytes
