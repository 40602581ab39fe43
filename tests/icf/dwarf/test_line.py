"""Line programs byte by byte: every opcode, every table form, odd headers, and what is refused."""

from __future__ import annotations

import pytest

from icf.dwarf.line import LineProgram, LineSections, SequenceMark, scan_all
from icf.errors import FormatError
from tests.support.line_lookup import lookup, read_line_program
from tests.support.line_tables import END, STANDARD_LENGTHS, function, set_address, sleb, uleb, unit

STMT, END_SEQUENCE, BLOCK, PROLOGUE_END, EPILOGUE_BEGIN = 1, 2, 4, 8, 16
AT = set_address(0x1000)


def sections(line: bytes, line_str: bytes = b"", str_: bytes = b"") -> LineSections:
    return LineSections(line, line_str, str_, "a.out")


def read(line: bytes, line_str: bytes = b"", str_: bytes = b"", comp_dir: str = "/build") -> LineProgram:
    return read_line_program(sections(line, line_str, str_), 0, comp_dir)


def rows(program: LineProgram) -> list[tuple[int, int, int, int, int]]:
    """(address, file, line, column, flags) of each row."""
    columns = (program.address, program.file_idx, program.line, program.column, program.flags)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("opcodes", "row"),
    [
        pytest.param(b"\x01", (0x1000, 1, 1, 0, STMT), id="copy"),
        pytest.param(b"\x02\x90\x01\x01", (0x1090, 1, 1, 0, STMT), id="advance_pc"),
        pytest.param(b"\x03\x8c\x01\x01", (0x1000, 1, 141, 0, STMT), id="advance_line"),
        pytest.param(b"\x03\x0a\x03\x79\x01", (0x1000, 1, 4, 0, STMT), id="advance_line back"),
        pytest.param(b"\x03\x7e\x01", (0x1000, 1, 0xFFFFFFFF, 0, STMT), id="line wraps at 32 bits"),
        pytest.param(b"\x04\x02\x01", (0x1000, 2, 1, 0, STMT), id="set_file"),
        pytest.param(b"\x05\xac\x02\x01", (0x1000, 1, 1, 300, STMT), id="set_column"),
        pytest.param(b"\x06\x01", (0x1000, 1, 1, 0, 0), id="negate_stmt"),
        pytest.param(b"\x06\x06\x01", (0x1000, 1, 1, 0, STMT), id="negate_stmt twice"),
        pytest.param(b"\x07\x01", (0x1000, 1, 1, 0, STMT | BLOCK), id="set_basic_block"),
        pytest.param(b"\x08\x01", (0x1011, 1, 1, 0, STMT), id="const_add_pc: (255-13)//14"),
        pytest.param(b"\x09\x34\x12\x01", (0x2234, 1, 1, 0, STMT), id="fixed_advance_pc"),
        pytest.param(b"\x0a\x01", (0x1000, 1, 1, 0, STMT | PROLOGUE_END), id="set_prologue_end"),
        pytest.param(b"\x0b\x01", (0x1000, 1, 1, 0, STMT | EPILOGUE_BEGIN), id="set_epilogue_begin"),
        pytest.param(b"\x0c\x07\x01", (0x1000, 1, 1, 0, STMT), id="set_isa"),
        pytest.param(b"\x12", (0x1000, 1, 1, 0, STMT), id="special: nothing"),
        pytest.param(b"\x4b", (0x1004, 1, 2, 0, STMT), id="special: 62 = 4*14+6, line +1"),
        pytest.param(b"\xff", (0x1011, 1, 0, 0, STMT), id="special: 242 = 17*14+4, line -1"),
        pytest.param(b"\0\x02\x04\x05\x01", (0x1000, 1, 1, 0, STMT), id="set_discriminator"),
        pytest.param(b"\0\x04\x80abc\x01", (0x1000, 1, 1, 0, STMT), id="vendor extended opcode"),
        pytest.param(b"\0\x00\x01", (0x1000, 1, 1, 0, STMT), id="extended opcode of no bytes"),
        pytest.param(b"\0\x07\x02\x00\x20\x00\x00zz\x01", None, id="set_address of 6 bytes"),
        pytest.param(set_address(0xFFFF, 2) + b"\x02\x03\x01", (0x10002, 1, 1, 0, STMT), id="set_address of 2 bytes"),
        pytest.param(b"\x02" + uleb(2**64 - 0x1000) + b"\x01", (0, 1, 1, 0, STMT), id="address wraps at 64 bits"),
        pytest.param(b"\x05" + uleb(2**32 - 1) + b"\x01", (0x1000, 1, 1, 2**32 - 1, STMT), id="widest column"),
        pytest.param(b"\x05" + uleb(2**32) + b"\x01", None, id="too wide column"),
        pytest.param(b"\x04" + uleb(2**32 + 1) + b"\x01", None, id="too wide file"),
        pytest.param(b"\x05\x83\x80\x80\x00\x01", (0x1000, 1, 1, 3, STMT), id="padded uleb"),
        pytest.param(b"\x03\xfe\xff\xff\x7f\x03\x04\x01", (0x1000, 1, 3, 0, STMT), id="padded sleb"),
        pytest.param(b"\x03" + sleb(-(2**63)) + b"\x01", (0x1000, 1, 1, 0, STMT), id="widest sleb"),
        pytest.param(b"\x02" + b"\xff" * 9 + b"\x02\x01", None, id="uleb over 64 bits"),
        pytest.param(b"\x03" + b"\xff" * 10 + b"\x01\x01", None, id="sleb over 10 bytes"),
    ],
)
def test_one_opcode(opcodes: bytes, row: tuple[int, int, int, int, int] | None) -> None:
    data = unit(AT + opcodes + END)
    if row is None:
        with pytest.raises(FormatError, match=r"a\.out: \.debug_line\+0x[0-9a-f]+: "):
            read(data)
    else:
        assert rows(read(data))[0] == row


