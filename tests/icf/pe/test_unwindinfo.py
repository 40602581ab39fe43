"""Unwind information: every function's codes as llvm-readobj prints them, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from icf.pe import unwindinfo as u
from icf.pe.image import PeImage
from icf.pe.unwindinfo import RuntimeFunction, UnwindInfo, UnwindTable
from tests.support.microsoft import X86_64, microsoft
from tests.support.paths import ROOT
from tests.support.pe import code_image, of_pip
from tests.support.toolchain import tool

SHOP = ROOT / "testdata" / "pe" / "shop.exe"
_REGISTERS = "RAX RCX RDX RBX RSP RBP RSI RDI R8 R9 R10 R11 R12 R13 R14 R15".split()
_NAMES = {
    u.PUSH_NONVOL: "PUSH_NONVOL reg={register}",
    u.ALLOC_LARGE: "ALLOC_LARGE size={value}",
    u.ALLOC_SMALL: "ALLOC_SMALL size={value}",
    u.SET_FPREG: "SET_FPREG reg={frame}, offset=0x{offset:X}",
    u.SAVE_NONVOL: "SAVE_NONVOL reg={register}, offset=0x{value:X}",
    u.SAVE_NONVOL_FAR: "SAVE_NONVOL_FAR reg={register}, offset=0x{value:X}",
    u.SAVE_XMM128: "SAVE_XMM128 reg=XMM{number}, offset=0x{value:X}",
    u.SAVE_XMM128_FAR: "SAVE_XMM128_FAR reg=XMM{number}, offset=0x{value:X}",
    u.PUSH_MACHFRAME: "PUSH_MACHFRAME errcode={answer}",
}


def shown(image: PeImage, function: RuntimeFunction, info: UnwindInfo) -> list[str]:
    """A function as `theirs` has it."""
    lines = [f"{image.base + each:X}" for each in function]
    lines += [str(info.version), f"{info.flags:x}", str(info.prologue_bytes)]
    for each in info.codes:
        text = _NAMES[each.operation].format(
            register=_REGISTERS[each.number],
            number=each.number,
            value=each.value,
            frame=_REGISTERS[info.frame_register],
            offset=info.frame_offset,
            answer="yes" if each.number else "no",
        )
        lines.append(f"0x{each.offset:02X}: {text}")
    if info.chained is not None:
        lines += [f"{image.base + each:X}" for each in info.chained]
    return lines


def theirs(path: Path) -> list[list[str]]:
    """What llvm-readobj prints of each function: addresses, version, flags, size of the prologue, codes, chain."""
    ran = subprocess.run([tool("llvm-readobj"), "--unwind", path], capture_output=True, text=True, check=False)
    text = ran.stdout if ran.returncode == 0 else ran.stdout[: ran.stdout.rindex("RuntimeFunction {")]
    functions = []
    for block in text.split("RuntimeFunction {")[1:]:
        wanted = r"Address: (?:\S+ )?\(0x(\w+)\)|Version: (\d+)|Flags \[ \(0x(\w+)\)|PrologSize: (\d+)|(0x\w\w: \w+ .*)"
        functions.append([next(filter(None, found)) for found in re.findall(wanted, block)])
    return functions


@pytest.mark.parametrize("name", ["shop.exe", "t64.exe", "w64.exe"])
def test_codes_are_those_of_llvm_readobj(name: str) -> None:
    path = SHOP if name == "shop.exe" else of_pip(name)
    with PeImage.open(str(path)) as image:
        table = UnwindTable(image)
        ours = [shown(image, function, table.read(function)) for function in table]
        assert ours == theirs(path) and len(ours) >= 10
        for function in table:
            assert table.find(function.begin) == table.find(function.end - 1) == function
        assert table.find(0) is None


@pytest.mark.parametrize("name", X86_64)
def test_codes_of_microsofts_compiler(name: str) -> None:
    lief = pytest.importorskip("lief")
    config = lief.PE.ParserConfig()
    config.parse_exceptions = True
    with PeImage.open(str(microsoft(name))) as image:
        table = UnwindTable(image)
        infos = [table.read(function) for function in table]
        # LLVM's reader ends at information of version 2, and at what it has not written out by then
        listed = theirs(microsoft(name))
        assert len(listed) > 0.6 * len(infos)
        for mine, true, function in zip(infos, listed, table, strict=False):
            assert shown(image, function, mine) == true
        binary = lief.PE.parse(image.path, config)  # owns what follows
        known = {each.rva_start: each for each in binary.exceptions}
        for function, mine in zip(table, infos, strict=True):
            info = known[function.begin].unwind_info
            assert (mine.version, mine.prologue_bytes, mine.flags) == (info.version, info.sizeof_prologue, info.flags)
            codes = [(each.position, int(each.opcode)) for each in info.opcodes if int(each.opcode) != u.EPILOG]
            assert [each[:2] for each in mine.codes if each.operation != u.EPILOG] == codes
    assert any(info.version == 2 for info in infos)


def table_of(info: bytes, folder: Path) -> UnwindTable:
    """The table of an image with one function at RVA 0x1000, whose information is at 0x2000."""
    path = folder / "app.exe"
    path.write_bytes(code_image(bytes(64), pdata=pack("<3I", 0x1000, 0x1040, 0x2000), xdata=info))
    return UnwindTable(PeImage.open(str(path)))


def test_codes_with_numbers_in_further_slots(tmp_path: Path) -> None:
    codes = [
        (bytes([9, 0x01, 0x00, 0x02]), (9, u.ALLOC_LARGE, 0, 0x1000)),
        (bytes([9, 0x11, 0x08, 0x00, 0x01, 0x00]), (9, u.ALLOC_LARGE, 1, 0x10008)),
        (bytes([8, 0x32]), (8, u.ALLOC_SMALL, 3, 32)),
        (bytes([7, 0x54, 0x03, 0x00]), (7, u.SAVE_NONVOL, 5, 24)),
        (bytes([7, 0x55, 0x00, 0x00, 0x01, 0x00]), (7, u.SAVE_NONVOL_FAR, 5, 0x10000)),
        (bytes([6, 0x68, 0x02, 0x00]), (6, u.SAVE_XMM128, 6, 32)),
        (bytes([6, 0x69, 0x20, 0x00, 0x01, 0x00]), (6, u.SAVE_XMM128_FAR, 6, 0x10020)),
        (bytes([5, 0x03]), (5, u.SET_FPREG, 0, 0)),
        (bytes([1, 0x50]), (1, u.PUSH_NONVOL, 5, 0)),
        (bytes([0, 0x1A]), (0, u.PUSH_MACHFRAME, 1, 0)),
    ]
    content = b"".join(each for each, _ in codes)
    head = bytes([1, 10, len(content) // 2, 5 | 2 << 4])
    table = table_of(head + content, tmp_path)
    info = table.read(table[0])
    assert list(info.codes) == [each for _, each in codes]
    assert (info.frame_register, info.frame_offset) == (5, 32)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (bytes([3, 0, 0, 0]), r"unwind information\+0x2000: version 3, can read 1 and 2"),
        (bytes([1, 0, 1, 0, 0, 0x06]), r"unwind information\+0x2000: code 6 with number 0 is not known"),
        (bytes([1, 0, 1, 0, 0, 0x21]), r"unwind information\+0x2000: code 1 with number 2 is not known"),
        (bytes([1, 0, 1, 0, 0, 0x2A]), r"unwind information\+0x2000: machine frame of kind 2, must be 0 or 1"),
        (bytes([1, 0, 1, 0, 0, 0x01]), r"unwind information\+0x6: needs 2 bytes, 0 are left"),
        (bytes([1, 0, 255, 0]), r"unwind information\+0x2000: 514 bytes are not in a section"),
        (
            bytes([1 | u.CHAINED << 3, 0, 0, 0]) + pack("<3I", 0x1000, 0x1040, 0x2000),
            r"unwind information\+0x2000: more than 32 functions are chained",
        ),
        (
            bytes([1 | u.CHAINED << 3, 0, 0, 0]) + pack("<3I", 0x1000, 0x1040, 0x2005),
            r"unwind information\+0x2005: more than 32 entries lead to each other",
        ),
        (
            bytes([1 | u.CHAINED << 3, 0, 0, 0]) + pack("<3I", 0x1000, 0x1040, 0x9000),
            r"unwind information\+0x9000: 4 bytes are not in a section",
        ),
    ],
)
def test_what_is_refused(info: bytes, message: str, tmp_path: Path) -> None:
    table = table_of(info, tmp_path)
    with pytest.raises(FormatError, match=message):
        table.chain(table[0])


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = bytes([1 | u.CHAINED << 3, 0, 2, 0, 9, 1, 0, 2]) + pack("<3I", 1, 2, 4)
    for size_bytes in range(len(whole)):
        table = table_of(whole[:size_bytes], tmp_path)
        with pytest.raises(FormatError, match="unwind information"):
            table.read(table[0])


def test_a_directory_outside_of_the_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.exe"
    path.write_bytes(code_image(bytes(64), pdata=bytes(12), xdata=b"", pdata_bytes=0x9000))
    with pytest.raises(FormatError, match=r"exception directory\+0x0: 36864 bytes at RVA 0x3000 are not in a section"):
        UnwindTable(PeImage.open(str(path)))
