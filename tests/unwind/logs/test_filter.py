"""Logs with stacks of a program whose functions a linker has folded: right names in, and nothing else changed."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from icf.demangle import demangle, qualified_name
from icf.elf.image import Image
from icf.elf.types import PT_LOAD
from linkpass import Options, run_pass
from tests.support.paths import ROOT
from unwind.logs.filter import filter_log
from unwind.readers.module_places import ModulePlace, ModulePlaces
from unwind.readers.text_stacks import STACK_LIMIT
from unwind.samples.recording import RecordedModule
from unwind.target.named_places import NamedPlaces
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Ambiguous, Namer

SHOP = ROOT / "testdata" / "shop"
LINES = [json.loads(line) for line in (SHOP / "shop.lld.json").read_text().splitlines()]
STACKS = [[int(word, 16) for word in line["stack"].split() if word != "?"] for line in LINES]
TRUTH = [[demangle(name) for name in line["truth"] if name] for line in LINES]
BIAS = 0x55D3_0000_0000
Filter = Callable[..., bytes]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the image with its tables."""
    path = shutil.copy(SHOP / "shop.lld", tmp_path_factory.mktemp("shop") / "shop")
    run_pass(str(path), Options())
    return str(path)


@pytest.fixture
def filtered(shop: str, tmp_path: Path) -> Iterator[Filter]:
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path / "cache"))) as resolver:

        def run(text: bytes, places: ModulePlaces | None = None, ambiguous: Ambiguous = Ambiguous.JOINED) -> bytes:
            out = io.BytesIO()
            filter_log(io.BytesIO(text), out, resolver, Namer(ambiguous), places)
            return out.getvalue()

        yield run


def unnamed(shop: str, stack: list[int]) -> str:
    """Return the lines of a stack as a sanitizer without a symbolizer writes them: less one but for the first."""
    return "".join(
        f"    #{idx} {BIAS + vaddr - (idx > 0):#x}  ({shop}+{vaddr - (idx > 0):#x})\n"
        for idx, vaddr in enumerate(stack)
    )


def named(shop: str, stack: list[int], names: list[str]) -> str:
    """Return the same with the names that a symbolizer prints; the last frame says where the image lies."""
    kept = [name.replace("Session", "Order").replace("Payment", "Order") for name in names]
    lines = [
        f"    #{idx} {BIAS + vaddr - (idx > 0):#x} in {name} /src/shop.cpp:{idx + 1}:{idx + 2}\n"
        for idx, (vaddr, name) in enumerate(zip(stack[:-1], kept[:-1], strict=True))
    ]
    at = len(stack) - 1
    return "".join(lines) + f"    #{at} {BIAS + stack[-1] - 1:#x} in _start ({shop}+{stack[-1] - 1:#x})\n"


def shown(text: bytes, mark: str = " in ") -> list[str]:
    """Return the functions of ASan's lines."""
    lines = [line for line in text.decode().splitlines() if "#" in line]
    return [line.partition(mark)[2].rpartition(" ")[0] for line in lines]


@pytest.mark.parametrize("form", [unnamed, named])
def test_sanitizers(shop: str, filtered: Filter, form: Callable[..., str]) -> None:
    for stack, names in zip(STACKS, TRUTH, strict=True):
        text = form(shop, stack, names) if form is named else unnamed(shop, stack)
        assert shown(filtered(text.encode())) == names


@pytest.mark.parametrize("has_names", [False, True])
def test_stacks_of_llvm(shop: str, filtered: Filter, has_names: bool) -> None:
    """Its addresses have 16 digits, as those of gdb, and it leaves out ` in `; they are return addresses, raw."""
    for stack, names in zip(STACKS, TRUTH, strict=True):
        frames = []
        for idx, (vaddr, name) in enumerate(zip(stack, names, strict=True)):
            kept = name.replace("Session", "Order").replace("Payment", "Order")
            where = f"/src/shop.cpp:{idx + 1}:2" if has_names and idx < len(stack) - 1 else f"({shop}+{vaddr:#x})"
            frames.append(f" #{idx} {BIAS + vaddr:#018x} {kept + ' ' if has_names else ''}{where}\n")
        after = filtered("".join(frames).encode()).decode().splitlines()
        assert [line.split(" ", 3)[3].rpartition(" ")[0] for line in after] == names
        assert [line.split(" ")[2] for line in after] == [f"{BIAS + vaddr:#018x}" for vaddr in stack]