def test_a_row_resets_its_marks_and_a_sequence_all_registers() -> None:
    program = read(unit(AT + b"\x06\x07\x0a\x0b\x04\x02\x05\x09\x01\x01" + END + set_address(0x2000) + b"\x01" + END))
    assert rows(program) == [
        (0x1000, 2, 1, 9, BLOCK | PROLOGUE_END | EPILOGUE_BEGIN),
        (0x1000, 2, 1, 9, 0),
        (0x1000, 2, 1, 9, END_SEQUENCE),
        (0x2000, 1, 1, 0, STMT),
        (0x2000, 1, 1, 0, STMT | END_SEQUENCE),
    ]
    assert program.sequence_idx.tolist() == [0, 0, 0, 1, 1]
    assert program.sequences.row_start.tolist() == [0, 3]
    assert program.sequences.row_end.tolist() == [3, 5]


def test_unknown_standard_opcodes_are_skipped_by_their_lengths() -> None:
    lengths = STANDARD_LENGTHS + b"\x00\x02"  # opcodes 13 and 14
    program = read(unit(AT + b"\x0d\x0e\xff\x01\x81\x80\x00\x01" + END, opcode_base=15, lengths=lengths))
    assert rows(program)[0] == (0x1000, 1, 1, 0, STMT)


def test_opcodes_from_opcode_base_on_are_special() -> None:
    program = read(unit(AT + b"\x0a\x0c" + END, 2, opcode_base=10, lengths=STANDARD_LENGTHS[:9]))
    assert [row[:3] for row in rows(program)[:2]] == [(0x1000, 1, 0xFFFFFFFC), (0x1000, 1, 0xFFFFFFF9)]


@pytest.mark.parametrize("opcode_base", [0, 1])
def test_without_standard_opcodes_all_but_extended_are_special(opcode_base: int) -> None:
    program = read(unit(AT + b"\x05" + END, opcode_base=opcode_base, lengths=b"", line_base=0, line_range=4))
    assert rows(program)[0] == (0x1001, 1, 2 - opcode_base, 0, STMT)


def test_known_opcodes_mean_what_dwarf_says_whatever_length_is_declared() -> None:
    lengths = bytes([3]) + STANDARD_LENGTHS[1:]
    assert len(rows(read(unit(AT + b"\x01\x01" + END, lengths=lengths)))) == 3


def test_minimum_instruction_length_scales_all_but_fixed_advance() -> None:
    program = read(unit(AT + b"\x02\x03\x01\x4b\x08\x01\x09\x02\x00\x01" + END, min_inst_length=4))
    assert [row[0] for row in rows(program)[:4]] == [0x100C, 0x101C, 0x1060, 0x1062]


