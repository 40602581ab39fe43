"""`icf disasm` on real programs: every name it gives is checked against another source.

The same objects linked without folding hold the same instructions, and there each call leads to the function that it
means: what another disassembler and the symbols say of instruction k of a function in that image is the truth about
instruction k of that function in the folded one, whichever functions share its body. Places of data are checked against
relocations, symbols and bytes.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from tests.e2e.program import Functions, Program, icf
from tests.e2e.workshop import AARCH64, AARCH64_GOLD, AARCH64_MOLD, GCC_MOLD, GOLD, LLD, LLD_ALONE, Workshop
from tests.support.toolchain import run, tool

Json = dict[str, Any]
BUILDS = (GOLD, LLD, LLD_ALONE, GCC_MOLD, replace(LLD, compiler="gcc"), AARCH64, AARCH64_GOLD, AARCH64_MOLD)
SOURCE = """
    #include <cstdio>
    struct Fruit { virtual ~Fruit() = default; virtual int price() = 0; virtual int weight() { return 1; }
                   int cents = 7; };
    struct Apple : Fruit { int price() override; };
    struct Pear : Fruit { int price() override; };
    int Apple::price() { SAMPLE_OBJECT(); return cents; }
    int Pear::price() { SAMPLE_OBJECT(); return cents; }
    NOINLINE int sell(Fruit &fruit) { return fruit.price() + 1; }
    NOINLINE int sell_on(Fruit &fruit) { return fruit.price(); }
    NOINLINE int pass_on(Fruit &fruit) { return fruit.weight(); }
    template <class T> struct List {
        T *items = nullptr; long count = 0;
        NOINLINE void grow() { SAMPLE(); count = 3 * count + 1; }
        NOINLINE void add(T *item) { grow(); items = item; }
        NOINLINE void put(T *item) { add(item); }
    };
    struct Orders { List<int> list; NOINLINE int place(int *item) { list.put(item); return 1; } };
    struct Ledger { List<long> list; NOINLINE int post(long *item) { list.put(item); return 1; } };
    int (*handler)(Fruit &) = sell;
    extern int (*const fixed_handlers[2])(Fruit &);
    int (*const fixed_handlers[2])(Fruit &) = {sell, pass_on};
    NOINLINE int choose(int what) {
        switch (what) {
            case 1: puts("one"); return 5;
            case 2: puts("two"); return 3;
            case 3: puts("three"); handler = pass_on; return 8;
            case 4: return 9;
            case 5: puts("five"); return 7;
            case 6: puts("a \\"quoted\\"\\tline\\n"); return 1;
            case 7: printf("%d", what); return 2;
        }
        return 0;
    }
    int main(int argc, char **) {
        Apple apple; Pear pear; Orders orders; Ledger ledger;
        long item = argc;
        int sum = orders.place(&argc) + ledger.post(&item) + choose(argc + 6);
        std::fflush(stdout);
        sum += sell(apple) + sell(pear) + sell_on(pear) + pass_on(pear);
        return sum + handler(apple) + fixed_handlers[argc & 1](pear) - 55;
    }
