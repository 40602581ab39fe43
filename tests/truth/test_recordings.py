"""A program of merged hot functions, recorded by perf folded and unfolded: each has the share that it has apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.support.toolchain import run
from tests.truth.builds import build
from tests.truth.programs import Program, Unavailable, find
from tests.truth.recordings import Kind, calls, measure
from tests.truth.shares import Functions, Sampled, Shares, differences, tail
from tests.truth.symbols import read_functions

SOURCE = """
#include <ctime>
volatile unsigned long sum;
struct Order {}; struct Payment {}; struct User {};
template <class T> __attribute__((noinline)) void spin(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) sum += i;
  sum++;
}
template <class T> __attribute__((noinline)) void visit(int depth, unsigned long n) {
  if (depth) visit<T>(depth - 1, n); else spin<T>(n);
  sum++;
}
__attribute__((noinline)) void orders(unsigned long n) { visit<Order>(2, n); sum++; }
__attribute__((noinline)) void payments(unsigned long n) { visit<Payment>(3, 2 * n); sum--; }
void users(unsigned long n) { visit<User>(1, n); sum += 3; }
int main(int count, char **) {
  while (clock() < CLOCKS_PER_SEC / 3) { orders(2000000); payments(2000000); if (count > 5) users(2000000); }
}
"""


def _sources(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hot.cpp").write_text(SOURCE)
    return [folder / "hot.cpp"]


HOT = Program("hot", _sources, lambda _: [], lambda _source, _folder: [(Path(), [])])


@pytest.mark.slow
def test_no_function_has_a_share_that_is_not_its(tmp_path: Path) -> None:
    kind = Kind(HOT, "clang-fp", "lld", "fp")
    try:
        perf = find("perf")
        if run(perf, "record", "-q", "-e", "cpu-clock", "-o", tmp_path / "try", "--", "true", check=False).returncode:
            pytest.skip("perf may not record here")
        result = measure(kind, list(icf_command()), tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not result.is_wrong, result
    assert result.functions >= 7 and min(result.samples) > 200
    assert result.merged["settled"] > 3 * min(result.samples)
    assert result.merged["open"] < 0.02 * result.merged["settled"]  # a sample before a function has its frame
    built = build(HOT, "clang-fp", "lld", tmp_path)
    functions = Functions(read_functions(built.unfolded))
    asked = ["orders(unsigned long)", "users(unsigned long)", "void spin<User>(unsigned long)"]
    assert calls(built.unfolded, [(tmp_path, [])], functions, asked) == {"orders(unsigned long)"}


def shares(samples: int, **counts: int) -> Shares:
    return Shares(samples, Counter(counts), Counter(counts))


def test_shares_that_differ_are_found() -> None:
    true = shares(1000, a=250, b=750)
    assert not differences(true, shares(1200, a=280, b=920))
    assert {each.function for each in differences(true, shares(1000, a=0, b=1000))} == {"a", "b"}
    assert [each.function for each in differences(true, shares(1000, a=250, b=750, c=40))] == ["c", "c"]
    assert not differences(true, shares(1000, a=250, b=750, c=2))  # too few to say: a debugger says if it is called


def test_what_is_open_may_be_any_of_its_functions() -> None:
    a, b, both = frozenset("a"), frozenset("b"), frozenset("ab")
    apart = Shares.of([Sampled((a,), True, 300), Sampled((b,), True, 700)])
    folded = Shares.of([Sampled((both,), True, 1000)])
    assert (folded.total, folded.total_possible) == ({}, {"a": 1000, "b": 1000})
    assert not differences(apart, folded)
    wrong = replace(folded, total=Counter(a=1000), total_possible=Counter[str]())
    assert {each.what for each in differences(apart, wrong)} == {"total"}


def test_the_likelihood_of_a_share() -> None:
    assert tail(0, 10, 5, 10) == pytest.approx(1)
    assert tail(5, 10, 0, 10) == pytest.approx(252 / 15504)  # 10 over 5, of 20 over 5
    assert tail(100, 1000, 10, 1000) < 1e-15


def test_the_names_of_one_address_are_one_function(tmp_path: Path) -> None:
    source = 'int first(void) { return 1; } int second(void) __attribute__((alias("first"))); int main() {}'
    (tmp_path / "a.c").write_text(source)
    run("cc", tmp_path / "a.c", "-o", tmp_path / "a")
    functions = Functions(read_functions(tmp_path / "a"))
    assert functions.of_name("first") == functions.of_name("second") == {"first"}
    assert functions.of_name("main") == {"main"} and not functions.of_name("third")
    (start,) = functions.starts("first")
    assert functions.at(start + 1) == "first"
