"""Cold parts that gold folded, of functions that gcc does not describe."""

from __future__ import annotations

import pytest

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