def test_vliw_operations_advance_the_address_when_an_instruction_is_full() -> None:
    # 3 operations in an instruction of 16 bytes: 2 operations; 4 more are 6 in all; special 0x4b is 4 more
    program = read(unit(AT + b"\x02\x02\x01\x02\x04\x01\x4b\x08\x01" + END, min_inst_length=16, max_ops=3))
    assert [row[0] for row in rows(program)[:4]] == [0x1000, 0x1020, 0x1030, 0x1090]


def test_no_operations_in_an_instruction_means_one() -> None:
    assert rows(read(unit(AT + b"\x02\x05\x01" + END, 4, max_ops=0)))[0][0] == 0x1005


def test_default_is_stmt_holds_at_each_start() -> None:
    program = read(unit((AT + b"\x01\x06" + END) * 2, default_is_stmt=0))
    assert [row[4] for row in rows(program)] == [0, STMT | END_SEQUENCE] * 2


@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_every_truncation_is_refused_and_the_whole_is_read(version: int, dwarf64: bool) -> None:
    data = unit(AT + b"\x0a\x05\x02\x4b" + END, version, dwarf64=dwarf64)
    program = read(data)
    assert (program.version, rows(program)[0]) == (version, (0x1004, 1, 2, 2, STMT | PROLOGUE_END))
    files = ("", "/build/a.c", "/build/inc/b.h") if version < 5 else ("/src/a.c", "/src/a.c", "/src/inc/b.h")
    assert program.files == files
    for size_bytes in range(len(data)):
        with pytest.raises(FormatError, match=r"a\.out: \.debug_line\+0x[0-9a-f]+: "):
            read(data[:size_bytes])


@pytest.mark.parametrize("version", [2, 4, 5])
def test_a_header_or_program_cut_inside_of_its_unit_is_refused_or_has_less(version: int) -> None:
    data = unit(AT + b"\x05\x81\x01\x4b\x09\x10\x00\x01" + END, version)
    whole = len(rows(read(data)))
    for size_bytes in range(4, len(data)):
        cut = (size_bytes - 4).to_bytes(4, "little") + data[4:size_bytes]
        try:
            program = read(cut)
        except FormatError:
            continue
        assert len(program.address) == 0 and program.unterminated_row_count < whole


def test_rows_after_the_last_end_belong_to_nothing() -> None:
    program = read(unit(AT + b"\x01" + END + AT + b"\x01\x01"))
    assert len(program.address) == 2
    assert (len(program.sequences), program.unterminated_row_count) == (1, 2)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xf3\xff\xff\xff" + bytes(20), "unit_length 0xfffffff3 is reserved"),
        (b"\x20\x00\x00\x00\x05\x00", "unit_length 32 runs past the section"),
        (b"\xff\xff\xff\xff" + b"\xff" * 8 + bytes(8), f"unit_length {2**64 - 1} runs past the section"),
        (unit(b"", 6), "version is 6, 2 to 5 are known"),
        (unit(b"", 1), "version is 1, 2 to 5 are known"),
        (unit(b"", 4)[:6] + b"\xff\x00\x00\x00" + unit(b"", 4)[10:], "header_length 255 runs past the unit"),
        (unit(b"", 4)[:6] + b"\x04\x00\x00\x00" + unit(b"", 4)[10:], "header_length ends the header in the middle"),
        (unit(AT + b"\x40", line_range=0), "line_range is 0 and opcode 64 divides by it"),
        (unit(AT + b"\x08", line_range=0), "line_range is 0 and opcode 8 divides by it"),
        (unit(b"\0\x04\x02abc"), "DW_LNE_set_address has 3 bytes, not 1, 2, 4 or 8"),
        (unit(b"\0\x7f\x80abc"), "extended opcode of 127 bytes runs past the program"),
        (unit(b"\x05\x80"), "program ends in the middle of an opcode"),
        (unit(b"\x09\x01"), "program ends in the middle of an opcode"),
        (unit(b"", tables=b"\x01\x01\x1a\x01\x00\x00\x00"), "path has form 0x1a, which needs more than the line"),
        (unit(b"", tables=b"\x01\x01\x2c\x01\x00\x00\x00"), "form 0x2c is not one of a file table"),
        (unit(b"", tables=b"\x01\x01\x1f\x01\x03\x00\x00\x00\x00\x00"), "path at 0x3 is outside of its string section"),
        (unit(b"", tables=b"\x01\x01\x08\xff\xff\xff\xff\x0f"), "header_length ends the header in the middle"),
    ],
)
def test_what_is_refused_and_why(data: bytes, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(data, b"ab\0cd")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(unit(b""), id="empty program"),
        pytest.param(unit(b"", padding=b"\xaa" * 9), id="padding after the tables"),
        pytest.param(unit(b"", line_range=0), id="line_range 0 that nothing uses"),
        pytest.param(unit(b"", min_inst_length=0), id="minimum_instruction_length 0"),
        pytest.param(unit(b"", tables=bytes(4)), id="no formats, no entries"),
        pytest.param(unit(b"", tables=b"\x00\x05\x00\xff\xff\x03"), id="entries without fields"),
        pytest.param(unit(b"", 4, tables=b""), id="no tables"),
        pytest.param(unit(b"", 3, tables=b"\0a.c\0\0\0\0"), id="files without a terminator"),
        pytest.param(unit(b"\0\0\0\0"), id="zeros after the program"),
    ],
)
def test_odd_headers_are_accepted(data: bytes) -> None:
    program = read(data)
    assert len(program.address) == 0
    assert lookup(program, 0x1000) is None


