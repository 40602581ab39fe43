"""`icf symbolize` in place of addr2line and llvm-symbolizer, and where functions are folded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, LLD, USUAL, Workshop
from tests.support.toolchain import run, tool

SOURCE = """
#include <cstdio>
namespace ns {
static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + __builtin_popcount(x); }
static inline __attribute__((always_inline)) int outer(int x) { return inner(x) + inner(x + 1); }
template <class T> struct Box {
  T v;
  __attribute__((noinline)) T get(T d) const { volatile T k = v; return k + d + (T)outer((int)d); }
};
}
extern "C" __attribute__((noinline)) int plain(int x) { return ns::outer(x) * 2; }
int main(int argc, char **) {
  ns::Box<int> b{argc};
  auto twice = [&](int z) __attribute__((noinline)) { return z * argc; };
  std::printf("%d\\n", b.get(2) + plain(argc) + twice(4));
}
"""
FOLDED = """
struct Pear { int weight; };
struct Plum { int weight; };
static inline int rounded(int x) { return (x + 7) & ~7; }
__attribute__((noinline, used)) int weigh_pear(Pear *p) {
  return rounded(p->weight) * 3;
}
__attribute__((noinline, used)) int weigh_plum(Plum *p) {
  return rounded(p->weight) * 3;
}
int main(int argc, char **) { Pear a{argc}; Plum b{argc}; return weigh_pear(&a) + weigh_plum(&b); }
"""

DECLARED = {"weigh_pear": 5, "weigh_plum": 8}  # lines of FOLDED


def symbolize(*args: str | Path, text: str = "", status: int = 0) -> str:
    """What `icf symbolize` writes, with `text` on its stdin."""
    with pytest.MonkeyPatch.context() as patch, TemporaryFile() as stdin:
        stdin.write(text.encode())
        stdin.seek(0)
        patch.setattr(sys, "stdin", stdin)
        return icf("symbolize", *args, status=status)


def llvm_symbolizer(*args: str | Path, text: str = "") -> str:
    command = [tool("llvm-symbolizer"), *map(str, args)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", params=USUAL, ids=str)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program without folding, of which the other tools know as much as we do."""
    workshop = Workshop(tmp_path_factory.mktemp("symbolize"), request.param)
    return workshop.link("program", workshop.compile(SOURCE), "none")[0]


def addresses(image: Path, pattern: str = "plain|main|Box|_ZZ4main|_start", step: int = 3) -> list[str]:
    """Addresses all over the functions of the source, and two that are in none."""
    found = ["0x1"]
    for line in run("nm", "-S", image).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and re.search(pattern, fields[3]):
            start, size_bytes = int(fields[0], 16), int(fields[1], 16)
            found += [hex(start + offset) for offset in range(0, max(size_bytes, 1), step)]
    assert len(found) > 10
    return [*found, "0x2"]


@pytest.mark.parametrize(
    "options",
    [
        "",
        "-p -a",
        "--no-inlines",
        "--no-inlines -p -a",
        "--functions=none -p",
        "--no-demangle -a",
        "-f -i -C -s",
        "--output-style=GNU",
        "--output-style=GNU -p -a",
        "--output-style=GNU -a --no-inlines",
        "--output-style=GNU --functions=none -s",
        "--adjust-vma=0x10000",
        "--relative-address --basenames --pretty-print",
        "--inlining=false -f=none",
        "-demangle=false --inlining=true",
        "--demangle --inlines --default-arch=x86_64",  # what sanitizers say
        "--cache-size=1 --color=never --no-debuginfod --debug-file-directory=/usr/lib/debug",
    ],
)
def test_text_is_that_of_llvm_symbolizer(program: Path, options: str) -> None:
    asked = addresses(program)
    if "adjust" in options:
        asked = [hex(int(address, 16) + 0x10000) for address in asked]
    theirs = llvm_symbolizer(f"--obj={program}", *options.split(), *asked)
    assert symbolize(f"--obj={program}", *options.split(), *asked) == theirs
    assert symbolize("-e", program, *options.split(), text="".join(f"{address}\n" for address in asked)) == theirs


def test_short_names_are_those_of_declarations(program: Path) -> None:
    asked = addresses(program, "plain|main|Box")  # of functions without debug information it has none
    theirs = llvm_symbolizer(f"--obj={program}", "--functions=short", *asked)
    assert symbolize(f"--obj={program}", "--functions=short", *asked) == theirs


