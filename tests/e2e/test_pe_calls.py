"""Direct calls of PE images: `icf pass --objects` against the same objects linked without folding."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from icf.pe.image import PeImage
from tests.support.icf_command import icf_command
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import ARM64, RUNTIME, SHOP, TARGET, compile_windows, link_windows
from tests.truth.pe import measure, read_listing

# static functions of one name in two objects, and merged callers that call merged callees; tail calls into both
LEFT = """
extern volatile int total;
template <class T> __attribute__((noinline)) int leaf(T* item) { total = total + 3; return total; }
template <class T> __attribute__((noinline)) int middle(T* item) { return leaf(item) + 1; }
template <class T> __attribute__((noinline)) int onward(T* item) { total = 7; return leaf(item); }
static __attribute__((noinline)) int helper(short* item) { return middle(item) + onward(item) + 5; }
static __attribute__((noinline)) int helper(short* item, int more) { return middle(item) + more; }
int left() { short item = 0; return helper(&item) + helper(&item, 3) + 1; }
"""
RIGHT = LEFT.replace("short", "char").replace("left", "right").replace("+ 5", "+ 6")
MAIN = """
volatile int total;
int left();
int right();
extern "C" int mainCRTStartup() { return left() + right() + 9; }
"""


@cache
def archive() -> Path:
    """An archive with the two objects, under names that need its table of long names."""
    folder = lasting_folder()
    for name, source in (("the_left_side_of_it", LEFT), ("the_right_side_of_it", RIGHT)):
        shutil.copy(compile_windows(source, "-O2", name=name), folder / f"{name}.obj")
    members = sorted(path.name for path in folder.iterdir())
    run(tool("llvm-lib"), "/out:sides.lib", *members, folder=folder)
    return folder / "sides.lib"


def icf(*words: str | Path, stdin: str = "") -> str:
    done = subprocess.run([*icf_command(), *map(str, words)], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", ["-O1", "-O2"])
def test_every_call_of_a_merged_function_is_named_and_none_is_wrong(flags: str, tmp_path: Path) -> None:
    for number, objects in enumerate(
        [[compile_windows(SHOP, flags)], [compile_windows(RUNTIME + MAIN, "-O1", name="main"), archive()]]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        counts = measure(folder, objects)
        assert counts.wrong == []
        assert counts.named == counts.sites >= 4, counts
        assert counts.summary["named_calls"] == counts.summary["direct_calls"]


@pytest.mark.parametrize("flags", ["-O1", "-O2"])
def test_every_call_of_a_merged_function_for_arm64_is_named_and_none_is_wrong(flags: str, tmp_path: Path) -> None:
    sources = {"main": RUNTIME + MAIN, "left": LEFT, "right": RIGHT}
    objects = [compile_windows(source, flags, name=name, target=ARM64) for name, source in sources.items()]
    counts = measure(tmp_path, objects)
    assert counts.wrong == []
    assert counts.named == counts.sites == 10, counts
    assert counts.summary["tail_calls"] == 2 and counts.summary["named_calls"] == counts.summary["direct_calls"] == 8


def test_virtual_calls_of_arm64_stay_open(tmp_path: Path) -> None:
    shop_object = compile_windows(SHOP, "-O1", target=ARM64)
    image = link_windows(tmp_path, shop_object)
    text = icf("pass", image, "--objects", shop_object)
    assert "pointers    stay open: of objects for ARM64 only direct calls are read" in text
    listing = run(tool("llvm-objdump"), "-d", "--no-show-raw-insn", "-j", ".text", image).stdout
    sites = [int(each, 16) + 4 for each in re.findall(r"([0-9a-f]+):.*\tblr\t", listing)]
    price = next(
        int(each["address"], 16)
        for each in json.loads(icf("dump", "--folds", "--json", image))["classes"]
        if any("price" in member["name"] for member in each["members"])
    )
    for site in sites:
        (frame, *_) = json.loads(icf("resolve", "-e", image, "--out", "json", "-", stdin=f"{price + 4:#x} {site:#x}"))[
            "frames"
        ]
        assert frame["verdict"] == "ambiguous" and len(frame["candidates"]) == 2
    assert len(sites) == 3


def test_objects_for_another_machine_are_left_out_in_one_line(tmp_path: Path) -> None:
    objects = {machine: compile_windows(SHOP, "-O1", target=machine) for machine in (TARGET, ARM64)}
    for machine, said in ((TARGET, "x86-64"), (ARM64, "ARM64")):
        image = link_windows(tmp_path, objects[machine], name=said)
        other = objects[ARM64 if machine == TARGET else TARGET]
        done = subprocess.run(
            [*icf_command(), "pass", str(image), "--objects", str(other)], capture_output=True, text=True, check=True
        )
        assert done.stderr == f"icf: warning: {other}: is not an object for {said}: its calls have no records\n"
        assert "call sites  0 records" in done.stdout


def frame_after(image: Path, caller: str, callee: str) -> int:
    """Return the return address of the first call in one function that leads to another."""
    listing = read_listing(image)
    start, target = listing.address[caller], listing.address[callee]
    return min(site for site, where in listing.calls if where == target and site > start)


def test_a_stack_is_resolved_through_merged_callers(tmp_path: Path) -> None:
    main = compile_windows(RUNTIME + MAIN, "-O1", name="main")
    image = link_windows(tmp_path, main, archive(), f"/map:{tmp_path / 'app.map'}")
    icf("pass", "-q", image, "--objects", main, archive())
    listing = read_listing(image)
    leaf = listing.address["??$leaf@F@@YAHPEAF@Z"]
    assert listing.names[leaf] == {"??$leaf@F@@YAHPEAF@Z", "??$leaf@D@@YAHPEAD@Z"}
    in_middle = frame_after(image, "??$middle@F@@YAHPEAF@Z", "??$leaf@F@@YAHPEAF@Z")
    middle = listing.address["??$middle@F@@YAHPEAF@Z"]
    in_helpers = [site for site, where in listing.calls if where == middle][::2]  # of left.obj, then of right.obj
    assert len(in_helpers) == 2
    stacks = [f"{leaf + 1:#x} {in_middle:#x} {in_helper:#x}\n" for in_helper in in_helpers]
    said = icf("resolve", "-e", image, "--out", "json", "--cache-dir", tmp_path / "cache", stdin="".join(stacks))
    found = [[frame["linkage_name"] for frame in json.loads(line)["frames"][:2]] for line in said.splitlines()]
    assert found == [
        ["??$leaf@F@@YAHPEAF@Z", "??$middle@F@@YAHPEAF@Z"],
        ["??$leaf@D@@YAHPEAD@Z", "??$middle@D@@YAHPEAD@Z"],
    ]


def test_a_link_with_clang_cl_writes_the_side_table(tmp_path: Path) -> None:
    driver = tmp_path / "clang-cl"
    driver.symlink_to(tool("clang++"))
    (tmp_path / "main.cpp").write_text(RUNTIME + MAIN)
    flags = ("--target=x86_64-pc-windows-msvc", "/Z7", "/O1", "/GS-")
    command = [*icf_command(), "link", "--summary", "--", str(driver), *flags]
    run(*command, "/c", tmp_path / "main.cpp", f"/Fo{tmp_path / 'main.obj'}")
    linking = ["-fuse-ld=lld", f"/Fe{tmp_path / 'app.exe'}", str(archive()), "/link", "/opt:ref,icf", "/nodefaultlib"]
    linking += ["/entry:mainCRTStartup", "/subsystem:console"]
    done = run(*command, tmp_path / "main.obj", *linking)
    assert re.search(r"named       ([3-9]) of \1 direct calls of merged functions, 100\.0 %", done.stderr), done.stderr
    (tmp_path / "app.icf").unlink()
    done = run(*command, tmp_path / "main.cpp", *linking)  # the object is gone when the pass looks for it
    assert (tmp_path / "app.icf").exists() and re.search(r"missing     \S*main-\S+\.obj", done.stderr), done.stderr


def test_libraries_that_an_object_asks_for_are_read_after_a_link(tmp_path: Path) -> None:
    wanted = compile_windows(f'{RUNTIME}{MAIN}\n#pragma comment(lib, "sides.lib")\n', "-O1", name="asks")
    options = ["/debug", "/opt:ref,icf", "/nodefaultlib:libcmt", "/entry:mainCRTStartup", "/subsystem:console"]
    paths = (f"/libpath:{archive().parent}", f"/out:{tmp_path / 'app.exe'}")
    done = run(*icf_command(), "link", "--summary", "--", tool("lld-link"), *options, *paths, wanted)
    assert re.search(r"named       ([3-9]) of \1 direct calls", done.stderr) and "missing" not in done.stderr, (
        done.stderr
    )


def test_objects_of_another_link_name_nothing(tmp_path: Path) -> None:
    main = compile_windows(RUNTIME + MAIN, "-O1", name="main")
    image = link_windows(tmp_path, main, archive())
    changed = compile_windows(LEFT.replace("+ 1; }", "+ 2; }"), "-O2", name="the_left_side_of_it")
    summary = json.loads(icf("pass", image, "--json", "--objects", changed))
    assert summary["dropped"]["the code of a function is not that of the image"] > 0
    direct = json.loads(icf("dump", "--dcall", "--json", image))["direct_calls"]
    assert all("middle" not in each["caller"] for each in direct)


def test_a_side_table_of_another_link_is_not_used(tmp_path: Path) -> None:
    main = compile_windows(RUNTIME + MAIN, "-O1", name="main")
    image = link_windows(tmp_path, main, archive())
    icf("pass", "-q", image, "--objects", main, archive())
    table = image.with_suffix(".icf")
    content = table.read_bytes()
    icf("pass", "-q", image, "--objects", main, archive())
    assert table.read_bytes() == content  # the same input makes the same bytes
    with PeImage.open(str(image)) as opened:
        assert content[8:28] == opened.build_id
    table.write_bytes(content[:8] + bytes(20) + content[28:])
    done = subprocess.run([*icf_command(), "dump", "--dcall", str(image)], capture_output=True, text=True, check=True)
    assert f"{table}: does not belong to {image}: not used" in done.stderr
    assert "no .debug_dcall" in done.stdout
    table.write_bytes(content[:20])
    done = subprocess.run([*icf_command(), "dump", str(image)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "app.icf: side table+0x0: needs 52 bytes, 20 are left" in done.stderr


def test_without_objects_the_classes_are_shown(tmp_path: Path) -> None:
    image = link_windows(tmp_path, compile_windows(SHOP))
    classes = json.loads(icf("dump", "--folds", "--json", image))["classes"]
    members = [{member["name"] for member in each["members"]} for each in classes]
    assert {"sales::tax(int)", "costs::tax(int)"} in members and all(len(each) > 1 for each in members)


def test_a_link_with_lld_link_writes_the_side_table(tmp_path: Path) -> None:
    main = shutil.copy(compile_windows(RUNTIME + MAIN, "-O1", name="main"), tmp_path)
    (tmp_path / "lib").mkdir()
    shutil.copy(archive(), tmp_path / "lib")
    (tmp_path / "link.rsp").write_text(f"{main} sides.lib /libpath:{tmp_path / 'lib'}\n")
    options = ["/DEBUG", "/nodefaultlib", "-entry:mainCRTStartup", "/subsystem:console"]
    options.append(f"/out:{tmp_path / 'app.exe'}")
    command = [tool("lld-link"), *options, "/opt:ref,icf", f"@{tmp_path / 'link.rsp'}"]
    done = subprocess.run(
        [*icf_command(), "link", "--summary", "--", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"named       ([3-9]) of \1 direct calls of merged functions, 100\.0 %", done.stderr), done.stderr
    assert (tmp_path / "app.icf").exists()
    command[-2] = "/opt:ref,noicf"
    done = subprocess.run(
        [*icf_command(), "link", "--strict", "--", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "app.exe: not folded: /opt:icf is not among the options" in done.stderr
    last = subprocess.run([*icf_command(), "link", "--", *command, "no.obj"], capture_output=True, check=False)
    assert last.returncode == 1  # of the linker


def test_objects_for_link_time_code_generation_are_reported_in_one_line(tmp_path: Path) -> None:
    # u16 0, u16 0xffff, u16 version, u16 machine, u32 time, 16s what it is; the rest is for Microsoft's linker
    head = bytes.fromhex("0000ffff 0100 6486 00000000 38feb30ca5d9ab4dac9bd6b6222653c2")
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.obj").write_bytes(head + bytes(40))
    run(tool("llvm-ar"), "rcS", tmp_path / "both.lib", tmp_path / "two.obj", tmp_path / "three.obj")
    path = link_windows(tmp_path, compile_windows(SHOP))
    inputs = [tmp_path / "one.obj", tmp_path / "both.lib", compile_windows(SHOP)]
    command = [*icf_command(), "pass", path, "--objects", *inputs]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    reason = "compiled with /GL: without machine code, so the calls have no records"
    assert ran.stderr == f"icf: warning: {tmp_path / 'one.obj'} and 2 more: {reason}\n"
    assert "named       6 of 6 direct calls" in ran.stdout