def test_every_form_of_a_file_table() -> None:
    tables = (
        b"\x01\x01\x1f"  # directories: path in .debug_line_str
        b"\x02" + b"\x00\x00\x00\x00" + b"\x05\x00\x00\x00"  # "/src", "sub"
        b"\x0e"  # files: 14 fields
        b"\x01\x0e"  # path in .debug_str
        b"\x02\x05"  # directory index, data2
        b"\x05\x1e"  # MD5, data16
        b"\x03\x0f\x04\x0d"  # time udata, size sdata
        b"\x81\x40\x09\x82\x40\x0a\x83\x40\x03\x84\x40\x04"  # vendor: block, block1, block2, block4
        b"\x85\x40\x06\x86\x40\x07\x87\x40\x17\x88\x40\x27"  # vendor: data4, data8, sec_offset, strx3
        b"\x81\x40\x08"  # DW_LNCT_LLVM_source-like: string
        b"\x01"  # 1 file
        b"\x04\x00\x00\x00"  # "a.c"
        b"\x01\x00"
        + bytes(range(16))
        + b"\x81\x01"
        + b"\xff" * 11
        + b"\x7f"  # an sdata that is too wide is stepped over
        b"\x02\xff\xff" + b"\x01\xff" + b"\x01\x00\xff" + b"\x01\x00\x00\x00\xff"
        b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\xff" * 4 + b"\xff" * 3 + b"text\0"
    )
    program = read(unit(AT + b"\x01" + END, tables=tables), b"/src\0sub\0", b"zzz\0a.c\0")
    assert program.files == ("/src/sub/a.c",)


def test_paths_are_joined_unless_absolute() -> None:
    tables = b"/abs\0rel\0C:\\win\0\0" + b"".join(
        name + b"\0" + bytes([directory]) + b"\0\0"
        for name, directory in [(b"a", 0), (b"b", 1), (b"c", 2), (b"/d", 2), (b"e", 3), (b"f", 9), (b"\xff", 0)]
    )
    program = read(unit(b"", 4, tables=tables + b"\0"), comp_dir="/cd/")
    assert program.files == ("", "/cd/a", "/abs/b", "/cd/rel/c", "/d", "C:\\win/e", "f", "/cd/\udcff")
    assert program.file(99) == ""


def test_relative_first_directory_is_below_the_compilation_directory() -> None:
    tables = b"\x01\x01\x08\x02src\0sub\0" + b"\x02\x01\x08\x02\x0f\x02a\0\x00b\0\x01"
    assert read(unit(b"", tables=tables), comp_dir="/cd").files == ("/cd/src/a", "/cd/src/sub/b")
    assert read(unit(b"", tables=tables), comp_dir="src").files == ("src/a", "src/sub/b")


@pytest.mark.parametrize("version", [4, 5])
def test_define_file_adds_a_file(version: int) -> None:
    define = b"\x03new.c\0\x01\x00\x00"  # DW_LNE_define_file: path, directory 1, time, size
    program = read(unit(AT + b"\0" + bytes([len(define)]) + define + b"\x04\x03\x01" + END, version))
    assert program.file(3) == ("/build/inc/new.c" if version == 4 else "/src/inc/new.c")
    row = lookup(program, 0x1000)
    assert row is None  # the sequence is empty
    with pytest.raises(FormatError, match="string has no terminating NUL"):
        read(unit(AT + b"\0\x03\x03ab" + END, version))