def without_what_is_not_known(answer: Any) -> Any:
    """A symcache does not know where functions are declared; that there may be more functions is ours to say."""
    for each in answer:
        each.pop("CandidatesComplete", None)
        for frame in each["Symbol"]:
            frame["StartFileName"], frame["StartLine"] = "", 0
            if frame is not each["Symbol"][-1] or not frame["Line"]:
                frame["StartAddress"] = ""
    return answer


@pytest.mark.parametrize("options", ["", "--no-inlines", "--no-demangle -s", "-p", "--functions=none"])
def test_json_is_that_of_llvm_symbolizer(program: Path, options: str) -> None:
    asked = addresses(program)
    command = (f"--obj={program}", "--output-style=JSON", *options.split())
    theirs, ours = json.loads(llvm_symbolizer(*command, *asked)), symbolize(*command, *asked)
    assert without_what_is_not_known(json.loads(ours)) == without_what_is_not_known(theirs)
    assert ours.endswith("]\n") and (ours.count("\n") == 1) == ("-p" not in options)
    if "-p" not in options:
        lines = symbolize(*command, text="".join(f"{address}\n" for address in asked)).splitlines()
        assert [json.loads(line) for line in lines] == json.loads(ours)


@pytest.mark.parametrize(
    "options", ["", "-s", "-p", "-pa", "-f", "-afC", "-apfC", "-f --demangle=gnu-v3", "-r -b elf64-x86-64"]
)
def test_text_is_that_of_addr2line(program: Path, options: str) -> None:
    """Places, and which addresses are known; binutils leaves out some inlined functions, and with them their names."""
    tool("addr2line")
    asked = addresses(program)

    def comparable(text: str) -> list[str]:
        lines = re.sub(r" \(discriminator \d+\)", "", text).splitlines()
        if "f" in options:
            lines = [re.sub(r"(: |^)(?!\?\?|0x)[^/]+?(?= at |$)", r"\1NAME", line) for line in lines]
        return lines

    theirs = run("addr2line", "-e", program, *options.split(), *asked).stdout
    ours = symbolize("--style", "gnu", "-e", program, *options.split(), *asked)
    assert comparable(ours) == comparable(theirs)
    text = "".join(f"{address.removeprefix('0x')}\n" for address in asked)
    assert symbolize("--style=gnu", "-e", program, *options.split(), text=text) == ours


def test_functions_by_name_are_those_of_addr2line(program: Path) -> None:
    asked = ("plain", "main+4", "main+0x8", " main 4", "no_such_function", "add", "0xmain")
    theirs = re.sub(r" \(discriminator \d+\)", "", run(tool("addr2line"), "-afe", program, *asked).stdout)
    if "plain" not in theirs:
        pytest.skip("needs an addr2line that reads names")
    assert symbolize("--style=gnu", "-afe", program, *asked) == theirs
    assert symbolize("--style=gnu", "-afe", program, text="\n".join(asked)) == theirs


DATA = """
int counted = 5;
static int kept[40];
namespace ns { const char *message = "hi"; }
int main(int argc, char **) { return counted + (kept[argc] += argc) + *ns::message; }
"""


@pytest.mark.parametrize(
    "options",
    ["", "-a", "-a -p", "--output-style=GNU -a", "--output-style=JSON", "--no-demangle", "--adjust-vma=0x100"],
)
def test_variables_are_those_of_llvm_symbolizer(options: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, LLD)
    image, _ = workshop.link("program", workshop.compile(DATA), "none")
    shift = 0x100 if "adjust" in options else 0
    text = "DATA 0x1\n" if "JSON" not in options else ""  # of an unknown one it says the address differently
    for line in run("nm", "-S", image).stdout.splitlines():
        if re.search("counted|kept|message", line):
            start, size_bytes = (int(field, 16) for field in line.split()[:2])
            text += f"DATA {start + shift:#x}\nDATA {start + size_bytes - 1 + shift:#x}\nCODE 0x2\n"
    assert text.count("CODE") == 3
    theirs = re.sub(
        r"\n[^?\n]*main.cpp:[0-9]+\n", "\n??:?\n", llvm_symbolizer(f"--obj={image}", *options.split(), text=text)
    )
    assert symbolize(f"--obj={image}", *options.split(), text=text) == theirs
    if not options:
        named = text.replace("DATA ", f"DATA {image} ").replace("CODE ", f"CODE {image} ")
        assert symbolize(text=named) == theirs
        assert symbolize(text="DATA no-such-file 0x1\n") == "??\n0 0\n??:?\n\n"


