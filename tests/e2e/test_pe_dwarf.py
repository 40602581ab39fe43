"""PE images with DWARF, end to end, beside llvm-symbolizer, llvm-dwarfdump and the sources."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.windows_answers import addresses_of, answers, icf
from tests.support.icf_command import icf_command
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import MINGW, SHOP, TARGET, compile_dwarf, link_dwarf, link_windows
from tests.truth.pe import measure

# Static functions of one name in two files, functions of a file without debug information, inlined calls.
FIRST = """
#define KEEP __attribute__((noinline))
int second(int, volatile int*), bare(int, volatile int*), third(int, volatile int*);
KEEP static int helper(int v, volatile int* p) { *p = v; *p = v + 1; return v * 5; }
static inline int doubled(int v) { return v + v; }
KEEP int first(int v, volatile int* p) { *p = 77; return helper(v, p) + 1; }
KEEP int plain(int v, volatile int* p) { *p = doubled(v); *p = 3; return doubled(v) * 11; }
int mainCRTStartup(void) {
    volatile int x;
    return first(1, &x) + second(2, &x) + bare(3, &x) + third(4, &x) + plain(5, &x);
}
"""
SECOND = """

#define KEEP __attribute__((noinline))

KEEP static int helper(int v, volatile int* p) { *p = v; *p = v + 1; return v * 5; }
static inline int doubled(int v) { return v + v; }
KEEP int plain2(int v, volatile int* p) { *p = doubled(v); *p = 3; return doubled(v) * 11; }
int second(int v, volatile int* p) { return helper(v, p) + plain2(v, p) + 2; }
"""
BARE = """
int plain3(int v, volatile int* p) { *p = v + v; *p = 3; return (v + v) * 11; }
__attribute__((noinline)) static int hidden(int v, volatile int* p) { *p = v; *p = v + 1; return v * 5; }
int third(int v, volatile int* p) { return hidden(v, p) + plain3(v, p) + 7; }
int bare(int v, volatile int* p) { *p = v; return 2; }
"""


@cache
def program(name: str) -> Path:
    if name.startswith("shop"):
        flags = {"shop": ("-O1", "-gdwarf-4"), "shop-5": ("-O2", "-gdwarf-5"), "shop-0": ("-O0", "-gdwarf-5")}[name]
        return link_dwarf(lasting_folder(), compile_dwarf(SHOP, *flags, name=name), name=name)
    target = MINGW if name.startswith("mingw") else TARGET
    flags = ("-O1", "-gdwarf-4" if name.endswith("-4") else "-gdwarf-5")
    objects = [
        compile_dwarf(FIRST, *flags, suffix=".c", name=f"{name}-first", target=target),
        compile_dwarf(SECOND, *flags, suffix=".c", name=f"{name}-second", target=target),
        compile_dwarf(BARE, "-O1", suffix=".c", name=f"{name}-bare", target=target),
    ]
    if name in OF_MINGW:
        path, linker = lasting_folder() / f"{name}.exe", tool(OF_MINGW[name])
        if linker.endswith("bfd") and "i386pep" not in run(linker, "-V").stdout:
            pytest.skip("needs a GNU ld for Windows")
        objects.append(compile_dwarf("void __main(void) {}", suffix=".c", name="start", target=target))
        run(linker, "-m", "i386pep", "-e", "mainCRTStartup", *objects, "-o", path)
        return path
    return link_dwarf(lasting_folder(), *objects, name=name)


OF_MINGW = {"mingw-gnu": "ld.bfd", "mingw-gnu-4": "ld.bfd", "mingw-lld": "ld.lld"}  # linkers; these fold nothing here
PROGRAMS = ("shop", "shop-5", "shop-0", "files", "files-4", "mingw", "mingw-4")


@pytest.mark.parametrize("name", (*PROGRAMS, *OF_MINGW))
def test_every_address_is_that_of_llvm_symbolizer_or_merged(name: str, tmp_path: Path) -> None:
    path = program(name)
    asked = "\n".join(map(hex, addresses_of(path)))
    theirs = answers(run(tool("llvm-symbolizer"), f"--obj={path}", *asked.split()).stdout)
    ours = answers(icf("symbolize", "-e", path, "--candidates", "--cache-dir", tmp_path, stdin=asked))
    compared = merged = 0
    for address, found, (expected,) in zip(asked.split(), ours, theirs, strict=True):
        if expected[-1].endswith("??:0:0"):  # padding between functions, and what has no lines
            continue
        compared += 1
        if len(found) == 1:
            assert found == [expected], address
        else:  # llvm-symbolizer shows the name of one of the members, and the line of another
            merged += 1
            of_frames = zip(*(each for each in found if len(each) == len(expected)), strict=True)
            for frames, theirs_here in zip(of_frames, expected, strict=True):
                names, places = zip(*(frame.rsplit(" ", 1) for frame in frames), strict=True)
                shown, place = theirs_here.rsplit(" ", 1)
                assert shown in names and place in places, address
    assert compared > 100 and (merged > 10) is (name not in OF_MINGW)


@pytest.mark.parametrize("name", PROGRAMS)
def test_classes_are_the_functions_with_one_address_in_llvm_dwarfdump(name: str) -> None:
    path = program(name)
    found = {
        int(each["address"], 16): sorted(member["linkage_name"] for member in each["members"])
        for each in json.loads(icf("dump", "--folds", "--json", path))["classes"]
    }
    expected: dict[int, list[str]] = {}
    for (vaddr, symbol), count in (described(path) | symbols_of(path)).items():
        expected.setdefault(vaddr, []).extend([symbol] * count)
    assert found == {vaddr: sorted(names) for vaddr, names in expected.items() if len(names) > 1}
    assert len(found) >= (1 if name.startswith("mingw") else 2)


def symbols_of(path: Path) -> Counter[tuple[int, str]]:
    """Return address and name of each symbol of code, as llvm-nm lists them."""
    lines = [line.split() for line in run(tool("llvm-nm"), path).stdout.splitlines()]
    return Counter((int(vaddr, 16), name) for vaddr, kind, name in lines if kind in "Tt")


def described(path: Path) -> Counter[tuple[int, str]]:
    """Return address and linkage name of each function with code, as llvm-dwarfdump lists them."""
    text = run(tool("llvm-dwarfdump"), "--debug-info", path).stdout
    entries = re.split(r"^(0x[0-9a-f]+): +DW_TAG_", text, flags=re.MULTILINE)
    functions = [each for each in zip(entries[1::2], entries[2::2], strict=True) if each[1].startswith("subprogram")]
    names: dict[str, str] = {}
    for die, body in functions:
        name = re.search(r'DW_AT_linkage_name\s+\("(.*)"\)', body) or re.search(r'DW_AT_name\s+\("(.*)"\)', body)
        if name:
            names[die] = name[1]
    found = Counter[tuple[int, str]]()
    for die, body in functions:
        low = re.search(r"DW_AT_low_pc\s+\((0x[0-9a-f]+)\)", body)
        origin = re.search(r"DW_AT_(?:specification|abstract_origin)\s+\((0x[0-9a-f]+)", body)
        if low and int(low[1], 16) >= 0x140000000:
            found[int(low[1], 16), names.get(die) or names[origin[1] if origin else ""]] += 1
    return found


def test_members_of_one_name_have_the_lines_of_their_files(tmp_path: Path) -> None:
    path = program("files")
    start = next(vaddr for (vaddr, name), count in symbols_of(path).items() if name == "helper" and count == 2)
    (found,) = answers(icf("symbolize", "-e", path, "--candidates", "--cache-dir", tmp_path, hex(start)))
    lines = {re.sub(r" /.*/", " ", frames[0]) for frames in found}
    assert lines == {"helper files-first.c:4:53", "helper files-second.c:5:53", "hidden ??:0:0"}


OTHER = """
extern volatile int total;
int one(int);
int two(int);
__attribute__((noinline)) static int helper(int v) { total = 9; total = two(v); return v * 5; }
int run(int v) { return helper(v) + 3; }
"""
FOLDED = """
volatile int total;
#define KEEP __attribute__((noinline))
KEEP int one(int v) { total = v; total = v + 1; return v; }
KEEP int two(int v) { total = v; total = v + 1; return v; }
int run(int), again(int);
int mainCRTStartup(void) { return one(1) + two(2) + run(3) + again(4); }
"""


@pytest.mark.parametrize("flags", [("-g0",), ("-gdwarf-4", "-gsplit-dwarf")])
def test_what_describes_one_of_two_static_functions_does_not_describe_the_other(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    again = OTHER.replace("two(v)", "one(v)").replace("run", "again")
    objects = [
        compile_dwarf(FOLDED, "-O1", "-gdwarf-4", suffix=".c", name="folded"),
        compile_dwarf(OTHER, "-O1", *flags, suffix=".c", name="same"),
        compile_dwarf(again, "-O1", "-gdwarf-4", suffix=".c", name="same"),
    ]
    image = link_dwarf(tmp_path, *objects)
    helper = next(vaddr for vaddr, name in symbols_of(image) if name == "helper")
    for has_tables in (False, True):
        if has_tables:
            icf("pass", "-q", image, "--objects", *objects)
        said = icf("symbolize", "-e", image, "--candidates", "--cache-dir", tmp_path / str(has_tables), hex(helper))
        (found,) = answers(said)
        frames = sorted(re.sub(r"/.*/", "", frames[0]) for frames in found)
        assert frames == ["helper ??:0:0", "helper same.c:5:0"]
    for given in (objects, objects[:2]):
        icf("pass", "-q", image, "--objects", *given)
        calls = [each["callee_name"] for each in direct_calls(image) if each["caller"] == "helper"]
        assert calls == (["one"] if given is objects and flags == ("-g0",) else [])
        assert not [each for each in direct_calls(image) if each["caller"] == "run"]


def test_a_file_that_was_not_linked_is_not_taken_for_one_of_its_name(tmp_path: Path) -> None:
    flags = ("-O1", "-gdwarf-5")
    main = compile_dwarf(FOLDED.replace(" + again(4)", ""), *flags, suffix=".c", name="folded")
    linked = compile_dwarf(OTHER.replace("two(v)", "one(v)"), *flags, suffix=".c", name="same")
    other = compile_dwarf(OTHER, *flags, suffix=".c", name="same")
    image = link_dwarf(tmp_path, main, linked)
    for given, expected in (([linked], ["one"]), ([linked, other], ["one"]), ([other], [])):
        icf("pass", "-q", image, "--objects", main, *given)
        assert [each["callee_name"] for each in direct_calls(image) if each["caller"] == "helper"] == expected


@pytest.mark.parametrize("target", [TARGET, MINGW])
def test_a_weak_function_has_one_name(target: str, tmp_path: Path) -> None:
    source = FOLDED.replace("run(3) + again(4)", "run(3)") + "__attribute__((weak)) int run(int v) { return v + 1; }"
    obj = compile_dwarf(source, "-O1", "-gdwarf-5", "-fno-inline", suffix=".c", name="weak", target=target)
    image = link_dwarf(tmp_path, obj, *(["/lldmingw"] if target == MINGW else []))
    run_at = next(vaddr for vaddr, name in described(image) if name == "run")
    (found,) = answers(icf("symbolize", "-e", image, "--candidates", "--cache-dir", tmp_path, hex(run_at)))
    assert [frames[0].split()[0] for frames in found] == ["run"]


# A function without unwind information before a symbol that is not a function's; one with it before a nameless one.
ASSEMBLY = """
.macro function name
.def \\name; .scl 2; .type 32; .endef
.globl \\name
.endm
function leaf
leaf: ret
.p2align 4
.globl thunk
thunk: jmp leaf
.p2align 4
.macro framed name
.seh_proc \\name
\\name: subq $40, %rsp
.seh_stackalloc 40
.seh_endprologue
addq $40, %rsp
ret
.seh_endproc
.p2align 4
.endm
function named
framed named
framed .Lnameless
"""


@pytest.mark.parametrize("linker", ["ld.bfd", "ld.lld"])
def test_a_function_ends_where_other_code_begins(linker: str, tmp_path: Path) -> None:
    if linker == "ld.bfd" and "i386pep" not in run(tool(linker), "-V").stdout:
        pytest.skip("needs a GNU ld for Windows")
    source = (
        "void __main(void) {} void leaf(void), named(void); int mainCRTStartup(void) { leaf(); named(); return 0; }"
    )
    main = compile_dwarf(source, "-O1", "-gdwarf-5", suffix=".c", name="calls", target=MINGW)
    other = compile_dwarf(ASSEMBLY, suffix=".s", name="assembly", target=MINGW)
    image = tmp_path / "app.exe"
    run(tool(linker), "-m", "i386pep", "-e", "mainCRTStartup", main, other, "-o", image)
    leaf, thunk, named = (
        next(vaddr for vaddr, name in symbols_of(image) if name == wanted) for wanted in ("leaf", "thunk", "named")
    )
    asked = [leaf, thunk, named, named + 8, named + 9, named + 16, named + 24]
    found = answers(icf("symbolize", "-e", image, "--candidates", "--cache-dir", tmp_path, *map(hex, asked)))
    names = [frames.split()[0] for ((frames,),) in found]
    assert names == ["leaf", "??", "named", "named", "??", "??", "??"]


def test_stacks_and_listings_name_what_they_can(tmp_path: Path) -> None:
    path = program("files")
    listing = icf("disasm", "-e", path, "--cache-dir", tmp_path, "first")
    call = re.search(r"call +(0x[0-9a-f]+) +; one of 3: helper, hidden", listing)
    assert call, listing
    after = re.search(r"call .*\n +([0-9a-f]+):", listing)
    assert after
    stack = tmp_path / "stack"
    stack.write_text(f"{call[1]} 0x{after[1]}\n")
    said = icf("resolve", "-e", path, "--cache-dir", tmp_path, stack)
    assert "one of 2  [ambiguous" in said and re.search(r"#1 .* first \(.*files-first.c:6\)", said)


# One of many units whose templates, static functions of one name, overloads and tail calls are merged.
UNIT = """
#define KEEP __attribute__((noinline))
extern volatile int total;
struct TypeN { int value; };
namespace unitN {
template <class T> KEEP int leaf(T* item) { total = total + item->value; return total; }
template <class T> KEEP int other(T* item) { total = total + item->value; return total; }
template <class T> KEEP int middle(T* item) { return leaf(item) + 1; }
template <class T> KEEP int swapped(T* item) { return other(item) + 1; }
template <class T> KEEP int onward(T* item) { total = 7; return leaf(item); }
static KEEP int helper(TypeN* item) { return middle(item) + onward(item) + swapped(item) * 3; }
static KEEP int helper(TypeN* item, int more) { return middle(item) + more; }
}
static KEEP int same(TypeN* item) { total = total - 1; return unitN::leaf(item) - 5; }
int runN() {
    TypeN item = {N};
    return unitN::helper(&item) + unitN::helper(&item, N) + same(&item) + N;
}
"""


@cache
def units(target: str, flags: tuple[str, ...], count: int, unit: str = UNIT) -> list[Path]:
    """Objects of a program of many units; the last has no debug information."""
    runs = "".join(f"int run{number}();" for number in range(count))
    calls = " + ".join(f"run{number}()" for number in range(count))
    main = f'volatile int total;\n{runs}\nextern "C" int mainCRTStartup() {{ return {calls}; }}\n'
    main += 'extern "C" { int _fltused; void __main() {} }'
    found = [compile_dwarf(main, *flags, name="main", target=target)]
    for number in range(count):
        own = (*flags, "-g0") if number == count - 1 else flags
        source = re.sub(r"(?<=[a-z{( ])N\b", str(number), unit)
        found.append(compile_dwarf(source, *own, name=f"unit{number}", target=target))
    return found


@pytest.mark.parametrize("flags", [("-O1", "-gdwarf-5"), ("-O2", "-gdwarf-4")])
def test_every_call_of_a_merged_function_is_named_and_none_is_wrong(flags: tuple[str, ...], tmp_path: Path) -> None:
    objects = [compile_dwarf(SHOP, *flags, name="shop")]
    counts = measure(tmp_path, objects, dwarf=True)
    assert counts.wrong == [] and counts.named == counts.sites >= 4, counts
    (tmp_path / "units").mkdir()
    counts = measure(tmp_path / "units", units(TARGET, flags, 5), dwarf=True)
    assert counts.wrong == [], counts
    assert counts.sites >= 20 and counts.named >= 0.8 * counts.sites  # not those of static functions without DWARF


def test_static_functions_of_files_with_one_name_are_not_guessed(tmp_path: Path) -> None:
    flags = ("-O1", "-gdwarf-5")
    main, *others = units(TARGET, flags, 5)
    renamed = [compile_dwarf(Path(str(each)[: -len(".obj")]).read_text(), *flags, name="unit") for each in others]
    counts = measure(tmp_path, [main, *renamed], dwarf=True)
    assert counts.wrong == [] and 0 < counts.named < counts.sites, counts
    assert all("helper" not in each["caller"] for each in direct_calls(tmp_path / "folded.exe"))


def test_an_object_without_debug_information_is_not_taken_for_one_of_its_name(tmp_path: Path) -> None:
    objects = [
        compile_dwarf(source, "-O1", debug, suffix=".c", name="part")
        for source, debug in ((FIRST, "-gdwarf-5"), (SECOND, "-g0"), (BARE, "-g0"))
    ]
    image = link_dwarf(tmp_path, *objects)
    summary = json.loads(icf("pass", "--json", image, "--objects", *objects))
    found = {(each["caller"], each["callee"]) for each in direct_calls(image)}
    assert ("first", "helper") in found and ("second", "plain2") in found
    assert ("second", "helper") not in found and ("third", "hidden") not in found
    assert summary["dropped"] == {"the callee is not known": 2}


def test_a_member_without_a_die_is_named_too(tmp_path: Path) -> None:
    flags = ("-O1", "-gdwarf-5")
    measure(tmp_path, units(TARGET, flags, 5), dwarf=True)
    image = tmp_path / "folded.exe"
    found = [each for each in direct_calls(image) if "unit4" in each["caller"] and "middle" in each["caller"]]
    assert [each["callee_name"] for each in found] == ["unit4::leaf<struct Type4>(struct Type4 *)"]
    site = int(found[0]["call_site"], 16)
    leaf = next(vaddr for vaddr, name in symbols_of(image) if name.startswith("??$leaf@UType4"))
    (tmp_path / "stack").write_text(f"{leaf + 1:#x} {site:#x}\n")
    said = icf("resolve", "-e", image, "--cache-dir", tmp_path / "cache", tmp_path / "stack")
    assert "one of 10" in said  # of each caller that shares the body, its own


def direct_calls(image: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(icf("dump", "--dcall", "--json", image))["direct_calls"]
    return found


@pytest.mark.parametrize("option", ["/build-id", ""])
def test_a_side_table_of_another_link_is_not_used(option: str, tmp_path: Path) -> None:
    obj = compile_dwarf(SHOP, "-O1", "-gdwarf-5", name="shop")
    image = link_dwarf(tmp_path, obj, "/brepro", *filter(None, [option]))
    icf("pass", "-q", image, "--objects", obj)
    assert len(direct_calls(image)) == 6
    content = image.with_suffix(".icf").read_bytes()
    icf("pass", "-q", image, "--objects", obj)
    assert image.with_suffix(".icf").read_bytes() == content  # the same input makes the same bytes
    image.with_suffix(".icf").write_bytes(content[:8] + bytes(20) + content[28:])
    done = run(*icf_command(), "dump", "--dcall", image)
    assert f"{image.with_suffix('.icf')}: does not belong to {image}: not used" in done.stderr
    assert "no .debug_dcall" in done.stdout


def test_a_symcache_is_made_anew_when_a_side_table_appears(tmp_path: Path) -> None:
    obj = compile_dwarf(SHOP, "-O1", "-gdwarf-5", name="shop")
    images = [link_dwarf(tmp_path, obj, "/brepro", name=name) for name in ("first", "second")]
    assert images[0].read_bytes() == images[1].read_bytes()
    (tmp_path / "stack").write_text("0x140001046 0x1400010c4\n")
    words = "--cache-dir", tmp_path / "cache", tmp_path / "stack"
    assert "ambiguous" in icf("resolve", "-e", images[0], *words)
    icf("pass", "-q", images[1], "--objects", obj)
    assert "sales::tax(int)" in icf("resolve", "-e", images[1], *words).splitlines()[1]


def flags_of(image: Path, member: str) -> set[str]:
    """Return the flags of the class that has a member, and those of the member."""
    (found,) = [
        set(each["flags"]) | set(one["flags"])
        for each in json.loads(icf("dump", "--folds", "--json", image))["classes"]
        for one in each["members"]
        if one["name"] == member
    ]
    return found


@pytest.mark.parametrize("why", ["", "library", "directive", "variable", "input"])
def test_a_link_knows_its_objects_unless_it_may_have_others(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SHOP if why != "directive" else f'{SHOP}\n#pragma comment(lib, "other.lib")\n'
    options: list[Path | str] = [compile_dwarf(source, "-O1", "-gdwarf-5", name="shop")]
    if why in ("library", "directive"):
        library = tmp_path / "other.lib"
        run(tool("llvm-lib"), f"/out:{library}", compile_dwarf("int other() { return 3; }", "-O1", name="other"))
        options.append(f"/libpath:{tmp_path}" if why == "directive" else library)
    if why == "variable":
        monkeypatch.setenv("LINK", "/errorlimit:3")
    if why == "input":
        (tmp_path / "empty.res").write_bytes(bytes.fromhex("00000000200000000000ffff0000ffff") + bytes(16))
        options.append(tmp_path / "empty.res")
    launcher = (*icf_command(), "link", "--strict", "--")
    image = link_dwarf(tmp_path, *options, launcher=launcher, ignore_directives=why != "directive")
    flags = flags_of(image, "Book::price(int)")
    assert ("address-taken-known" in flags) is (why in ("", "library")), flags
    assert "virtual" in flags and "calls-complete" in flags


TABLES = """
extern volatile int total;
struct TypeN { virtual int price(int value); virtual int stock(int value); };
int TypeN::price(int value) { total = total + value + 100; return 2; }
int TypeN::stock(int value) { total = total + value + 200; return 3; }
TypeN itemN;
TypeN* volatile pickedN = &itemN;
int runN() { return pickedN->price(4) + pickedN->stock(N); }
"""


@pytest.mark.parametrize("debug", ["dwarf", "pdb"])
def test_a_folded_vftable_of_an_object_that_was_not_given_leaves_its_slots_open(debug: str, tmp_path: Path) -> None:
    flags = ("-O1", "-fno-rtti", "-gdwarf-5" if debug == "dwarf" else "-gcodeview")
    objects = units(TARGET, flags, 2, TABLES)
    image = (link_dwarf if debug == "dwarf" else link_windows)(tmp_path, *objects)
    slots = {}
    for given in (objects, objects[:-1]):
        icf("pass", "-q", image, "--objects", *given)
        (vtable,) = json.loads(icf("dump", "--vtables", "--json", image))["vtables"]
        slots[len(given)] = [each["linkage_name"] for each in vtable["slots"]]
    assert slots == {3: [None, None], 2: [None, None]}  # any function of the body