@pytest.mark.parametrize("has_offsets", [True, False])
def test_stacks_of_systemd(shop: str, filtered: Filter, has_offsets: bool) -> None:
    """Up to version 243 there are no offsets: then a list of modules says where they lay."""
    places = ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, RecordedModule(shop))])
    for stack, names in zip(STACKS, TRUTH, strict=True):
        frames = ["Process 4711 (shop) of user 1000 dumped core.\n", "Stack trace of thread 4711:\n"]
        for idx, vaddr in enumerate(stack):
            kept = names[idx].replace("Session", "Order").replace("Payment", "Order")
            module = f"shop + {vaddr:#x}" if has_offsets else "/usr/bin/shop"
            frames.append(f"                #{idx:<2} {BIAS + vaddr:#018x} {kept} ({module})\n")
        after = filtered("".join(frames).encode(), places).decode().splitlines(True)
        for before, line, name in zip(frames[2:], after[2:], names, strict=True):
            head, tail = before[:39], before[before.rindex(" (") :]
            assert line == head + name + tail


def kept_names(names: list[str]) -> list[str]:
    """Return what a symbolizer prints: the function that the linker has kept."""
    return [name.replace("Session", "Order").replace("Payment", "Order") for name in names]


@pytest.fixture
def placed(shop: str) -> ModulePlaces:
    """Return where the program lay, as a list of modules says it."""
    return ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, RecordedModule(shop))])


def test_stacks_of_valgrind(shop: str, filtered: Filter, placed: ModulePlaces) -> None:
    for stack, names in zip(STACKS, TRUTH, strict=True):
        text = "==47== Invalid write of size 4\n"
        for idx, (vaddr, name) in enumerate(zip(stack, kept_names(names), strict=True)):
            where = "in /usr/bin/shop" if idx == len(stack) - 1 else f"shop.cpp:{idx + 1}"
            text += f"==47==    {'by' if idx else 'at'} 0x{BIAS + vaddr - (idx > 0):X}: {name} ({where})\n"
        text += "==47==  Address 0x0 is not stack'd\n"
        before, after = text.splitlines(), filtered(text.encode(), placed).decode().splitlines()
        assert [line.partition(": ")[2].rpartition(" (")[0] for line in after[1:-1]] == names
        for old, new, name in zip(before[1:-1], after[1:-1], names, strict=True):
            assert new.startswith(old[: old.index(": ") + 2])
            assert "List" not in name or new != old


@pytest.mark.parametrize("is_verbose", [True, False])
def test_stacks_of_eu_stack(shop: str, filtered: Filter, placed: ModulePlaces, is_verbose: bool) -> None:
    """A line that shows where a frame is belongs to it; frames from the eleventh on look like those of LLVM."""
    for first in (0, 8):
        for stack, names in zip(STACKS, TRUTH, strict=True):
            rows = [(f"{BIAS + 0x100000 + idx:#018x}", "std::get(std::a const&)") for idx in range(first)]
            rows += [(f"{BIAS + vaddr:#018x}", name) for vaddr, name in zip(stack, kept_names(names), strict=True)]
            text = "TID 12:\n"
            for idx, (address, name) in enumerate(rows):
                sign = (" - 1" if idx else "    ") if is_verbose else ""
                text += f"#{idx:<2} {address}{sign} {name}" + (
                    " - /bin/shop\n    /src/a.h:1:2\n" if is_verbose else "\n"
                )
            after = [line for line in filtered(text.encode(), placed).decode().splitlines() if "#" in line]
            cut = [line.split(None, 4 if " - 1" in line else 2)[-1].removesuffix(" - /bin/shop") for line in after]
            assert cut[first:] == names
            assert cut[:first] == [name for _, name in rows[:first]]
            lines = filtered(text.encode(), placed).decode().splitlines()
            for line, following in itertools.pairwise(lines):
                assert not ("List<" in line and following == "    /src/a.h:1:2")


