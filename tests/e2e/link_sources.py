"""The program that tests of links and of annotated objects build."""

from __future__ import annotations

# static functions, nested merged callers, in two files that look alike
SOURCES = {
    "apples.cpp": """
        extern int total;
        static NOINLINE void peel(int *a) { SAMPLE(); *a += 1; }
        static NOINLINE void cut(int *a) { peel(a); *a += 2; }
        NOINLINE void apples() { cut(&total); total += 3; }
    """,
    "pears.cpp": """
        extern int total;
        static NOINLINE void wash(int *a) { SAMPLE(); *a += 1; }
        static NOINLINE void slice(int *a) { wash(a); *a += 2; }
        NOINLINE void pears() { slice(&total); total += 3; }
    """,
    "main.cpp": "int total; void apples(); void pears(); int main() { apples(); pears(); return 0; }",
}
