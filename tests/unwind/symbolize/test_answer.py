"""The frames of answers: together and one by one, of one function and of several, with tables that are wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from icf.model import ClassFlag, Verdict
from tests.support.toolchain import tool
from tests.unwind.support import fold, pc
from unwind.program.frame import Frame
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.symbolize.answer import Answer, agreed, read_frames
from unwind.symbolize.symbolizer import Symbolizer
from unwind.symcache.reader.program import load_cached
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_or_build

SOURCE = """
#include <stdlib.h>
static inline __attribute__((always_inline)) int twice(int value) { return value + abs(value); }
__attribute__((noinline)) int left(int value) { return twice(value) + 1; }
__attribute__((noinline)) int right(int value) { return left(value) * 3; }
int main(int count, char **names) { return right(count) + twice(left(count)); }
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> SymCache:
    gcc, folder = tool("gcc"), tmp_path_factory.mktemp("answer")
    (folder / "a.c").write_text(SOURCE)
    image = folder / "a.out"
    subprocess.run([gcc, "-O1", "-g", "-o", image, folder / "a.c"], check=True)
    return open_or_build(image, cache_dir=str(folder / "cache"))


def resolve(cache: SymCache) -> list[Sequence[Answer]]:
    """The answers to eight stacks, which share some of their addresses, of a resolver of their own."""
    program = load_cached(cache)
    program.lines = cache
    resolver = Resolver(program)
    starts = [cache.addresses(name)[0] for name in ("left", "right", "main")]
    return [resolver.resolve([start + offset for start in starts], exact=(1, 2)) for offset in range(8)]


def test_together_and_one_by_one_they_are_the_same(cache: SymCache, monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = resolve(cache), resolve(cache)
    one_by_one = [[each.frames for each in answers] for answers in alone]
    read_frames(together[:3])
    read_frames(together)  # of which some are known
    monkeypatch.setattr(SymCache, "frames", None)  # nothing is left to be read
    assert [[each.frames for each in answers] for answers in together] == one_by_one
    assert all(each.frames[-1].linkage_name == each.linkage_name for answers in together for each in answers)
    assert any(len(answers[0].frames) == 2 for answers in together)  # `twice` is inlined


def test_symbolizer_and_resolver_answer_alike(cache: SymCache) -> None:
    symbolizer = Symbolizer(cache)
    for answers in resolve(cache):
        for answer in answers:
            alone = symbolizer.symbolize(answer.vaddr)
            for field in ("address", "verdict", "name", "linkage_name", "vaddr", "start", "size_bytes", "frames"):
                assert getattr(answer, field) == getattr(alone, field)


class TwoFunctions:
    """Lines of the body at 0x1000 as the symbols have it: `b0m0` and `other`."""

    def frames(self, vaddr: int, member_idx: int = 0) -> list[Frame]:
        return [Frame(("b0m0", "other")[member_idx], "a.cc", 7, 0, False)]


def test_tables_that_name_other_functions_than_the_symbols_give_no_lines() -> None:
    program = Program([fold(0, 3)])
    program.lines = TwoFunctions()
    (answer,) = Resolver(program).resolve((pc(0),))
    assert (answer.verdict, answer.linkage_names) == (Verdict.AMBIGUOUS, ("b0m0", "b0m1", "b0m2"))
    assert [len(each.frames) for each in answer.candidates] == [1, 0, 0]
    assert answer.frames == (Frame("", "", 0, 0, False),)
    settled = Program([fold(0, 1), fold(1, 1)])
    settled.lines = TwoFunctions()
    found = Resolver(settled).resolve((pc(1), pc(0)), exact=(1,))
    assert [each.frames[-1] for each in found] == [
        Frame("b1m0", "", 0, 0, False),
        Frame("b0m0", "a.cc", 7, 0, False),
    ]


class OneLine:
    """The same line for every member: instances of one template."""

    def frames(self, vaddr: int, member_idx: int = 0) -> list[Frame]:
        return [Frame("inlined", "b.h", 3, 0, True), Frame(f"b0m{member_idx}", "a.cc", 7, 0, False)]


@pytest.mark.parametrize(("member_count", "flags", "is_line_known"), [(2, 1, True), (2, 0, False), (17, 1, False)])
def test_frames_of_several_candidates_are_what_they_agree_on(
    member_count: int, flags: int, is_line_known: bool
) -> None:
    program = Program([fold(0, member_count, ClassFlag(flags))])
    program.lines = OneLine()
    (answer,) = Resolver(program).resolve((pc(0),))
    assert [each.frames[-1].linkage_name for each in answer.candidates] == list(answer.linkage_names)
    assert answer.is_complete == bool(flags)
    common = OneLine().frames(0)[0], Frame("", "a.cc", 7, 0, False)
    assert answer.frames == (common if is_line_known else (Frame("", "", 0, 0, False),))


def test_no_function_has_no_frames() -> None:
    (answer,) = Resolver(Program()).resolve((1,))
    assert (answer.frames, answer.candidates, answer.name) == ((), (), None)


def frame(name: str, line: int, *, is_inlined: bool = False) -> Frame:
    return Frame(name, "a.cc", line, 1, is_inlined)


def test_what_chains_agree_on() -> None:
    inlined = frame("inlined", 3, is_inlined=True)
    nameless = Frame("", "", 0, 0, False)
    assert agreed([(inlined, frame("a", 7)), (inlined, frame("b", 7))]) == (inlined, frame("", 7))
    assert agreed([(inlined, frame("a", 7)), (inlined, frame("b", 8))]) == (inlined, nameless)
    assert agreed([(inlined, frame("a", 7)), (frame("b", 7),)]) == (nameless,)
    assert agreed([(inlined, frame("a", 7)), (inlined._replace(line=4), frame("b", 7))]) == (nameless,)
    assert agreed([(frame("a", 7),), ()]) == (nameless,)