@pytest.fixture
def by_names(shop: str, tmp_path: Path) -> Iterator[ModulePlaces]:
    """Return places that the names of unmerged functions show."""
    with closing(NamedPlaces(shop, SearchPaths(cache_dir=str(tmp_path / "cache")))) as found:
        yield ModulePlaces(named=found)


@pytest.mark.parametrize("bias", [BIAS, BIAS + 0x7000])
def test_names_of_functions_show_where_a_program_lay(
    shop: str, filtered: Filter, by_names: ModulePlaces, bias: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "icf")
    for stack, names in zip(STACKS, TRUTH, strict=True):
        rows = list(zip(stack, kept_names(names), strict=True))
        text = "".join(f"#{idx:<2} {bias + vaddr:#018x} in {name} ()\n" for idx, (vaddr, name) in enumerate(rows))
        after = filtered(text.encode(), by_names).decode().splitlines()
        assert [line.partition(" in ")[2].partition(" (")[0] for line in after] == list(map(qualified_name, names))
    assert f"shop: lay at {bias:#x}, as the addresses of" in caplog.text


@pytest.mark.parametrize("damage", ["moved", "alone", "merged"])
def test_names_that_do_not_agree_show_nothing(
    shop: str, filtered: Filter, by_names: ModulePlaces, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One function is not enough, merged ones do not count, and all have to lie as in the image."""
    caplog.set_level("INFO", "icf")
    rows = list(zip(STACKS[0], kept_names(TRUTH[0]), strict=True))
    if damage == "moved":
        rows = [(vaddr + 0x1000 * (name == "main"), name) for vaddr, name in rows]
    elif damage == "alone":
        rows = [(vaddr, name if name == "main" or "List" in name else "f()") for vaddr, name in rows]
    else:
        rows = [(vaddr, name) for vaddr, name in rows if "List" in name]
    text = "".join(f"#{idx:<2} {BIAS + vaddr:#018x} {name}\n" for idx, (vaddr, name) in enumerate(rows))
    assert filtered(text.encode(), by_names).decode() == text
    assert "lay at" not in caplog.text


def test_only_the_lines_of_eu_stack_are_part_of_its_stack(shop: str, filtered: Filter, placed: ModulePlaces) -> None:
    frames = [
        f"#{idx}  {BIAS + vaddr:#018x} {name}\n"
        for idx, (vaddr, name) in enumerate(zip(STACKS[0][:3], TRUTH[1][:3], strict=True))
    ]
    build_id = f"    [5d0c]@{BIAS:#x}+0x1a5e\n"
    text = "".join(
        [*frames[:2], build_id, "    ./list.h:1:2\n", frames[2], "    not of the stack\n", "    x.h: 12 bytes\n"]
    )
    after = filtered(text.encode(), placed).decode()
    assert build_id in after and after.endswith("    not of the stack\n    x.h: 12 bytes\n")
    assert "./list.h:1:2" not in after


@pytest.mark.parametrize("form", ["    @ {address:>18} {name}\n", "    @ {address:>18}         16  {name}\n"])
def test_stacks_of_glog(shop: str, filtered: Filter, placed: ModulePlaces, form: str) -> None:
    for stack, names in zip(STACKS, TRUTH, strict=True):
        head = "*** Check failure stack trace: ***\n"
        rows = zip(stack, kept_names(names), strict=True)
        text = head + "".join(form.format(address=f"{BIAS + vaddr:#x}", name=name) for vaddr, name in rows)
        rows = zip(stack, names, strict=True)
        right = head + "".join(form.format(address=f"{BIAS + vaddr:#x}", name=name) for vaddr, name in rows)
        assert filtered(text.encode(), placed).decode() == right


def test_stacks_of_strace(shop: str, filtered: Filter) -> None:
    """Its numbers are offsets in the file, and C++ names have parentheses."""
    with Image.open(shop) as image:
        loads = [each for each in image.segments if each.type == PT_LOAD]
    for stack, names in zip(STACKS, TRUTH, strict=True):
        frames = ["pause() = ? ERESTARTNOHAND\n"]
        for vaddr, name in zip(stack, names, strict=True):
            (load,) = [each for each in loads if each.vaddr <= vaddr < each.vaddr + each.filesz]
            kept = name.replace("Session", "Order").replace("Payment", "Order")
            frames.append(f" > {shop}({kept} [clone .isra.0]+0x12) [{vaddr - load.vaddr + load.offset:#x}]\n")
        for text in (frames, [re.sub(r"\([^/]*\) ", "() ", line) for line in frames]):
            after = filtered("".join(text).encode()).decode().splitlines()
            found = [line[len(f" > {shop}(") :].rpartition(")")[0].removesuffix("+0x12") for line in after[1:]]
            assert [name.removesuffix(" [clone .isra.0]") for name in found] == names


def test_demangled_names_of_backtrace(shop: str, filtered: Filter) -> None:
    """V8 and Chromium demangle what backtrace_symbols() returns: such a symbol says nothing of the place."""
    places = ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, RecordedModule(shop))])
    kept = [name.replace("Session", "Order").replace("Payment", "Order") for name in TRUTH[0]]
    text = "".join(
        f"    {shop}({name}+0x13) [{BIAS + vaddr:#x}]\n" for vaddr, name in zip(STACKS[0], kept, strict=True)
    )
    after = filtered(text.encode(), places).decode().splitlines()
    assert [line.partition("shop(")[2].rpartition("+0x")[0] for line in after] == TRUTH[0]


def test_build_ids_of_systemd_say_which_file_it_was(shop: str, filtered: Filter) -> None:
    """An image of another build is not taken for the one that crashed."""
    names = [name.replace("Session", "Order").replace("Payment", "Order") for name in TRUTH[0]]
    with Image.open(shop) as image:
        build_id = image.build_id.hex()
    frames = "".join(
        f"#{idx:<2} {BIAS + vaddr:#018x} {name} ({shop} + {vaddr:#x})\n"
        for idx, (vaddr, name) in enumerate(zip(STACKS[0], names, strict=True))
    )
    for told, is_right in ((build_id, True), ("00" * 20, False)):
        for text in (f"Found module shop with build-id: {told}\n", f"Module {shop} with build-id {told}\n"):
            after = filtered((text + frames).encode()).decode()
            assert (TRUTH[0][1] in after) is is_right
    other = f"Found module shop with build-id: {'00' * 20}\nProcess 12 (shop) of user 0 dumped core.\n"
    assert TRUTH[0][1] in filtered((other + frames).encode()).decode()  # of another process


def test_what_is_right_stays_as_it_is(shop: str, filtered: Filter) -> None:
    before = named(shop, STACKS[1], TRUTH[1]).splitlines()
    after = filtered("\n".join(before).encode()).decode().splitlines()
    assert before[0] == after[0] and before[4:] == after[4:]  # functions that are not merged
    assert before[1] != after[1] and "/src/shop.cpp:2:3" not in after[1]  # the place is that of the right function


def test_a_frame_that_stays_open_has_all_names_and_its_place(shop: str, filtered: Filter) -> None:
    inner = STACKS[1][:2]
    text = unnamed(shop, inner).encode()
    line = filtered(text).splitlines()[1].decode()
    names = "List<Session>::grow() | List<Order>::grow() | List<Payment>::grow()"
    address = f"    #1 {BIAS + inner[1] - 1:#x} in "
    place = f" ({shop}+{inner[1] - 1:#x})"
    assert sorted(line.removeprefix(address).removesuffix(place).split(" | ")) == sorted(names.split(" | "))
    body = filtered(text, ambiguous=Ambiguous.BODY).splitlines()[1].decode()
    assert body.endswith(f" [one of 3]{place}")


def test_the_summary_names_the_frame_that_the_report_names(shop: str, filtered: Filter) -> None:
    stack, names = STACKS[0][1:], TRUTH[0][1:]
    head = "==1==ERROR: AddressSanitizer: SEGV\n"
    kept = names[0].replace("Session", "Order")
    named_log = head + named(shop, stack, names) + f"\nSUMMARY: AddressSanitizer: SEGV /src/shop.cpp:1:2 in {kept}\r\n"
    after = filtered(named_log.encode()).splitlines(True)
    where = after[1].decode().split(f" in {names[0]} ")[1].strip()
    assert after[-1].decode() == f"SUMMARY: AddressSanitizer: SEGV {where} in {names[0]}\r\n"
    plain = unnamed(shop, stack) + f"SUMMARY: AddressSanitizer: SEGV ({shop}+{stack[0]:#x}) \n"
    assert filtered((head + plain).encode()).endswith(f"SEGV {where} in {names[0]}\n".encode())
    other = head + unnamed(shop, stack) + "SUMMARY: AddressSanitizer: SEGV (/bin/other+0x1) \n"
    assert filtered(other.encode()).endswith(b"SEGV (/bin/other+0x1) \n")


def test_the_summary_names_no_frame_of_a_later_stack(shop: str, filtered: Filter) -> None:
    """The first stack is right as it stands; the second has the same text for another function."""
    first, second = STACKS[1][1:], STACKS[0][1:]
    right = filtered(unnamed(shop, first).encode()).decode().splitlines()
    name, where = right[0].partition(" in ")[2].rsplit(" ", 1)
    wrong = [f"    #{idx} {BIAS + vaddr - (idx > 0):#x} in {name} {where}" for idx, vaddr in enumerate(second)]
    wrong[-1] = f"    #{len(second) - 1} {BIAS + second[-1] - 1:#x} in _start ({shop}+{second[-1] - 1:#x})"
    summary = f"SUMMARY: AddressSanitizer: SEGV {where} in {name}"
    text = "\n".join(["==1==ERROR: x", *right, "", *wrong, "", summary])
    after = filtered(text.encode()).decode().splitlines()
    assert after[: len(right) + 1] == ["==1==ERROR: x", *right]
    assert after[len(right) + 2] != wrong[0] and TRUTH[0][1] in after[len(right) + 2]
    assert after[-1] == summary


def test_tsan(shop: str, filtered: Filter) -> None:
    stack = STACKS[2]
    lines = [f"    #{idx} <null> <null> ({shop}+{vaddr - (idx > 0):#x})\n" for idx, vaddr in enumerate(stack)]
    after = filtered("".join(lines).encode()).decode().splitlines()
    places = [line.split(" <null>")[-1].strip() for line in lines]
    named_lines = [line.partition(" ./")[0].partition(" <null>")[0] for line in after]
    assert named_lines == [f"    #{idx} {name}" for idx, name in enumerate(TRUTH[2])]
    assert [line.endswith(place) for line, place in zip(after, places, strict=True)] == [True] * len(stack)


def test_backtraces_of_glibc(shop: str, filtered: Filter) -> None:
    stack, names = STACKS[2][1:], TRUTH[2][1:]  # all are return addresses
    text = "".join(f"12:00 {shop}(+{vaddr:#x}) [{BIAS + vaddr:#x}]\n" for vaddr in stack)
    after = filtered(text.encode()).decode().splitlines()
    found = [line.partition("(")[2].rpartition("+0x")[0] for line in after]
    assert found == names
    assert all(f") [{BIAS + vaddr:#x}]" in line for vaddr, line in zip(stack, after, strict=True))
    assert after[0].startswith(f"12:00 {shop}(") and "/list.h:20:" in after[0].rpartition("] at ")[2]


def test_gdb(shop: str, filtered: Filter) -> None:
    stack, names = STACKS[2], TRUTH[2]
    kept = [qualified_name(name).replace("Payment", "Order") for name in names]
    lines = [
        f"#{idx:<2} 0x{BIAS + vaddr:016x} in {name} (this=0x7ffd, n={idx}) at shop.cpp:{idx}\n        n = {idx}\n"
        for idx, (vaddr, name) in enumerate(zip(stack, kept, strict=True))
    ]
    module = RecordedModule(shop)
    places = ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, module)])
    text = "Thread 1 (LWP 17):\n" + "".join(lines) + "\n(gdb) "
    after = filtered(text.encode(), places).decode()
    frames = [line for line in after.splitlines() if line.startswith("#")]
    assert [line.partition(" in ")[2].partition(" (")[0] for line in frames] == [qualified_name(name) for name in names]
    assert all(f"(this=0x7ffd, n={idx}) at " in line for idx, line in enumerate(frames))
    assert [line for line in after.splitlines() if "n = " in line] == [
        f"        n = {idx}" for idx in range(len(stack))
    ]
    assert filtered(text.encode()).decode() == text  # nothing says where the module lay


def lldb_lines(stack: list[int], names: list[str]) -> list[str]:
    """Return a stack as lldb prints it, with the functions that were kept."""
    lines = []
    for idx, (vaddr, name) in enumerate(zip(stack, kept_names(names), strict=True)):
        function = f"{qualified_name(name)}(this=0x7ffd, n={idx}) at shop.cpp:{idx}:2"
        if idx == len(stack) - 1:
            function = f"{name} + 33"
        lines.append(f"  {' ' if idx else '*'} frame #{idx}: {BIAS + vaddr:#018x} shop`{function}\n")
    return lines


def test_lldb(shop: str, filtered: Filter, placed: ModulePlaces) -> None:
    listed = f"Process 17 stopped\n[  0] F895CEC1 {BIAS:#018x} {shop} \n* thread #1, name = 'shop'\n"
    for stack, names in zip(STACKS, TRUTH, strict=True):
        lines = lldb_lines(stack, names)
        text = "".join(lines)
        after = filtered((listed + text).encode()).decode()
        assert after.startswith(listed)
        after = after.removeprefix(listed)
        for old, new, name in zip(lines, after.splitlines(True), names, strict=True):
            before, _, function = new.partition("`")
            assert function.partition("(")[0].partition(" ")[0] == qualified_name(name) and old.startswith(f"{before}`")
            assert "(this=0x7ffd, n=" in new or new == old
            assert "List" not in name or " at list.h:" in new
        assert filtered(text.encode(), placed).decode() == after
        assert filtered(text.encode()).decode() == text  # nothing says where the module lay
        other = text.replace(" shop`", " pohs`")
        assert filtered(other.encode(), placed).decode() == other


def test_lines_of_lldb_that_are_inlined_or_tail_calls(shop: str, filtered: Filter, placed: ModulePlaces) -> None:
    """The former are written anew, the latter stay, and numbers follow."""
    lines = lldb_lines(STACKS[1], TRUTH[1])
    start = lines[2][: lines[2].index("0x")]
    tail = f"{start}{BIAS + 0x100:#018x} shop`post(p=1) at a.cpp:1:2 [opt] [artificial]\n"
    inlined = f"{start}{lines[2].partition(': ')[2].partition('`')[0]}`x(int) [inlined] y(n=1) at a.cpp:1:2\n"
    where_it_begins = lines[2].replace(f"{BIAS + STACKS[1][2]:#018x}", f"{BIAS + STACKS[1][2] - 3:#018x}")
    rows = [*lines[:2], tail, inlined, where_it_begins, *lines[3:]]
    text = "".join(f"{line[: line.index('#')]}#{idx}{line[line.index(':') :]}" for idx, line in enumerate(rows))
    after = filtered(text.encode(), placed).decode().splitlines(True)
    expected = filtered("".join(lines).encode(), placed).decode().splitlines(True)
    assert [line.partition("#")[2].partition(":")[0] for line in after] == [str(idx) for idx in range(len(after))]
    bodies = [line.partition(": ")[2] for line in after]
    assert bodies.pop(2) == tail.partition(": ")[2]
    before, add, *behind = [line.partition(": ")[2] for line in expected[1:]]
    assert bodies[1] == before and bodies[3:] == behind
    assert bodies[2].partition("(")[0] == add.partition("(")[0]


def test_logs_of_java(shop: str, filtered: Filter, tmp_path: Path) -> None:
    """The VM walks along frame pointers: what it may have left out keeps frames open, and each is named rightly."""
    for stack, names in zip(STACKS, TRUTH, strict=True):
        lines = [f"C  [{shop}+{vaddr:#x}]  {name}+0x12\n" for vaddr, name in zip(stack, kept_names(names), strict=True)]
        title = "Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)\n"
        java = "j  Shop.main([Ljava/lang/String;)V+7\nv  ~StubRoutines::call_stub\n"
        text = f"# {lines[0]}#\n\n{title}{''.join(lines)}{java}\nRegisters:\n"
        after = filtered(text.encode()).decode()
        shown_names = [line.partition("]  ")[2].rpartition("+")[0] for line in after.splitlines() if "]  " in line]
        assert after.count("\n") == text.count("\n") and title in after and after.endswith(f"{java}\nRegisters:\n")
        assert all(name in each.split(" | ") for name, each in zip([names[0], *names], shown_names, strict=True))
        with RecordedResolver(SearchPaths(cache_dir=str(tmp_path / "cache"))) as resolver:
            out = io.BytesIO()
            filter_log(io.BytesIO(text.encode()), out, resolver, Namer(), says_losses=False)  # --lossy none
        written = [line.partition("]  ")[2] for line in out.getvalue().decode().splitlines() if line.startswith("C ")]
        assert written == [f"{name}+0x12" for name in names]


def test_rust(shop: str, filtered: Filter) -> None:
    stack, names = STACKS[2][1:], TRUTH[2][1:]  # all are return addresses
    text = "thread 'main' panicked at list.h:20:9:\nstack backtrace:\n" + "".join(
        f"{idx:4}: {BIAS + vaddr:#18x} - shop::wrong{idx}::h0123456789abcdef\n{'at wrong.rs:1:2':>46}\n"
        for idx, vaddr in enumerate(stack)
    )
    text += f"{len(stack):4}: {0:#18x} - <unknown>\nafter it\n"
    places = ModulePlaces([ModulePlace(BIAS, BIAS + 0x10000, BIAS, RecordedModule(shop))])
    after = filtered(text.encode(), places).decode()
    frames = [line for line in after.splitlines() if " - " in line]
    unmerged = ["shop::wrong3::h0123456789abcdef", "shop::wrong4::h0123456789abcdef"]  # as they were
    assert [line.partition(" - ")[2] for line in frames] == [*names[:2], *names[2:3], *unmerged, "<unknown>"]
    assert [line[:25] for line in frames] == [line[:25] for line in text.splitlines() if " - " in line]
    assert after.count("wrong.rs") == 2 and "\n                               at ././list.h:20:9\n" in after
    assert after.endswith("\nafter it\n")
    assert filtered(text.encode()).decode() == text  # nothing says where the module lay


def test_tombstones(shop: str, filtered: Filter) -> None:
    stack, names = STACKS[2], TRUTH[2]
    text = "".join(
        f"      #{idx:02d} pc {vaddr - (idx > 0):016x}  {shop} (wrong()+28)\r\n" for idx, vaddr in enumerate(stack)
    )
    after = filtered(text.encode()).decode()
    found = [line.partition(f"{shop} (")[2].rpartition("+")[0] for line in after.splitlines()]
    # a function that is not merged keeps the name that the tombstone has
    assert found == [name if "List" in name or "post" in name else "wrong()" for name in names]


def test_numbers_follow_inlined_functions_that_come_and_go(shop: str, filtered: Filter) -> None:
    """One frame has two lines here; the function that it is has one."""
    stack = STACKS[1]
    lines = [f"#{idx} {BIAS + vaddr - (idx > 0):#x} in f{idx} /a.c:{idx + 1}" for idx, vaddr in enumerate(stack)]
    lines.insert(1, f"#1 {BIAS + stack[1] - 1:#x} in inlined /a.c:99")
    lines = [f"#{idx} {line.partition(' ')[2]}" for idx, line in enumerate(lines)]
    lines[-1] = f"{lines[-1].partition(' in ')[0]} in _start ({shop}+{stack[-1] - 1:#x})"
    after = filtered("\n".join(lines).encode()).decode().splitlines()
    assert [line.split()[0] for line in after] == [f"#{idx}" for idx in range(len(stack))]
    assert after[1].partition(" in ")[2].startswith("List<Order>::grow() ") and after[4:] == [
        f"#{idx} {line.partition(' ')[2]}" for idx, line in enumerate(lines[5:], 4)
    ]


TEXTS = [
    b"",
    b"\n",
    b"no newline",
    b"a\r\n\x1b[31mred\x1b[0m #1 \xff\xfe\x00 0x12\n",
    b"    #0 0x1136 in f /a.c:1\n    #1 0x1137  (/no/such/file+0x1137)\n",
    b"#1 fixed (see #2)\n[0x1136]\n==17== x\nSUMMARY: nothing\n",
    b"#0  main () at a.c:1\n        x = 1\n\n",
    b"    #0 0x1136  (/no/such+0x1)",
    b"x" * 300_000 + b"\n" + b"#0 " * 1000,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_all_else_goes_through_byte_for_byte(filtered: Filter, text: bytes) -> None:
    assert filtered(text) == text


def test_text_around_stacks_stays(shop: str, filtered: Filter) -> None:
    """In front of a frame, after it, and between stacks."""
    stack = unnamed(shop, STACKS[1]).encode()
    alone = filtered(stack)
    assert alone != stack
    for before, after in ((b"[\xff12:00] ", b"\r\n"), (b"app | #7 ", b"  \n")):
        decorated = b"".join(before + line + after for line in stack.splitlines())
        expected = b"".join(before + line + after.lstrip(b" ") for line in alone.splitlines())
        assert (
            filtered(b"x\n" + decorated + b"\xff\n" + decorated + b"end")
            == b"x\n" + expected + b"\xff\n" + expected + b"end"
        )


def test_a_stack_that_never_ends_is_cut(shop: str, filtered: Filter) -> None:
    vaddr = STACKS[0][0]
    lines = [f"#{idx} {BIAS:#x}  ({shop}+{vaddr:#x})\n" for idx in range(3 * STACK_LIMIT)]
    after = filtered("".join(lines).encode()).decode().splitlines()
    assert [line.split()[0] for line in after] == [line.split()[0] for line in lines]


def test_a_pipe_is_answered_at_once(shop: str, tmp_path: Path) -> None:
    """A line that shows no frame at once, a stack soon after its last line, a prompt soon."""
    command = [sys.executable, "-m", "icf", "resolve", "--format", "log", "--cache-dir", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None

        def answer(text: bytes) -> bytes:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(text)
            return os.read(process.stdout.fileno(), 1 << 16)

        assert answer(b"started\n") == b"started\n"
        assert b"List<Order>::grow()" in answer(unnamed(shop, STACKS[1]).encode())
        begin = time.monotonic()
        assert answer(b"password: ") == b"password: "
        assert answer(b"#0 0x1136\n") == b"#0 0x1136\n"
        assert time.monotonic() - begin < 20
        process.stdin.close()
        assert process.wait(30) == 0