def test_offsets_in_a_section_are_those_of_addr2line(program: Path) -> None:
    command = ("-e", program, "-a", "-j", ".text", "0", "1", "20", "ffffff")
    assert symbolize("--style=gnu", *command) == run(tool("addr2line"), *command).stdout
    assert symbolize("-e", program, "-j", ".nosuch", "0", status=1) == ""


def test_without_a_name_the_image_is_a_out_in_gnu_style(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program.parent / "a.out").write_bytes(program.read_bytes())
    monkeypatch.chdir(program.parent)
    assert symbolize("--style=gnu", "1") == "??:0\n"
    assert symbolize("--version").startswith("icf ")


def test_usage_is_said_in_words_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        symbolize("--adjust-vma=zz")
    assert ended.value.code == 2 and "argument --adjust-vma: invalid number value: 'zz'" in capsys.readouterr().err


def test_options_that_llvm_symbolizer_once_had_say_nothing(program: Path) -> None:
    once = "--use-symbol-table=true --demangle=true --functions=linkage --inlining=true"  # as asan_symbolize.py asked
    assert symbolize(*once.split(), "-e", program, "main") == symbolize("-e", program, "main")


def test_an_image_by_its_build_id(program: Path) -> None:
    found = re.search(r"Build ID: (\w+)", run("readelf", "-n", program).stdout)
    assert found is not None
    by_path = symbolize("-e", program, "main")
    assert symbolize("--build-id", found[1], "main") == by_path != "??\n??:0:0\n\n"
    assert symbolize("--build-id", "abcdef", "main", status=1) == ""


def named(name: str, directory: Path) -> Path:
    """The command `icf` under another name, as a link to it gives it."""
    command = directory / name
    command.write_text(f"#!{sys.executable}\nfrom icf.cli import main\nmain()\n")
    command.chmod(0o755)
    return command


def test_by_the_name_of_those_tools_it_does_as_they_do(program: Path, tmp_path: Path) -> None:
    for name, style in (
        ("llvm-symbolizer", "llvm"),
        ("llvm-symbolizer-19", "llvm"),
        ("addr2line", "gnu"),
        ("llvm-addr2line", "gnu"),
    ):
        by_name = run(named(name, tmp_path), "-fe", program, "0x1").stdout
        assert by_name == symbolize("--style", style, "-fe", program, "0x1")


SANITIZED = """
#include <cstdlib>
__attribute__((noinline)) int beyond(int *p, int i) { return p[i]; }
static inline __attribute__((always_inline)) int through(int *p, int i) { return beyond(p, i) + 1; }
int main(int argc, char **) { int *p = (int *)malloc(40); return through(p, argc + 9); }
"""


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
def test_sanitizers_call_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "crash.cpp").write_text(SANITIZED)
    flags = ("-g", "-O1", "-fsanitize=address", tmp_path / "crash.cpp", "-o", tmp_path / "crash")
    if run(tool("clang++"), *flags, check=False).returncode:
        pytest.skip("needs the sanitizers' runtime")
    environment = {**os.environ, "ASAN_OPTIONS": f"external_symbolizer_path={named(name, tmp_path)}:detect_leaks=0"}
    done = subprocess.run([tmp_path / "crash"], env=environment, capture_output=True, text=True)
    frames = re.findall(r"#\d 0x[0-9a-f]+ in (.*)\n", done.stderr)
    place = r" \S*/crash.cpp:%d" + (r":\d+" if name == "llvm-symbolizer" else "")
    assert [re.sub(r"\(.*?\)", "", frame).split()[0] for frame in frames[:3]] == ["beyond", "through", "main"], (
        done.stderr
    )
    assert all(re.search(place % line, frame) for frame, line in zip(frames, (3, 4, 5), strict=False))


def test_gnu_style_with_inlined_functions_is_that_of_llvm_addr2line(program: Path) -> None:
    asked = addresses(program, "plain|main|Box")
    theirs = run(tool("llvm-addr2line"), "-e", program, "-fipC", *asked[1:-1]).stdout
    assert symbolize("--style=gnu", "-fipCe", program, *asked[1:-1]).replace(":?\n", ":0\n") == theirs


