"""`icf disasm` piece by piece: decoding, addresses in registers, names of functions, and what is printed.

`tests/e2e/test_disasm.py` checks the names against other sources.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from icf.cli import main
from icf.elf.types import Machine
from linkpass.pipeline import Options, run_pass
from tests.support.paths import ROOT
from tests.support.toolchain import compile_object, link, run, tool
from unwind.disasm.instructions import Decoder, Instruction, Kind, Use
from unwind.disasm.registers import find_references
from unwind.disasm.select import _fit, _forms

SHOP = ROOT / "testdata" / "shop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checked-in program, with tables."""
    path = shutil.copy(SHOP / "shop.gold", tmp_path_factory.mktemp("shop") / "shop")
    run_pass(str(path), Options())
    return str(path)


def disasm(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["disasm", *arguments]) == 0
    return capsys.readouterr().out


# Decoding


def decode(machine: Machine, code: bytes, vaddr: int = 0x1000) -> list[Instruction]:
    def read(start: int, size_bytes: int) -> memoryview:
        return memoryview(code)[start - vaddr : start - vaddr + size_bytes]

    return list(Decoder(machine).decode(read, vaddr, vaddr + len(code)))


def test_bytes_that_are_no_instruction_are_shown_and_decoding_goes_on() -> None:
    found = decode(Machine.X86_64, b"\x06\xc3\x48\x8d")  # push es, which x86-64 has not; ret; the start of a lea
    assert [(each.vaddr, each.mnemonic, each.code) for each in found] == [
        (0x1000, ".byte", b"\x06"),
        (0x1001, "ret", b"\xc3"),
        (0x1002, ".byte", b"\x48"),
        (0x1003, ".byte", b"\x8d"),
    ]
    found = decode(Machine.AARCH64, b"\xff\xff\xff\xff\xc0\x03\x5f\xd6\x01\x02")
    assert [(each.vaddr, each.mnemonic, len(each.code)) for each in found] == [
        (0x1000, ".byte", 4),
        (0x1004, "ret", 4),
        (0x1008, ".byte", 2),
    ]


def test_code_is_decoded_the_same_in_pieces() -> None:
    code = b"\x90" * 0xFFFE + b"\x48\x8d\x05\x10\0\0\0" + b"\x90" * 9  # an instruction across the end of a piece
    found = decode(Machine.X86_64, code)
    assert len(found) == 0xFFFE + 10 and sum(len(each.code) for each in found) == len(code)
    assert [reference for each in found for reference in each.references] == [(Use.ADDRESS, 0x1000 + 0x10005 + 0x10, 0)]


@pytest.mark.parametrize(
    ("code", "use", "vaddr", "size_bytes"),
    [
        ("488d0510000000", Use.ADDRESS, 0x1017, 0),  # lea rax, [rip + 0x10]
        ("488b05f0ffffff", Use.LOAD, 0xFF7, 8),  # mov rax, qword ptr [rip - 0x10]
        ("ff1510000000", Use.LOAD, 0x1016, 8),  # call qword ptr [rip + 0x10]
        ("48890510000000", Use.STORE, 0x1017, 8),  # mov qword ptr [rip + 0x10], rax
        ("833d1000000001", Use.LOAD, 0x1017, 4),  # cmp dword ptr [rip + 0x10], 1
        ("8b042500404000", Use.LOAD, 0x404000, 4),  # mov eax, dword ptr [0x404000]
        ("bf10204000", Use.NUMBER, 0x402010, 0),  # mov edi, 0x402010
        ("64488b042528000000", None, 0, 0),  # mov rax, qword ptr fs:[0x28]
        ("488b4010", None, 0, 0),  # mov rax, qword ptr [rax + 0x10]
    ],
)
def test_what_an_instruction_refers_to(code: str, use: Use | None, vaddr: int, size_bytes: int) -> None:
    (found,) = decode(Machine.X86_64, bytes.fromhex(code))
    assert found.references == (() if use is None else ((use, vaddr, size_bytes),))


# Addresses in registers


