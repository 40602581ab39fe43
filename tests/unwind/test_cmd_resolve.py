"""`icf resolve` on recordings: the format by its content, options that do not go together, outputs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.cli import main
from icf.demangle import demangle
from icf.filedigest import stamp_of
from linkpass import Options, run_pass
from tests.support.paths import ROOT
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.store import open_or_build

SHOP = ROOT / "testdata" / "shop"
FIRST = json.loads((SHOP / "shop.gold.json").read_text().splitlines()[1])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the program with its tables, in the current folder."""
    image = Path(shutil.copy(SHOP / "shop.gold", tmp_path / "shop"))
    run_pass(str(image), Options())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    return image


def folded() -> str:
    """Return the stack as collapsed stacks have it: outermost first, addresses in a module."""
    frames = ["libc_start" if word == "?" else f"shop+{word}" for word in FIRST["stack"].split()]
    return f"{';'.join(reversed(frames))} 12\n"


def test_the_content_tells_the_format(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.folded").write_text(folded())
    Path("s.txt").write_text(FIRST["stack"])
    assert main(["resolve", "c.folded", "--out", "json", "--lossy", "none"]) == 0
    recorded = json.loads(capsys.readouterr().out)
    assert [frame["linkage_name"] for frame in recorded["frames"]] == FIRST["truth"]
    assert recorded["weight"] == 12
    assert [frame.get("recorded_name") for frame in recorded["frames"]].count("libc_start") == 2
    assert main(["resolve", "-e", "shop", "s.txt", "--out", "json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [frame["linkage_name"] for frame in alone["frames"]] == FIRST["truth"]


def test_stacks_of_one_image_have_every_format(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text(f"{FIRST['stack']} x3\n")
    command = ["resolve", "-e", "shop", "s.txt", "--no-lines", "--out", "collapsed"]
    assert main(command) == 0
    names = [demangle(name) if name else "[unknown]" for name in FIRST["truth"]]
    assert capsys.readouterr().out == f"{';'.join(reversed(names))} 3\n"
    assert main([*command, "--explain"]) == 1
    assert capsys.readouterr().err == "icf: error: --explain is for --out text and json, not for collapsed\n"
    assert main(["resolve", "--modules", "/proc/self/maps", "s.txt", "--out", "collapsed"]) == 1
    assert (
        "--out collapsed needs a recording\nhint: stacks of addresses alone: --out text or json, with -e IMAGE any"
        in (capsys.readouterr().err)
    )


def test_stacks_without_modules_need_an_image(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text(FIRST["stack"])
    assert main(["resolve", "s.txt"]) == 2
    assert "these stacks are addresses alone: name what they are of" in capsys.readouterr().err
    Path("s.txt").write_text("")
    assert main(["resolve", "s.txt"]) == 1
    assert capsys.readouterr().err == "icf: error: s.txt: is empty\n"


@pytest.mark.parametrize("option", [["--modules", "m"], ["--pid", "1"], ["--second-reader"]])
def test_options_that_are_not_for_recordings(shop: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.folded").write_text(folded())
    assert main(["resolve", "c.folded", *option]) == 1
    assert f"{option[0]} is for stacks of addresses alone, c.folded is collapsed" in capsys.readouterr().err


def test_recordings_are_explained(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The facts are those of the same stack as addresses alone, with the addresses that the recording has."""
    Path("s.txt").write_text(f"{FIRST['stack']}\n")
    assert main(["resolve", "-e", "shop", "--explain", "s.txt"]) == 0
    known = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("        - ")]
    assert sum("excluded" in line for line in known) == 3
    vaddrs = [int(word, 16) for word in FIRST["stack"].split() if word != "?"]
    Path("m.json").write_text(json.dumps([{"path": "shop", "bias": "0x55d300000000"}]))
    Path("bt.txt").write_text(
        "".join(f"#{i:<2} {0x55D3_0000_0000 + at:#018x} in f (a=1)\n" for i, at in enumerate(vaddrs))
    )
    for stacks in (["--lossy", "none", "c.folded"], ["--modules", "m.json", "bt.txt"]):
        Path("c.folded").write_text(";".join(f"shop+{at:#x}" for at in reversed(vaddrs)) + " 1\n")
        assert main(["resolve", "--explain", *stacks, "--out", "text"]) == 0
        facts = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("        - ")]
        assert facts == known
        assert main(["resolve", "--explain", *stacks, "--out", "json"]) == 0
        frames = json.loads(capsys.readouterr().out)["frames"]
        assert [f"- {fact}" for frame in frames for fact in frame["explain"]] == known
    assert main(["resolve", "--explain", "c.folded"]) == 1
    assert "--explain is for --out text and json, not for collapsed" in capsys.readouterr().err


def test_what_is_in_no_format(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("note.txt").write_text("hello, world\n")
    assert main(["resolve", "note.txt"]) == 1
    unknown = "note.txt: file header+0x0: is in no format of stacks that icf knows: pcs,"
    assert unknown in capsys.readouterr().err
    assert main(["resolve", "-e", "shop", "note.txt"]) == 1
    assert unknown in capsys.readouterr().err
    Path("note.txt").write_text("# a stack\n0x1136 hello,\n")
    assert main(["resolve", "-e", "shop", "note.txt"]) == 1
    assert "note.txt:2: frame 'hello,': not a hexadecimal address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"\x7fELF\2\1\1" + bytes(9) + b"\4\0", "it is a core file: icf stacks x"),
        (b"\x7fELF\2\1\1" + bytes(9) + b"\3\0", "it is an image: name it with -e x, besides the stacks"),
        (b"MDMP" + bytes(60), "it is a minidump: icf stacks x"),
    ],
)
def test_what_reads_a_file_without_stacks(
    shop: Path, content: bytes, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x").write_bytes(content)
    assert main(["resolve", "x"]) == 1
    assert capsys.readouterr().err.endswith(f"hint: {hint}\n")


def test_a_text_without_stacks(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("note.txt").write_text("hello, world\n")
    assert main(["resolve", "--format", "gdb", "note.txt"]) == 1
    assert capfd.readouterr() == ("", "icf: error: note.txt: has no stack in the format gdb\n")
    assert main(["resolve", "--format", "log", "note.txt"]) == 0
    assert capfd.readouterr() == ("hello, world\n", "icf: note.txt: has no stack in a form that icf knows\n")


@pytest.mark.parametrize("form", [[], ["--format", "log"]])
def test_modules_whose_place_nothing_says(shop: Path, form: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """`-e` says it for a program that gdb has started, not for one that the kernel has placed anywhere."""
    Path("bt.txt").write_text(
        "#0  0x00007a5500001136 in f (a=1) at a.c:1\n#1  0x00007a5500001180 in main () at a.c:2\n"
    )
    assert main(["resolve", *form, "-e", "shop", "bt.txt"]) == 1
    assert "icf: bt.txt: nothing says where the modules of 1 stack lay\nhint: --modules FILE" in capfd.readouterr().err


def test_merged_functions_of_an_image_without_tables(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first thing that a user tries: profiles of a program that was only linked."""
    shutil.copy(SHOP / "shop.gold", "plain")
    Path("c.folded").write_text(folded().replace("shop+", "plain+"))
    assert main(["resolve", "c.folded"]) == 0
    error = "icf: plain has no call-site tables: 6 distinct frames may be of several functions\n"
    assert error + "hint: run 'icf pass plain'\n" in capfd.readouterr().err
    Path("c.folded").write_text(folded())
    assert main(["resolve", "c.folded"]) == 0
    assert "has no call-site tables" not in capfd.readouterr().err


def test_an_output_file_replaces_another_when_it_is_complete(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.folded").write_text(folded())
    out = Path("result")
    out.write_text("older")
    os.umask(mask := os.umask(0))
    assert main(["resolve", "c.folded", "-o", "result", "--out", "json"]) == 0
    assert json.loads(out.read_text())["weight"] == 12
    assert out.stat().st_mode & 0o777 == 0o666 & ~mask
    out.write_text("older")
    main(["resolve", "c.folded", "-o", "missing/result"])
    assert "missing/result: No such file or directory" in capsys.readouterr().err
    assert out.read_text() == "older" and not list(Path().glob(".result*"))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("resolve -e shop s.txt", "shop"),
        ("resolve -e shop s.txt", "./s.txt"),
        ("resolve c.folded", "c.folded"),
        ("resolve --modules m.json s.txt", "link"),
        ("snapshot shop", "shop"),
        ("report shop", "shop"),
        ("trace convert lack.log -e shop", "shop"),
        ("trace convert lack.log -e shop", "lack.log"),
        ("cache export shop", "shop"),
    ],
)
def test_no_input_is_overwritten(shop: Path, command: str, output: str, capfd: pytest.CaptureFixture[str]) -> None:
    open_or_build("shop")
    Path("s.txt").write_text(f"{FIRST['stack']}\n")
    Path("c.folded").write_text(folded())
    Path("lack.log").write_text("I  0000066b,3\n")
    Path("m.json").write_text(json.dumps([{"path": "shop", "bias": 0}]))
    Path("link").symlink_to("m.json")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert main([*command.split(), "-o", output]) == 1
    error = f"icf: error: {output}: is read by this command, and not overwritten\nhint: give the output another name\n"
    assert capfd.readouterr().err == error
    assert before == {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def test_nothing_known_is_a_failure(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.folded").write_text("main;run 12\n")
    assert main(["resolve", "c.folded", "--out", "text"]) == 1
    out, err = capsys.readouterr()
    assert '"main"' in out and "every frame of every stack is unknown" in err


def report() -> str:
    """Return the stack as a sanitizer without a symbolizer writes it."""
    vaddrs = [int(word, 16) for word in FIRST["stack"].split() if word != "?"]
    return "".join(f"    #{idx} {vaddr:#x}  (shop+{vaddr:#x})\n" for idx, vaddr in enumerate(vaddrs))


@pytest.mark.parametrize("form", ["#{idx:<2} {run:#018x} in f (a=1) at a.c:1\n", "{idx:4}: {run:#18x} - shop::f\n"])
def test_modules_say_where_text_without_modules_lay(shop: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    stack = [int(word, 16) for word in FIRST["stack"].split() if word != "?"][1:]
    Path("bt.txt").write_text("".join(form.format(idx=idx, run=0x7000_0000 + at) for idx, at in enumerate(stack)))
    Path("modules.json").write_text(json.dumps([{"path": "shop", "bias": 0x7000_0000}]))
    assert main(["resolve", "--modules", "modules.json", "bt.txt", "--out", "json"]) == 0
    frames = json.loads(capsys.readouterr().out)["frames"]
    truth = [name for name in FIRST["truth"] if name][1:]
    is_pc = form.startswith("#")  # gdb's first frame is a program counter: after the call, in the same function here
    assert [frame["linkage_name"] for frame in frames][is_pc:] == truth[is_pc:]
    assert main(["resolve", "bt.txt"]) == 1
    assert "every frame of every stack is unknown" in capsys.readouterr().err
    assert main(["resolve", "--pid", "1", "bt.txt"]) == 1
    assert "hint: icf resolve --format log --pid PID" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "shown"), [("List<Payment>::grow", "List<Order>::grow"), ("main", "main"), ("List::grow", "List::grow")]
)
def test_gdb_leaves_out_the_address_at_the_beginning_of_a_line(
    shop: Path, given: str, shown: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Its name is the wrong one of those that share the body that the caller calls, or of something else."""
    stack = [int(word, 16) for word in FIRST["stack"].split() if word != "?"][2:]
    lines = [
        f"#0  {given} (this=0x1) at list.h:9",
        *(f"#{idx:<2} {at:#018x} in f () at a.c:1" for idx, at in enumerate(stack, 1)),
    ]
    Path("bt.txt").write_text("".join(f"{line}\n" for line in lines))
    Path("modules.json").write_text(json.dumps([{"path": "shop", "bias": 0}]))
    command = ["resolve", "--modules", "modules.json", "bt.txt"]
    assert main([*command, "--format", "log"]) == 0
    assert capfdbinary.readouterr().out.splitlines()[0].decode() == f"#0  {shown} (this=0x1) at list.h:9"
    assert main([*command, "--out", "json"]) == 0
    frame = json.loads(capfdbinary.readouterr().out)["frames"][0]
    if shown != given:
        assert (frame["address"], frame["verdict"], frame["linkage_name"]) == (None, "unique", FIRST["truth"][1])
        assert (frame["file"], frame["line"]) == ("list.h", 9)
    else:
        assert (frame["verdict"], frame["recorded_name"]) == ("unknown", given)


@pytest.mark.parametrize("head", ["stack backtrace:\n", ""])  # of a panic, and of a Backtrace that is printed
def test_backtraces_of_rust_without_addresses(tmp_path: Path, head: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "panic").write_text(f"{head}   0: shop::grow\n             at ./src/main.rs:4:5\n")
    assert main(["resolve", str(tmp_path / "panic")]) == 1
    assert capsys.readouterr().err == (
        f"icf: error: {tmp_path}/panic: the backtraces have no addresses\n"
        "hint: run with RUST_BACKTRACE=full, and print a Backtrace with {:#}\n"
    )


def test_a_log_keeps_its_form(shop: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("crash.log").write_text(f"x\n{report()}y")
    assert main(["resolve", "crash.log", "--out", "json"]) == 0
    names = [frame["linkage_name"] for frame in json.loads(capfdbinary.readouterr().out)["frames"]]
    assert names == [name for name in FIRST["truth"] if name]
    assert main(["resolve", "--format", "log", "crash.log", "-o", "out"]) == 0
    first, *frames, last = Path("out").read_text().splitlines()
    assert (first, last, len(frames)) == ("x", "y", len(names)) and " in List<Order>::grow() " in frames[1]
    Path("none.log").write_text("    #0 0x1136  (/no/such+0x1136)\n")
    assert main(["resolve", "--format", "log", "none.log"]) == 1
    captured = capfdbinary.readouterr()
    assert captured.out == Path("none.log").read_bytes()
    assert b"/no/such: no such file: 1 distinct frame is unknown" in captured.err
    assert b"every frame of every stack is unknown" in captured.err


def test_lists_of_candidates_are_cut(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = FIRST["stack"].split()[1]  # in a body of several functions; nothing says which
    Path("s.txt").write_text(f"{address}!\n")
    Path("c.folded").write_text(f"shop+{address} 1\n")
    cut = ["--max-candidates", "1"]
    for stacks in (["-e", "shop", "s.txt"], ["c.folded"]):
        assert main(["resolve", *stacks, "--out", "json"]) == 0
        (whole,) = json.loads(capsys.readouterr().out)["frames"]
        assert main(["resolve", *stacks, "--out", "json", *cut]) == 0
        (frame,) = json.loads(capsys.readouterr().out)["frames"]
        count = len(whole["candidates"])
        assert count > 1 and "more_candidates" not in whole
        assert frame["candidates"] == whole["candidates"][:1] and frame["more_candidates"] == count - 1
        assert main(["resolve", *stacks, "--out", "text", *cut]) == 0
        assert f"\n        and {count - 1} more\n" in capsys.readouterr().out
    assert main(["resolve", "c.folded", "--out", "pprof", "-o", "p", *cut]) == 1
    assert capsys.readouterr().err == "icf: error: --max-candidates is for --out text and json, not for pprof\n"
    with pytest.raises(SystemExit):
        main(["resolve", "c.folded", "--max-candidates", "few"])
    assert "--max-candidates: few: is not a number from 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--out", "json"], ["--explain"], ["--second-reader"], ["--no-vptr"], ["--max-candidates", "1"]]
)
def test_options_that_are_not_for_logs(shop: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("crash.log").write_text(report())
    assert main(["resolve", "--format", "log", "crash.log", *option]) == 1
    assert f"{option[0]} is not for logs, of which the lines keep their form" in capsys.readouterr().err


def test_addresses_are_put_into_text_alone(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.folded").write_text(folded())
    assert main(["resolve", "--format", "collapsed", "--addresses", "c.folded"]) == 1
    assert "--addresses is for any text, which --format log reads" in capsys.readouterr().err
    vaddr = int(FIRST["stack"].split()[0], 16)
    Path("jit.txt").write_text(f"call {vaddr:#010x}\n")
    assert main(["resolve", "--addresses", "-e", "shop", "jit.txt"]) == 0
    assert f"call {vaddr:#010x} <sample_allocation(unsigned long)+" in capsys.readouterr().out


def test_stacks_of_a_known_image_import_no_reader_of_images(shop: Path) -> None:
    Path("s.txt").write_text(FIRST["stack"])
    deadline_s = time.monotonic() + 30
    while not Folder.chosen().recall(stamp_of(shop.stat())):  # a file that has just changed is read once more
        assert time.monotonic() < deadline_s
        open_or_build(shop)
        time.sleep(0.05)
    query = "import sys; from icf.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    output = subprocess.check_output(
        [sys.executable, "-c", query, "resolve", "-e", "shop", "s.txt"],
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    answers, imported = output.rsplit("\n\n", 1)
    assert "[unique" in answers
    unwanted = {"icf.elf.image", "icf.dwarf", "unwind.program.from_image", "unwind.target.recorded", "networkx"}
    assert not unwanted & set(imported.split())


def test_a_caller_that_may_be_missing_decides_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The functions of the program have no frame pointers, so a walk along those would have left callers out."""
    Path("c.folded").write_text(folded())
    assert main(["resolve", "c.folded", "--out", "json"]) == 0
    out, err = capsys.readouterr()
    merged = [frame for frame in json.loads(out)["frames"] if frame["candidates"]]
    assert {frame["reason"] for frame in merged} == {"caller-may-be-missing"}
    assert {frame["verdict"] for frame in merged} == {"ambiguous"}
    assert "may lack the callers of 3 distinct frames in merged functions" in err and "--lossy none" in err
