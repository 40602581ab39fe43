"""`icf cc --addrsig`: gcc's objects say which addresses matter, so that `--icf=safe` folds the other functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.support.toolchain import linker_options, run, tool

# what an address is used for, in each way that compilers have: only those of `merged` may become one
SOURCE = """
    struct Operations { int (*read)(int); int (*write)(int); };
    static NOINLINE int read_disk(int n) { return total += n; }
    static NOINLINE int read_tape(int n) { return total += n; }
    int write_disk(int n) { return total -= n; }
    int write_tape(int n) { return total -= n; }
    const Operations disk = {read_disk, write_disk}, tape = {read_tape, write_tape};
    const Operations *volatile one = &disk, *volatile two = &tape;

    struct Shape { virtual int area(int n) = 0; };
    struct Circle : Shape { NOINLINE int area(int n) override { return total += 3 * n; } };
    struct Square : Shape { NOINLINE int area(int n) override { return total += 3 * n; } };
    Circle circle; Square square;
    Shape *volatile shapes[] = {&circle, &square};

    template <class T> struct Pool {
        NOINLINE int add(int n) { return total += 5 * n; }
        NOINLINE int drop(int n) { return total -= 5 * n; }
    };
    struct Key {}; struct Value {};
    typedef int (Pool<Key>::*OfKey)(int);
    typedef int (Pool<Value>::*OfValue)(int);
    OfKey volatile drop_key = &Pool<Key>::drop;
    OfValue volatile drop_value = &Pool<Value>::drop;

    typedef int (*Function)(int);
    static NOINLINE int lent(int n) { return total += 7 * n; }
    static NOINLINE int borrowed(int n) { return total += 7 * n; }
    NOINLINE bool is_same(Function a, Function b) { return a == b; }

    int main() {
        if (one->read == two->read || one->write == two->write) return 1;
        OfKey key = drop_key; OfValue value = drop_value;
        if (__builtin_memcmp(&key, &value, sizeof key) == 0) return 2;
        if (is_same(lent, borrowed)) return 3;
        Pool<Key> keys; Pool<Value> values;
        one->read(1); two->read(2); one->write(1); two->write(2); lent(1); borrowed(1);
        shapes[0]->area(1); shapes[1]->area(1);
        return keys.add(1) == values.add(0) - 5 ? 0 : 0;
    }
"""
HEAD = "#define NOINLINE __attribute__((noinline, noclone))\nint total;\n"
FOLDED = [{"_ZN6Circle4areaEi", "_ZN6Square4areaEi"}, {"_ZN4PoolI3KeyE3addEi", "_ZN4PoolI5ValueE3addEi"}]


def shared(image: Path) -> list[set[str]]:
    """The names at each address that several functions share."""
    at: dict[str, set[str]] = {}
    for line in run(tool("nm"), image).stdout.splitlines():
        match line.split():
            case [address, "t" | "T" | "w" | "W", name]:
                at.setdefault(address, set()).add(name)
    return [names for names in at.values() if len(names) > 1]


@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-fPIC"], ["-O0"]], ids=" ".join)
def test_only_functions_that_are_merely_called_are_folded(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "main.cpp").write_text(HEAD + SOURCE)
    compile_command = [tool("g++"), *flags, "-fno-ipa-icf", "-ffunction-sections", "-c", "main.cpp"]
    linkers = [linker_options(linker, tool(f"ld.{linker}")) for linker in ("lld", "mold")]
    found = {}
    for option in ([], ["--addrsig"]):
        run(*icf_command(), "cc", "--strict", *option, "--", *compile_command, folder=tmp_path)
        for options in linkers:
            image = tmp_path / "program"
            run(compile_command[0], *options, "-Wl,--icf=safe", "main.o", "-o", image, folder=tmp_path)
            assert subprocess.run([image]).returncode == 0
            found[bool(option), options] = shared(image)
            run(compile_command[0], *options, "-Wl,--icf=all", "main.o", "-o", image, folder=tmp_path)
            assert subprocess.run([image]).returncode == 1  # the program does look at addresses
    for options in linkers:
        assert not any(names & each for each in found[False, options] for names in FOLDED)
        for names in FOLDED:
            assert any(names <= each for each in found[True, options]), (options, names)


def test_the_list_of_the_compiler_stays(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(HEAD + SOURCE.replace("NOINLINE", "__attribute__((noinline))"))
    command = [tool("clang++"), "-O2", "-ffunction-sections", "-c", "main.cpp"]
    run(*command, folder=tmp_path)
    before = run(tool("readelf"), "-x", ".llvm_addrsig", "main.o", folder=tmp_path).stdout
    run(*icf_command(), "cc", "--strict", "--addrsig", "--", *command, folder=tmp_path)
    assert run(tool("readelf"), "-x", ".llvm_addrsig", "main.o", folder=tmp_path).stdout == before
