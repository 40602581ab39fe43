"""What a stack leaves open has to stay open: callbacks of C, and hierarchies that another module goes on with."""

from __future__ import annotations

import pytest

from tests.e2e.modules import Part, build_modules
from tests.e2e.workshop import GOLD, LLD, Workshop

OPEN = {"ambiguous", "narrowed"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_callbacks_of_a_library_are_not_told_apart_by_their_types(workshop: Workshop) -> None:
    """Programs cast functions to the type of the callback: neither what a parameter points to nor how many there are
    says which one is called."""
    program = workshop.build_with_tables(
        """
        #include <cstdlib>
        extern int total;
        int total;
        struct Foo { int x; };
        typedef int Compare(const void *, const void *);
        NOINLINE int by_foo(const Foo *, const Foo *) { SAMPLE(); ++total; return 0; }
        NOINLINE int by_any(const void *, const void *) { SAMPLE(); ++total; return 0; }
        NOINLINE long by_one(const long *) { SAMPLE(); ++total; return 0; }
        NOINLINE static void each(void **p, int n, void (*destroy)(void *)) {
            for (int i = 0; i < n; ++i) { destroy(p[i]); total += 2; }
        }
        NOINLINE void foo_free(Foo *) { SAMPLE(); total += 5; }
        NOINLINE void any_free(void *) { SAMPLE(); total += 5; }
        int main() {
            Foo foos[] = {{2}, {1}};
            void *all[] = {foos, foos + 1};
            qsort(foos, 2, sizeof(Foo), (Compare *)by_foo);
            ++total;
            qsort(foos, 2, sizeof(Foo), by_any);
            ++total;
            qsort(foos, 2, sizeof(Foo), (Compare *)by_one);
            ++total;
            each(all, 2, (void (*)(void *))foo_free);
            each(all, 1, any_free);
            return total == 77;
        }
        """,
        ["-Wno-cast-function-type", "-Wno-cast-function-type-mismatch"],
    )
    verdicts = program.check()
    assert all(verdicts[name] <= OPEN for name in verdicts if "by_" in name or "_free" in name)


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_plug_in_may_derive_from_a_class_and_jump_back(workshop: Workshop) -> None:
    """The library knows Circle alone; the plug-in's Star jumps to a function that is merged with Circle's."""
    header = """
        extern int total;
        struct Other { virtual void other(); __attribute__((noinline)) void paint(int x); };
        struct Shape { int x = 3; Other o; virtual void draw(int x); };
        struct Circle : Shape { void draw(int x) override; };
        void show(Shape *s);
        Shape *star();
    """
    library = f"""
        {header}
        int total;
        void Other::other() {{}}
        void Shape::draw(int) {{}}
        void Circle::draw(int x) {{ SAMPLE(); total += x; }}
        void Other::paint(int x) {{ SAMPLE(); total += x; }}
        NOINLINE void show(Shape *s) {{ s->draw(1); ++total; }}
    """
    plug_in = f"""
        {header}
        struct Star : Shape {{ void draw(int x) override; }};
        void Star::draw(int x) {{ o.paint(x); }}
        Shape *star() {{ return new Star; }}
    """
    program = f"""
        {header}
        int main() {{ Circle c; show(&c); show(star()); return total == 77; }}
    """
    parts = [
        Part("libshape.so", library),
        Part("libstar.so", plug_in, ["libshape.so"]),
        Part("program", program, ["libshape.so", "libstar.so"]),
    ]
    modules = build_modules(workshop, parts)
    drawn = {name: each.verdict for stack in modules.check() for each in stack for name in each.truth}
    assert drawn["_ZN6Circle4drawEi"] in OPEN and drawn["_ZN5Other5paintEi"] in OPEN
