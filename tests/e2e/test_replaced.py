"""Programs that replace functions of the runtime: a jump to a library leads back into them and leaves no frame."""

from __future__ import annotations

import pytest

from tests.e2e.modules import Part, build_modules
from tests.e2e.workshop import GOLD, LLD, MOLD, Workshop

# pool_release is folded with the program's own `operator delete`, to which the library's other forms jump
POOL = """
    #include <new>
    extern int total;
    int total;
    struct A { long x; };
    NOINLINE void pool_release(void *) noexcept { SAMPLE(); ++total; }
    DELETE_IS
    NOINLINE void leaf(int n) { total += n; }
    NOINLINE void drop(A *a, bool pooled) { leaf(9); if (pooled) pool_release(a); else FORM; }
    NOINLINE void drop_it(A *a) { leaf(8); FORM; }
    int main() { drop(new A, true); drop(new A, false); drop_it(new A); return total == 77; }
"""
OWN = "-DDELETE_IS=void operator delete(void *) noexcept { SAMPLE(); ++total; }"
FORMS = {
    "sized": "::operator delete(a, sizeof *a)",
    "array": "::operator delete[](a)",
    "sized array": "::operator delete[](a, sizeof *a)",
    "nothrow": "::operator delete(a, std::nothrow)",
}


@pytest.mark.parametrize("toolchain", [GOLD, LLD, MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("form", FORMS)
def test_an_operator_delete_that_the_library_jumps_to(workshop: Workshop, form: str) -> None:
    program = workshop.build_with_tables(POOL, [OWN, f"-DFORM={FORMS[form]}", "-fno-exceptions"])
    assert program.merged() == {frozenset({"_ZdlPv"}), frozenset({"_Z12pool_releasePv"})}
    program.check()


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_the_runtimes_own_operator_delete_comes_back_to_nothing(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        """
        #include <new>
        extern int total;
        int total;
        NOINLINE void one(int n) { SAMPLE(); total += n; }
        NOINLINE void two(int n) { SAMPLE(); total += n; }
        NOINLINE void drop(int *a) { two(3); ::operator delete(a, 4); }
        int main() { one(1); drop(new int); return total == 77; }
        """
    )
    assert program.check()["_Z3twoi"] == {"unique"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
@pytest.mark.parametrize("preloaded", [False, True])
def test_another_module_that_replaces_operator_delete(workshop: Workshop, preloaded: bool) -> None:
    pool = """
        #include <new>
        void lib_release(void *) noexcept;
        NOINLINE void lib_release(void *p) noexcept { SAMPLE(); *(volatile long *)p; }
        void operator delete(void *p) noexcept { SAMPLE(); *(volatile long *)p; }
    """
    program = """
        #include <new>
        void lib_release(void *) noexcept;
        extern int total;
        int total;
        NOINLINE void leaf(int n) { total += n; }
        NOINLINE void drop(long *a, bool pooled) {
            leaf(9);
            if (pooled) lib_release(a); else ::operator delete(a, sizeof *a);
        }
        int main() { drop(new long, true); drop(new long, false); return total == 77; }
    """
    # what is preloaded stands before the library in any case; the program needs it for lib_release
    environment = {"LD_PRELOAD": "libpool.so"} if preloaded else {}
    parts = [Part("libpool.so", pool), Part("program", program, ["libpool.so"])]
    seen = build_modules(workshop, parts, ["-fno-exceptions"], environment).check()
    names = {name for stack in seen for name in stack[0].truth | stack[1].truth}
    assert {"_Z11lib_releasePv", "_ZdlPv"} <= names