def aarch64(*texts: str) -> list[Instruction]:
    """Instructions as the decoder gives them, at 0, 4, 8 ..."""
    kinds = {"b": Kind.JUMP, "br": Kind.JUMP, "bl": Kind.CALL, "blr": Kind.CALL, "cbz": Kind.BRANCH, "ret": Kind.RETURN}
    found = []
    for row, text in enumerate(texts):
        mnemonic, _, operands = text.partition(" ")
        kind = kinds.get(mnemonic, Kind.OTHER)
        target = int(operands.rpartition("#")[2], 0) if kind is not Kind.OTHER and "#" in operands else None
        found.append(Instruction(4 * row, b"\0\0\0\0", mnemonic, operands, kind, target))
    return found


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["adrp x0, #0x5000", "add x1, x0, #0x10", "ldr x2, [x0, #0x18]"], {4: 0x5010, 8: 0x5018}),
        (["adrp x0, #0x5000", "ldr x0, [x0, #8]", "blr x0"], {4: 0x5008, 8: 0x5008}),  # calls what was loaded
        (["adrp x0, #0x5000", "ldr x0, [x0, #8]", "ldr x1, [x0, #8]"], {4: 0x5008}),  # through a pointer: not known
        (["adrp x0, #0x5000", "bl #0x900", "add x0, x0, #8"], {}),  # a call may change it
        (["adrp x19, #0x5000", "bl #0x900", "add x0, x19, #8"], {8: 0x5008}),  # and has to keep that
        (["adrp x0, #0x5000", "mov w0, #1", "add x0, x0, #8"], {}),
        (["adrp x0, #0x5000", "str x1, [x0, #8]!", "add x0, x0, #8"], {}),
        (["adrp x0, #0x5000", "ldp x2, x0, [sp]", "add x0, x0, #8"], {}),
        (["adrp x0, #0x5000", "stxr w0, x1, [x2]", "add x0, x0, #8"], {}),
        (["adrp x0, #0x5000", "str x0, [sp]", "add x0, x0, #1, lsl #12"], {8: 0x6000}),
        # two ways to the last: they agree, they do not
        (["adrp x0, #0x5000", "cbz x1, #0xc", "nop", "add x0, x0, #8"], {12: 0x5008}),
        (["adrp x0, #0x5000", "cbz x1, #0xc", "adrp x0, #0x6000", "add x0, x0, #8"], {}),
        (["cbz x1, #0x8", "adrp x0, #0x5000", "add x0, x0, #8"], {}),
        # a loop that moves on
        (["adrp x0, #0x5000", "ldr x1, [x0, #8]", "add x0, x0, #8", "cbz x1, #0x4"], {}),
        # nothing leads behind the jump; what does is not known
        (["adrp x0, #0x5000", "b #0xc", "add x0, x0, #8", "ret "], {}),
        (["adrp x0, #0x5000", "cbz x1, #0x10", "br x2", "nop", "add x0, x0, #8"], {}),
    ],
)
def test_addresses_of_two_instructions(texts: list[str], expected: dict[int, int]) -> None:
    found = find_references(aarch64(*texts), {})
    assert {vaddr: each.vaddr for vaddr, each in found.items()} == expected


def test_a_known_switch_is_a_way_like_others() -> None:
    texts = ("adrp x0, #0x5000", "br x2", "add x0, x0, #8", "ret ", "add x0, x0, #0x10")
    found = find_references(aarch64(*texts), {4: (8, 16)})
    assert {vaddr: each.vaddr for vaddr, each in found.items()} == {8: 0x5008, 16: 0x5010}


# Names


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("main", ["main"]),
        ("void ns::f<int>(int) const", ["ns::f<int>(int) const", "ns::f<int>", "ns::f"]),
        ("(anonymous namespace)::f(int)", ["(anonymous namespace)::f(int)", "(anonymous namespace)::f"]),
        ("A<(B)1>::operator()(int) const", ["A<(B)1>::operator()(int) const", "A<(B)1>::operator()"]),
        ("operator new(unsigned long)", ["operator new(unsigned long)", "operator new"]),
        ("A::operator bool() const", ["A::operator bool() const", "A::operator bool"]),
        ("f(void (*)(int))", ["f(void (*)(int))", "f"]),
        ("non-virtual thunk to A::f()", []),
    ],
)
def test_what_may_be_left_out_of_a_name(name: str, forms: list[str]) -> None:
    assert list(_forms(name)) == forms


