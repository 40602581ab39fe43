"""Cold parts that gold folded, of functions that gcc does not describe."""

from __future__ import annotations

import re

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, Workshop

NODE = """
    #include <cstdlib>
    #include <new>
    struct Node { Node(int n, int m); long words[8]; };
"""
SAMPLED = """
    volatile long sink;
    Node::Node(int n, int m) { sink = n; if (m == 3) throw n; }
    void operator delete(void *p, std::size_t) noexcept { SAMPLE(); std::free(p); sink = 2; }
"""
COPY = """
    Node *make_a(int n, int m) { return new Node(n, m); }
    Node *make_b(int n, int m) { return new Node(n, m); }
    Node *(*volatile chosen[])(int, int) = {make_a, make_b};
    int main() { for (auto each : chosen) try { each(1, 3); } catch (int) {} return 0; }
"""
THUNK = """
    struct First { virtual int one() { return 1; } int a = 1; };
    struct Second { virtual int two(int n) = 0; int b = 2; };
    namespace {
      struct Both : First, Second {
        Node *node = nullptr;
        int two(int n) override { node = new Node(n, 3); return n + 2; }
      };
      Both both;
    }
    Second *volatile second = &both;
    Both *volatile whole = &both;
    int main() {
      try { second->two(1); } catch (int) {}
      try { whole->two(1); } catch (int) {}
      return 0;
    }
"""
JUMPING = """
    int add(int n);
    void rare(int n) __attribute__((cold));
    NOINLINE int left(int n) { return add(n) + 1; }
    NOINLINE int right(int n) { return add(n) + 1; }
    struct First { virtual int two(int n) = 0; int a = 1; };
    struct Second { virtual int two(int n) = 0; int b = 2; };
    namespace {
      struct Both : First, Second {
        int two(int n) override {
          if (n != a) return n + 2;  // the thunk finds it elsewhere
          rare(n);
          return left(n);
        }
      };
      Both both;
    }
    First *volatile first = &both;
    Second *volatile second = &both;
    int main() { second->two(1); first->two(1); right(3); return 0; }
"""
RARE = """
    volatile long sink;
    int add(int n) { return sink += n; }
    void rare(int n) { SAMPLE(); sink = n; }
"""
FUNCTIONS = {
    "copy": (COPY, "_Z6make_aii", "_Z6make_bii"),
    "thunk": (THUNK, "_ZN12_GLOBAL__N_14Both3twoEi", "_ZThn16_N12_GLOBAL__N_14Both3twoEi"),
}


@pytest.mark.parametrize("source", FUNCTIONS)
@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_cold_part_may_be_that_of_a_function_without_description(workshop: Workshop, source: str) -> None:
    code, *functions = FUNCTIONS[source]
    program = workshop.build({"node.cpp": NODE + SAMPLED, "main.cpp": NODE + code}, flags=["-fipa-icf"])
    program.add_tables()
    found = program.check_names()
    assert [found[name] for name in functions] == [{"ambiguous"}, {"ambiguous"}]


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_jump_into_a_part_that_may_be_shared_does_not_say_whose_it_is(workshop: Workshop) -> None:
    flags = ["-fno-partial-inlining", "-fno-ipa-icf"]
    program = workshop.build({"rare.cpp": RARE, "main.cpp": JUMPING}, flags=flags)
    program.add_tables()
    found = program.check_names()
    assert [found[name] for name in FUNCTIONS["thunk"][1:]] == [{"ambiguous"}, {"ambiguous"}]
    two = "(anonymous namespace)::Both::two(int)"
    jumps = re.findall(r"^  jump  \w+  (.*) -> (.*)$", icf("dump", program.folded), re.MULTILINE)
    called = {caller: re.sub(r"\w+$", "", callee) for caller, callee in jumps}
    assert called[two] == f"{two} (.cold)"  # its own part, whoever shares it
    assert called[f"non-virtual thunk to {two}"] == "any function at "
