"""Calls through pointers to member functions: they enter a function in a vtable, or one whose address is taken."""

from __future__ import annotations

import pytest

from tests.e2e.workshop import ALL, Workshop

# four equal methods: `drawn` and `erased` are virtual, to `moved` there is a pointer, to `turned` there is none
SHAPES = """
    #include <functional>
    #include <mutex>
    #include <thread>
    int count;
    struct Shape { virtual void drawn(int) = 0; virtual void erased(int) = 0; int state = 1; };
    struct Circle : Shape {
        void drawn(int) override; void erased(int) override;
        void moved(int); void turned(int);
    };
    NOINLINE void Circle::drawn(int n) { SAMPLE_OBJECT(); state += n; }
    NOINLINE void Circle::erased(int n) { SAMPLE_OBJECT(); state += n; }
    NOINLINE void Circle::moved(int n) { SAMPLE_OBJECT(); state += n; }
    NOINLINE void Circle::turned(int n) { SAMPLE_OBJECT(); state += n; }
    struct Disc : Shape { void drawn(int n) override { state += n; } void erased(int n) override { state -= n; } };
    typedef void (Circle::*Method)(int);
    NOINLINE void call(Circle *circle, Method method, int n) { (circle->*method)(n); ++count; }
"""
WAYS = (
    "call(&circle, {}, argc);",
    "std::invoke({}, &circle, argc); ++count;",
    "std::mem_fn({})(circle, argc); ++count;",
    "std::thread({}, &circle, argc).join();",
    "{{ std::once_flag once; std::call_once(once, {}, &circle, argc); }}",
)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_a_function_without_vtable_or_pointer_is_excluded(workshop: Workshop) -> None:
    calls = " ".join(way.format(method) for way in WAYS for method in ("drawn", "erased", "moved"))
    main = f"""
        Method drawn = static_cast<Method>(&Shape::drawn), erased = &Circle::erased, moved = &Circle::moved;
        int main(int argc, char **) {{
            Circle circle; Disc disc;
            {calls}
            circle.turned(argc); ++count;
            Shape *shape = &disc;
            shape->drawn(argc);
            return circle.state + count == 12345;
        }}
    """
    program = workshop.build(SHAPES + main, ["-std=c++17", "-pthread"], ["-pthread"])
    program.add_tables("--objects", workshop.folder / "main.o", workshop.folder / "sampler.o")
    without, with_vptrs = program.check(), program.check(with_vptrs=True)
    assert without["_ZN6Circle6turnedEi"] == {"unique"}
    for name in ("_ZN6Circle5drawnEi", "_ZN6Circle6erasedEi", "_ZN6Circle5movedEi"):
        assert without[name] == with_vptrs[name] == {"narrowed"}