def test_the_closest_name_wins() -> None:
    assert [_fit(wanted, "_ZN6Ledger4postEP7Payment") for wanted in ("Ledger::post", "post", "ost", "edger::post")] == [
        1,
        2,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("argument", "start"),
    [
        ("Ledger::post", 0x8F0),  # the folded one, by its own name
        ("_ZN9OrderBook5placeEP5Order", 0x8F0),
        ("0x900", 0x8F0),
        ("8f0", 0x8F0),
        ("main", 0x6B0),
        ("0x680", 0x680),  # a PLT stub
    ],
)
def test_functions_by_name_and_address(
    argument: str, start: int, shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert disasm(capsys, "-e", shop, argument).startswith(f"{start:#x}..")


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("Ledger::pots", "no function 'Ledger::pots'"),
        ("pos", "no function 'pos'\nhint: did you mean 'Ledger::post(Payment*)'?"),
        ("0x10", "no code at 0x10"),
        ("0x914", "no symbol or table tells of a function at 0x914\nhint: a range shows the code there: 0x914..0x954"),
        ("0x900..0x8f0", "the range ends where it starts, or before"),
        ("ffff0000..ffff0010", "no code in ffff0000..ffff0010"),
    ],
)
def test_what_is_not_there(argument: str, problem: str, shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disasm", "-e", shop, argument]) == 1
    assert problem in capsys.readouterr().err


# What is printed


def test_a_call_means_another_function_in_each_caller(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        disasm(capsys, "-e", shop, "Ledger::post")
        == """\
0x8f0..0x913, 35 bytes, 2 functions: members-complete, calls-complete, address-taken-known, vtables-known
  Ledger::post(Payment*)
  OrderBook::place(Order*)

  8f0:  cmp     qword ptr [rsi], 0
  8f4:  jle     0x910                               ; +0x20
  8f6:  sub     rsp, 8
  8fa:  call    0x8b0                               ; 1 of 3, by caller:
                                                    ;   Ledger::post(Payment*): List<Payment>::add(Payment*)  [dwarf]
                                                    ;   OrderBook::place(Order*): List<Order>::add(Order*)  [dwarf]
  8ff:  mov     eax, 1
  904:  add     rsp, 8
  908:  ret
  909:  nop     dword ptr [rax]
  910:  xor     eax, eax
  912:  ret
"""
    )


def test_bytes_addresses_and_names_as_asked_for(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = disasm(capsys, "-e", shop, "--bytes", "--no-demangle", "main")
    assert re.search(
        r"^  734:  e8 b7 01 00 00 +call +0x8f0 +; _ZN9OrderBook5placeEP5Order  \[1 of 2, dwarf\]$", shown, re.M
    )
    shown = disasm(capsys, "-e", shop, "--no-addresses", "Ledger::post")
    assert not re.search("8fa|0x910|0x8b0", shown.partition("\n\n")[2])
    assert "\n  jle     +0x20\n" in shown


def test_lines_are_of_the_member_that_was_asked_for(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "payments.cpp:7\n" in disasm(capsys, "-e", shop, "-l", "Ledger::post")
    shown = disasm(capsys, "-e", shop, "-l", "OrderBook::place")
    assert "orders.cpp:" in shown and "payments.cpp" not in shown


def test_source_lines_are_shown_where_the_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "program.c"
    source.write_text(
        "int twice(int value)\n{\n    return value + value;  /* here */\n}\nint main(void) { return 0; }\n"
    )
    run(tool("gcc"), "-g", "-O1", source, "-o", tmp_path / "program")
    assert f"{source}:3:      return value + value;  /* here */\n" in disasm(
        capsys, "-e", str(tmp_path / "program"), "-S", "twice"
    )


def test_color_on_a_terminal_only(
    shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = disasm(capsys, "-e", shop, "main")
    assert "\x1b" not in plain
    colored = disasm(capsys, "-e", shop, "--color=always", "main")
    assert "\x1b" in colored and re.sub(r"\x1b\[\d*m", "", colored) == plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert disasm(capsys, "-e", shop, "main") == colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert disasm(capsys, "-e", shop, "main") == plain
    assert disasm(capsys, "-e", shop, "--color=never", "main") == plain


def test_without_tables_all_names_at_an_address_are_possible(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disasm", "-e", str(SHOP / "shop.lld"), "main"]) == 0
    said = capsys.readouterr()
    assert "has no call-site tables" in said.err and "hint: run 'icf pass" in said.err
    calls = [line for line in said.out.splitlines() if "call" in line]
    assert any("; one of 2: Ledger::post(Payment*), OrderBook::place(Order*)" in line for line in calls)


def test_numbers_that_may_be_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool("clang++")
    source = """
        extern "C" __attribute__((noinline)) void print(const char *text) { asm volatile("" :: "r"(text)); }
        int table[4]; int *pointer; int other(int value) { return value + 1; } int (*function)(int);
        extern "C" void _start() { print("text"); pointer = table; function = other; }
    """
    built = compile_object(source, "-O1", "-fno-pic")
    image = link(tmp_path / "image", "lld", built, "-nostdlib", "-no-pie", "-static")
    shown = disasm(capsys, "-e", str(image), "_start")
    assert re.search(r'mov +edi, 0x\w+ +; maybe 0x\w+ "text"$', shown, re.M)
    assert re.search(r"; 0x\w+ pointer\n +; maybe 0x\w+ table$", shown, re.M)
    assert re.search(r"; 0x\w+ function\n +; maybe other\(int\)$", shown, re.M)


# Syntax, and whole images


def test_the_syntax_of_att(capsys: pytest.CaptureFixture[str], shop: str) -> None:
    intel, att = (disasm(capsys, "-e", shop, "-M", syntax, "--no-addresses", "main") for syntax in ("intel", "att"))
    notes = [[line.partition(mark)[2] for line in text.splitlines()] for text, mark in ((intel, ";"), (att, "#"))]
    assert notes[0] == notes[1] and any(notes[0])
    assert "%rsp" in att and "rsp" in intel and "%" not in intel


def test_all_code_of_an_image(capsys: pytest.CaptureFixture[str], shop: str) -> None:
    whole = disasm(capsys, "-e", shop)
    assert disasm(capsys, "-e", shop, "main").splitlines()[2:] == [
        line for line in whole.splitlines() if line in disasm(capsys, "-e", shop, "main").splitlines()[2:]
    ]
    assert "List<Order>::grow()" in whole and "_start" in whole
    first, last = (int(word, 16) for word in re.findall(r"^ +([0-9a-f]+):", whole, re.MULTILINE)[3:5])
    part = disasm(capsys, "-e", shop, "--start-address", hex(first), "--stop-address", hex(last))
    assert re.findall(r"^ +([0-9a-f]+):", part, re.MULTILINE) == [f"{first:x}"]
    assert main(["disasm", "-e", shop, "--start-address", "0x10", "main"]) == 1