"""
FUNCTIONS = ("main", "choose", "sell", "pass_on", "Orders::place", "Ledger::post", "List<int>::put", "Apple::price")
_OBJDUMP_LINE = re.compile(r"^ *([0-9a-f]+):\s+(?:[0-9a-f]{8}\s+)?(\S.*)$", re.MULTILINE)
_BRANCH = re.compile(r"^(?:bnd |notrack )?(?:call|j\w+|bl?|b\.\w+|[ct]bn?z)\s.*?(?:0x)?([0-9a-f]+) <(.+)>$")
_PLACE = re.compile(r"# (?:0x)?([0-9a-f]+)")


def disassemble(image: Path, *what: str) -> list[Json]:
    return [json.loads(line) for line in icf("disasm", "-e", image, "--json", *what).splitlines()]


@dataclass(frozen=True)
class Truth:
    """An image as other tools see it."""

    path: Path
    machine: str
    sections: list[tuple[str, int, bytes]]
    symbols: list[tuple[str, int, int, str]]  # name, address, size, type
    relocations: dict[int, tuple[str, int]]  # of the loader, by place: name and addend

    @classmethod
    def of(cls, path: Path) -> Truth:
        with path.open("rb") as file:
            elf = ELFFile(file)
            sections = [
                (s.name, s["sh_addr"], s.data() if s["sh_type"] == "SHT_PROGBITS" else b"")
                for s in elf.iter_sections()
                if s["sh_flags"] & 2
            ]
            table = elf.get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            symbols = [
                (s.name, s["st_value"], s["st_size"], s["st_info"]["type"])
                for s in table.iter_symbols()
                if s["st_shndx"] != "SHN_UNDEF"
            ]
            relocations = {}
            for section in elf.iter_sections():
                if isinstance(section, RelocationSection) and section["sh_flags"] & 2:
                    names = elf.get_section(section["sh_link"])
                    for each in section.iter_relocations():
                        row = each["r_info_sym"]
                        name = names.get_symbol(row).name if row and isinstance(names, SymbolTableSection) else ""
                        relocations[each["r_offset"]] = name, each["r_addend"]
            return cls(path, elf["e_machine"], sections, symbols, relocations)

    def instructions(self) -> list[tuple[int, str]]:
        """Address and text of each, as another disassembler has them."""
        if self.machine == "EM_X86_64":
            text = run(
                tool("objdump"), "-d", "-z", "-M", "intel", "--no-show-raw-insn", "-j", ".text", self.path
            ).stdout
        else:
            text = run(tool("llvm-objdump"), "-d", "-z", "--no-show-raw-insn", "-j", ".text", self.path).stdout
        return [(int(address, 16), line.strip()) for address, line in _OBJDUMP_LINE.findall(text)]

    def functions(self) -> dict[str, list[tuple[int, str]]]:
        """The instructions of each function whose name no other has."""
        count = Counter(name for name, _, _, kind in self.symbols if kind == "STT_FUNC")
        instructions = self.instructions()
        starts = [address for address, _ in instructions]
        return {
            name: instructions[bisect_right(starts, start - 1) : bisect_right(starts, start + size - 1)]
            for name, start, size, kind in self.symbols
            if kind == "STT_FUNC" and size and count[name] == 1
        }

    @cached_property
    def function_starts(self) -> set[int]:
        return {start for _, start, _, kind in self.symbols if kind == "STT_FUNC"}

    @cached_property
    def _names(self) -> dict[int, set[str]]:
        names: dict[int, set[str]] = defaultdict(set)
        for name, start, _, _ in self.symbols:
            if name:
                names[start].add(name.partition("@")[0])
        return names

    def names_at(self, address: int) -> set[str]:
        return self._names.get(address, set())

    def text_at(self, address: int) -> str:
        for _, start, data in self.sections:
            if start <= address < start + len(data):
                return data[address - start :].partition(b"\0")[0].decode(errors="replace")
        return ""

    def section(self, name: str) -> tuple[int, int]:
        return next((start, start + len(data)) for each, start, data in self.sections if each == name)


def meant(note: Json, caller: str) -> set[str]:
    """The functions that a note allows in one member of the function with the instruction."""
    mine = [meaning for meaning in note["meanings"] if not meaning["callers"] or caller in meaning["callers"]]
    assert len(mine) <= 1
    return {callee.partition("@")[0] for callee in mine[0]["callees"]} if mine else set()


def check_against_unfolded(program: Program, *what: str) -> Counter[str]:
    """Each branch and each place of each function; counts what was compared."""
    truth, folded = Truth.of(program.unfolded), Truth.of(program.folded)
    functions, starts = truth.functions(), Functions(program.unfolded)
    counts: Counter[str] = Counter()
    members: list[str] = []
    rows: list[Json] = []

    def finish() -> None:
        for name in members:
            theirs = functions.get(name)
            if theirs is None or len(theirs) != len(rows):
                counts["other code"] += 1  # the linker has made it, or relaxed it
                continue
            counts["functions"] += 1
            for row, (address, text) in zip(rows, theirs, strict=True):
                compare(truth, folded, starts, name, row, address, text, theirs, counts)

    for entry in disassemble(program.folded, *what):
        if "region" in entry:
            finish()
            listed = entry["region"]["members"] or []
            members = [name for member in listed for name in (member["linkage_name"], *member["aliases"])]
            rows = []
        else:
            rows.append(entry)
    finish()
    return counts


def compare(
    truth: Truth,
    folded: Truth,
    starts: Functions,
    name: str,
    row: Json,
    address: int,
    text: str,
    theirs: list[tuple[int, str]],
    counts: Counter[str],
) -> None:
    branch = _BRANCH.match(text)
    notes = {note["kind"]: note for note in row["notes"]}
    if branch:
        target, label = int(branch[1], 16), branch[2]
        inside = theirs[0][0] <= target <= theirs[-1][0]
        if label.endswith(("@plt", "$plt")):
            assert notes["import"]["symbol"].partition("@")[0] == label[: -len("@plt")], (name, text, row)
            counts["imports"] += 1
        elif not inside and target in truth.function_starts:
            assert "function" in notes, (name, text, row, truth.path)
            known = {each.partition("@")[0] for each in starts.at(hex(target + 1))}
            allowed = meant(notes["function"], name)
            assert {each.partition(".")[0] for each in allowed} & known, (name, text, row)
            merged = notes["function"]["members"] > 1
            counts[("merged" if merged else "plain") + (" named" if len(allowed) == 1 else " open")] += 1
        elif inside and target != theirs[0][0]:
            assert "function" not in notes, (name, text, row)
            counts["inside"] += 1
        return
    place = _PLACE.search(text)
    if place is None:
        return
    there = int(place[1], 16)
    for note in row["notes"]:
        kind = note["kind"]
        if kind == "pointer":
            note = note["place"]
        if note["kind"] == "data":
            if note["text"] is not None:
                assert note["text"] == truth.text_at(there), (name, text, row)
                counts["texts"] += 1
            if note["symbols"]:
                assert truth.names_at(there - note["offset"]) & {each.partition("@")[0] for each in note["symbols"]}
                counts["symbols"] += 1
        elif note["kind"] == "function":
            assert meant(note, name) & truth.names_at(there - note["offset"]), (name, text, row)
            counts["addresses"] += 1
        if kind == "pointer" and there in truth.relocations:
            symbol, addend = truth.relocations[there]
            target = row["notes"][0]["target"]
            if target["kind"] == "import":
                assert target["symbol"].partition("@")[0] == symbol, (name, text, row)
            elif target["kind"] == "function":
                assert meant(target, name) & truth.names_at(addend - target["offset"]), (name, text, row)
            elif target["symbols"] and not symbol:
                found = {each.partition("@")[0] for each in target["symbols"]}
                assert found & truth.names_at(addend - target["offset"]), (name, text, row)
            counts["pointers"] += 1


def all_code(image: Path) -> str:
    low, high = Truth.of(image).section(".text")
    return f"{low:#x}..{high:#x}"


@pytest.mark.parametrize("toolchain", BUILDS, ids=str, indirect=True)
def test_every_name_is_that_of_the_link_without_folding(workshop: Workshop) -> None:
    program = workshop.build_with_tables(SOURCE)
    is_static = "-static" in workshop.toolchain.link_flags
    counts = check_against_unfolded(program, *(FUNCTIONS if is_static else [all_code(program.folded)]))
    assert counts["merged open"] == 0
    assert counts["merged named"] >= 6 or workshop.toolchain == AARCH64_MOLD, counts  # which folds nothing here
    assert is_static or counts["imports"] > 10 and counts["functions"] > 10, counts
    if workshop.toolchain in (GOLD, LLD, GCC_MOLD, AARCH64):
        check_places(program)


def check_places(program: Program) -> None:
    """What the source says of virtual calls, vtables, strings and pointers."""
    (jump,) = [line for line in disassemble(program.folded, "sell_on") if line.get("mnemonic") in ("jmp", "br")]
    assert [(note["kind"], note["slot"]) for note in jump["notes"]] == [("virtual_call", 2)]
    lines = disassemble(program.folded, "sell(Fruit&)", "choose", "main")
    kinds = [note for line in lines for note in line.get("notes", ())]
    (call,) = [note for note in kinds if note["kind"] == "virtual_call"]
    assert call["slot"] == 2 and {"_ZN5Apple5priceEv", "_ZN4Pear5priceEv"} <= set(call["merged"])
    places = [place for note in kinds for place in (note, note.get("place"), note.get("target")) if place]
    symbols = {(symbol, place["offset"]) for place in places for symbol in place.get("symbols", ())}
    assert {("_ZTV5Apple", 16), ("_ZTV4Pear", 16), ("handler", 0)} <= symbols
    texts = {place.get("text") for place in places}
    assert {"one", "two", "three", "five", 'a "quoted"\tline\n'} <= texts
    (held,) = [note for note in kinds if note["kind"] == "pointer" and "handler" in note["place"].get("symbols", ())][
        :1
    ]
    assert held["target"]["meanings"][0]["callees"] == ["_Z4sellR5Fruit"] and not held["is_constant"]


SWITCHES = {
    "gcc": """
        .globl choose
        .type choose, @function
    choose: cmp $3, %edi
        ja 9f
        mov %edi, %edi
        lea table(%rip), %rdx
        movslq (%rdx,%rdi,4), %rax
        add %rdx, %rax
        notrack jmp *%rax
    """,
    "aarch64-linux-gnu-gcc": """
        .globl choose
        .type choose, @function
    choose: cmp w0, #3
        b.hi 9f
        adrp x1, table
        add x1, x1, :lo12:table
        ldrsw x0, [x1, w0, uxtw #2]
        add x0, x0, x1
        br x0
    """,
}


@pytest.mark.parametrize("compiler", SWITCHES)
def test_a_switch_has_as_many_entries_as_cases(compiler: str, tmp_path: Path) -> None:
    source, image = tmp_path / "switch.s", tmp_path / "switch"
    source.write_text(f"""{SWITCHES[compiler]}
        one: nop
        two: nop
        three: nop
        9: ret
        .size choose, . - choose
        .section .rodata
        .balign 4
        table: .long two-table, one-table, two-table, three-table, one-table
        .section .note.GNU-stack, "", %progbits
    """)
    run(tool(compiler), "-nostdlib", "-static", "-Wl,-e,choose", source, "-o", image)
    address = {name: start for name, start, _, _ in Truth.of(image).symbols}
    (note,) = [note for line in disassemble(image, "choose") for note in line.get("notes", ()) if "targets" in note]
    assert int(note["address"], 16) == address["table"] and note["entries"] == 4
    assert [int(target, 16) for target in note["targets"]] == [address[name] for name in ("two", "one", "two", "three")]


@pytest.mark.parametrize("toolchain", [AARCH64], ids=str, indirect=True)
def test_addresses_that_two_instructions_form_are_those_of_the_relocations(workshop: Workshop) -> None:
    program = workshop.build(SOURCE)
    with program.folded.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".rela.text")
        assert isinstance(section, RelocationSection)
        symbols = ELFFile(file).get_section(section["sh_link"])
        assert isinstance(symbols, SymbolTableSection)
        truth: dict[int, int] = {}
        for each in section.iter_relocations():
            if each["r_info_type"] in _LOW_12_BITS and len(truth) < 400:
                symbol = symbols.get_symbol(each["r_info_sym"])
                if symbol["st_shndx"] != "SHN_UNDEF":
                    truth[each["r_offset"]] = symbol["st_value"] + each["r_addend"]
    equal = formed = 0
    for line in disassemble(program.folded, f"{min(truth):#x}..{max(truth) + 4:#x}"):
        vaddr = int(line.get("address", "0"), 16)
        place = next((note.get("place", note) for note in line.get("notes", ())), None)
        if vaddr in truth and place is not None and line["mnemonic"] not in ("nop", "adr"):  # relaxed
            equal += int(place["address"], 16) == truth[vaddr]
            assert int(place["address"], 16) == truth[vaddr] or place.get("section") == ".eh_frame", line
        formed += vaddr in truth and line["mnemonic"] not in ("nop", "adr")
    assert equal > 100 and equal > 0.8 * formed


_LOW_12_BITS = (277, 278, 284, 285, 286, 299)  # R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST*_ABS_LO12_NC