@pytest.mark.parametrize(
    "line", ["plain", "plain+4", "CODE plain", "no_such_function", "", "0x1 0x2", "17", "main+0x8"]
)
def test_lines_are_read_as_llvm_symbolizer_reads_them(program: Path, line: str) -> None:
    for options in ("", "-p -a --output-style=GNU"):
        command = (f"--obj={program}", *options.split())
        assert symbolize(*command, text=f"{line}\n") == llvm_symbolizer(*command, text=f"{line}\n")
    if line:
        text = f"'{program}' {line}\nCODE {program} {line}"  # the last line need not end
        assert symbolize(text=text) == llvm_symbolizer(text=text)


def test_what_is_no_question_is_said_and_the_others_are_answered(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert symbolize("-e", program, text="0x12z\nFRAME 0x4000\n0x1\n") == "??\n??:0:0\n\n" * 3
    err = capsys.readouterr().err
    assert (
        err == "icf: error: '0x12z': 0x12z is not an address\n"
        "icf: error: 'FRAME 0x4000': FRAME is not known here, CODE and DATA are\n"
    )
    assert symbolize(text="no-such-file 0x1\nno-such-file 0x2\nBUILDID:ab 0x1\n") == "??\n??:0:0\n\n" * 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("icf: error: no-such-file: ") and "build id ab" in second
    assert symbolize("-e", "no-such-file", "0x1", status=1) == ""


@pytest.mark.parametrize("options", ["", "-a", "-a -p --output-style=GNU", "--output-style=JSON"])
def test_an_image_that_cannot_be_read_is_an_answer(options: str) -> None:
    for line in ("no-such-file 0x1", "no-such-file main", "CODE no-such-file 17", "DATA no-such-file 1"):
        ours, theirs = symbolize(*options.split(), text=line), llvm_symbolizer(*options.split(), text=line)
        assert ours.replace("no-such-file: No such file", "No such file") == theirs


def test_lines_are_answered_as_they_come(program: Path) -> None:
    command = [sys.executable, "-m", "icf", "symbolize", "-e", str(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, text=False) as process:
        assert process.stdin and process.stdout
        for _ in range(3):
            process.stdin.write(b"0x1\n")
            assert process.stdout.read(11) == b"??\n??:0:0\n\n"
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_return_addresses_are_those_after_calls(program: Path) -> None:
    asked = addresses(program, "plain|main")[1:-1]
    before = [hex(int(address, 16) - 1) for address in asked]
    assert symbolize("-e", program, "--return-addresses", *asked) == symbolize("-e", program, *before)
    assert symbolize("-e", program, "--return-addresses", "-a", "0x10").startswith("0x10\n")


def test_a_symcache_that_keeps_what_was_asked_says_the_same(program: Path, tmp_path: Path) -> None:
    asked = addresses(program, "plain|main", step=7)
    whole = symbolize("-e", program, *asked)
    for _ in range(2):
        assert symbolize("-e", program, "--lazy", "--cache-dir", tmp_path / "cache", *asked) == whole
    text = "".join(f"{address}\n" for address in [*asked, "plain"])
    assert symbolize("-e", program, "--lazy", "--cache-dir", tmp_path / "cache", text=text).startswith(whole)


@pytest.fixture(scope="module", params=[GOLD, LLD], ids=str)
def folded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose `weigh_pear` and `weigh_plum` are one body."""
    workshop = Workshop(tmp_path_factory.mktemp("folded"), request.param)
    return workshop.build_with_tables(FOLDED).folded


def weigh(image: Path) -> str:
    """Where they begin."""
    return next(line.split()[0] for line in run("nm", image).stdout.splitlines() if "weigh_p" in line)


def test_of_folded_functions_all_names_and_the_lines_they_share(folded: Path) -> None:
    text = symbolize("-e", folded, "0x" + weigh(folded))
    names = {"weigh_pear(Pear*)", "weigh_plum(Plum*)"}
    *inlined, name, place, end = text.split("\n")[:-1]
    assert set(name.split(" | ")) == names
    assert end == "" and place == "??:0:0"  # they are on lines of their own
    assert [line for line in inlined if "weigh" in line] == []


def test_each_of_folded_functions_has_its_own_lines(folded: Path) -> None:
    start = int(weigh(folded), 16)
    seen: set[str] = set()
    for address in range(start, start + 12):
        answer = json.loads(symbolize("-e", folded, "--style=json", "--candidates", hex(address)))[0]
        assert answer["CandidatesComplete"]
        for each in answer["Candidates"]:
            own = each["Symbol"][-1]
            assert own["FunctionName"] == each["FunctionName"] and own["FileName"].endswith("main.cpp")
            name = each["FunctionName"].partition("(")[0]
            assert DECLARED[name] <= own["Line"] <= DECLARED[name] + 2
            seen.add(name)
    assert seen == {"weigh_pear", "weigh_plum"}
    text = symbolize("-e", folded, "--candidates", "-p", hex(start))
    assert [line for line in text.splitlines() if line.startswith("candidate")] == [
        "candidate 1 of 2:",
        "candidate 2 of 2:",
    ]


def test_a_folded_function_that_is_asked_for_by_name_has_its_own_line(folded: Path) -> None:
    for name, mangled in (("weigh_pear", "_Z10weigh_pearP4Pear"), ("weigh_plum", "_Z10weigh_plumP4Plum")):
        shown, place, _ = symbolize("-e", folded, mangled).split("\n", 2)
        assert shown.partition("(")[0] == name
        line = int(place.split(":")[-2])
        assert line == 4 or DECLARED[name] <= line <= DECLARED[name] + 2  # 4: what is inlined there


def test_aliases_that_no_linker_has_folded_have_the_line_of_their_code(tmp_path: Path) -> None:
    source = 'extern "C" { int first(int x) { return x * 7; }\nint second(int) __attribute__((alias("first"))); }\n'
    source += "int main(int argc, char **) { return first(argc) + second(argc); }\n"
    (tmp_path / "aliases.cpp").write_text(source)
    image = tmp_path / "aliases"
    run(tool("g++"), "-O0", "-g", "-fuse-ld=bfd", tmp_path / "aliases.cpp", "-o", image)
    assert symbolize("-ps", "-e", image, "first") == "first at aliases.cpp:1:31\n\n"
    found = re.search(r"^0*([0-9a-f]+) T first$", run("nm", image).stdout, re.MULTILINE)
    assert found is not None
    symbols = run("readelf", "-sW", image).stdout.split()
    last = max(("first", "second"), key=lambda name: len(symbols) - symbols[::-1].index(name))
    assert symbolize("-ps", "-e", image, f"0x{found[1]}") == f"{last} at aliases.cpp:1:31\n\n"
    (frames,) = json.loads(symbolize("--style=json", "-e", image, f"0x{found[1]}"))
    assert "CandidatesComplete" not in frames


def test_a_library_that_no_linker_has_folded_is_named_as_llvm_symbolizer_names_it(tmp_path: Path) -> None:
    """A `leak:^free$` in a sanitizer's list of what to leave out goes on to match."""
    source = """
        int first(int x) { return x * 7; }
        extern int __first(int) __attribute__((alias("first")));
        extern int first32(int) __attribute__((weak, alias("first")));
        extern int again_old(int) __attribute__((alias("first")));
        __asm__(".symver again_old, again@OLD");
        int second(int x) { return x * 9; }
        extern int second_new(int) __attribute__((alias("second")));
        __asm__(".symver second_new, second_one@@NEW");
    """
    (tmp_path / "lib.c").write_text(source)
    (tmp_path / "map").write_text("OLD { }; NEW { } OLD;")
    library = tmp_path / "lib.so"
    options = ("-O1", "-shared", "-fPIC", "-fuse-ld=bfd", f"-Wl,--version-script={tmp_path / 'map'}")
    run(tool("gcc"), *options, tmp_path / "lib.c", "-o", library)
    for symbol in ("first", "second"):
        found = re.search(rf"^0*([0-9a-f]+) T {symbol}$", run("nm", library).stdout, re.MULTILINE)
        assert found is not None
        expected = run(tool("llvm-symbolizer"), f"--obj={library}", f"0x{found[1]}").stdout
        name = symbolize("-e", library, f"0x{found[1]}").split("\n")[0]
        assert name == expected.split("\n")[0].partition("@")[0] and "@" not in name and " | " not in name