@pytest.mark.parametrize(("start", "size_bytes"), [(0, 8), (1, 8), (-1, 8), (-2, 8), (-1, 4), (-2, 4), (0, 4)])
def test_sequences_at_tombstones_are_dead(start: int, size_bytes: int) -> None:
    body = b"\x01\x02\x10" + END
    program = read(unit(set_address(start, size_bytes) + body + AT + body + body))
    assert program.sequences.dead.tolist() == [True, False, True]  # the last has no address at all
    assert program.sequences_at(start % 2 ** (8 * size_bytes)).tolist() == []
    assert program.sequences_at(0x100F).tolist() == [1]
    assert program.sequences_at(0x1010).tolist() == []


@pytest.mark.parametrize("vaddr", [2, 2**32 - 1, 2**63, 2**64 - 32])
def test_addresses_of_all_sizes_are_found(vaddr: int) -> None:
    program = read(unit(function(vaddr, [(0, 1, 10), (4, 1, 11)])))
    assert program.sequences.dead.tolist() == [False]
    assert [(row.line if (row := lookup(program, vaddr + i)) else None) for i in (0, 3, 4, 15)] == [10, 10, 11, 11]
    assert lookup(program, vaddr + 16) is None
    assert lookup(program, vaddr - 1) is None
    assert lookup(program, -1) is None and lookup(program, 2**64, 0) is None


def test_a_sequence_that_goes_back_is_marked_and_still_answers() -> None:
    program = read(unit(AT + b"\x01" + set_address(0x800) + b"\x03\x05\x01\x02\x08\x03\x01\x01\x02\x08" + END))
    assert program.sequences.marks.tolist() == [SequenceMark.UNORDERED]
    assert (program.sequences.start.tolist(), program.sequences.end.tolist()) == ([0x800], [0x1000])
    assert [(row.line if (row := lookup(program, at)) else None) for at in (0x804, 0x808, 0x900)] == [6, 7, None]


def test_folded_bodies_have_a_row_in_each_sequence() -> None:
    folded = function(0x1000, [(0, 1, 10), (8, 1, 12)]) + function(0x1000, [(0, 2, 30), (8, 1, 12)])
    program = read(unit(folded + function(0x2000, [(0, 1, 40)])))
    assert program.sequences_at(0x1004).tolist() == [0, 1]
    assert lookup(program, 0x1004) is None  # 10 or 30
    row = lookup(program, 0x1004, 1)
    assert row is not None and (row.file, row.line) == ("/src/inc/b.h", 30)
    agreed = lookup(program, 0x1008)
    assert agreed is not None and agreed.line == 12
    assert lookup(program, 0x2000, 0) is None


def test_one_bad_program_does_not_end_the_others() -> None:
    good, bad = unit(function(0x1000, [(0, 1, 7)])), unit(AT + b"\x01\x05\x80")
    data = good + bad + good
    offsets = [len(good) + len(bad), 0, len(good), 0, len(data), 2**64 - 1]
    first, second, third, again, past, far = scan_all(sections(data), offsets, threads=2)
    assert isinstance(first, LineProgram) and isinstance(second, LineProgram) and again is second
    assert rows(first) == rows(second)
    assert isinstance(third, FormatError) and "program ends in the middle of an opcode" in str(third)
    assert isinstance(past, FormatError) and isinstance(far, FormatError)
    assert "offset is outside of the section" in str(past)


def test_programs_that_overlap_are_read_up_to_a_bound() -> None:
    # each unit's program is vendor opcodes that hide the next unit, so that each reaches to the end of the section
    data, count = b"", 40
    for _ in range(count):
        data = unit(b"\0" + uleb(len(data) + 1) + b"\x80" + data)
    offsets = [data.find(b"\x05\x00\x08\x00", start) - 4 for start in range(0, len(data), 8)]
    found = scan_all(sections(data), sorted(set(offsets) - {-5}))
    assert [isinstance(program, LineProgram) for program in found[:4]] == [True] * 4
    assert "too many line programs overlap" in str(found[count // 2])


def test_many_units_in_threads_are_what_one_is() -> None:
    one = unit(function(0x1000, [(i, 1, i + 5) for i in range(200)], size_bytes=400))
    count = (3 << 20) // len(one)
    data = one * count
    offsets = [i * len(one) for i in range(count)]
    expected = rows(read(one))
    for program in scan_all(sections(data), offsets, threads=2)[:: count // 50]:
        assert isinstance(program, LineProgram) and rows(program) == expected
