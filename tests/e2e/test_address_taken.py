"""Which members a pointer may lead to, and what an indirect call then says of its callee: one behaviour a test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import AARCH64, ALL, GCC_MOLD, GOLD, LLD, LLD_ALONE, Workshop

GCC_LLD = replace(LLD, compiler="gcc")
EXACT = (LLD, GCC_LLD)  # --emit-relocs says whose address it is
every_toolchain = pytest.mark.parametrize("toolchain", [*ALL, AARCH64], ids=str, indirect=True)
exact_toolchains = pytest.mark.parametrize("toolchain", [*EXACT, AARCH64], ids=str, indirect=True)

FRUIT = """
    int total;
    NOINLINE void apples(int n) { SAMPLE(); total += n; }
    NOINLINE void pears(int n) { SAMPLE(); total += n; }
    NOINLINE void plums(int n) { SAMPLE(); total += n; }
"""
FRUITS = ("_Z6applesi", "_Z5pearsi", "_Z5plumsi")
POINTER_IN_DATA = (
    FRUIT + "void (*chosen)(int) = pears; int main() { apples(1); chosen(2); plums(3); return total != 6; }"
)
POINTER_IN_CODE = (
    FRUIT
    + """
    void (*volatile chosen)(int);
    int main() { chosen = pears; apples(1); chosen(2); plums(3); return total != 6; }
"""
)
BOTH = pytest.mark.parametrize("source", [POINTER_IN_DATA, POINTER_IN_CODE], ids=["data", "code"])


def marks(image: Path) -> dict[str, set[str]]:
    """What is known of the functions in merged bodies: their marks, or "unknown"."""
    known = {}
    for entry in json.loads(icf("dump", "--folds", "--json", image))["classes"]:
        for member in entry["members"] if len(entry["members"]) > 1 else ():
            found = {"address-taken", "virtual"} & set(member["flags"])
            known[member["linkage_name"]] = found if "address-taken-known" in entry["flags"] else {"unknown"}
    return known


@every_toolchain
@BOTH
def test_a_pointer_leads_to_no_function_whose_address_is_not_taken(workshop: Workshop, source: str) -> None:
    program = workshop.build_with_tables(source)
    verdicts = program.check()
    if workshop.toolchain in (*EXACT, AARCH64):
        assert [verdicts[name] for name in FRUITS] == 3 * [{"unique"}]
        assert [marks(program.folded)[name] for name in FRUITS] == [set(), {"address-taken"}, set()]
    else:
        assert [verdicts[name] for name in FRUITS] == [{"unique"}, {"ambiguous"}, {"unique"}]


@pytest.mark.parametrize("flags", [("-fno-pie", "-no-pie"), ("-fPIE", "-pie"), ("-fno-pie", "-static")], ids=" ".join)
@BOTH
def test_kinds_of_executables(workshop: Workshop, source: str, flags: tuple[str, str]) -> None:
    program = workshop.build_with_tables(source, flags[:1], flags[1:])
    expected = {"unique"} if workshop.toolchain in EXACT else {"ambiguous"}
    assert program.check()["_Z5pearsi"] == expected


@pytest.mark.parametrize("toolchain", [GOLD, GCC_MOLD, LLD_ALONE, AARCH64], ids=str, indirect=True)
@BOTH
def test_the_objects_say_whose_address_is_taken(workshop: Workshop, source: str) -> None:
    program = workshop.build(source)
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    verdicts = program.check()
    assert [verdicts[name] for name in FRUITS] == 3 * [{"unique"}]
    assert [marks(program.folded)[name] for name in FRUITS] == [set(), {"address-taken"}, set()]


@pytest.mark.parametrize("toolchain", [*ALL, LLD_ALONE], ids=str, indirect=True)
def test_the_objects_say_what_folded_code_and_data_took(workshop: Workshop) -> None:
    program = workshop.build(
        FRUIT
        + """
        struct Stall { virtual void open(int n) = 0; };
        template <class T> struct Of : Stall { void open(int n) override; };
        template <class T> NOINLINE void Of<T>::open(int n) { SAMPLE(); total += n; }
        NOINLINE void shut(Stall *, int n) { SAMPLE(); total += n; }
        void (*volatile chosen)(int);
        NOINLINE void choose_apples() { chosen = apples; ++total; }
        NOINLINE void choose_pears() { chosen = pears; ++total; }
        Of<int> some; Of<long> others;
        Stall *volatile stalls[] = {&some, &others};
        int main() {
            choose_apples(); chosen(1); choose_pears(); chosen(2); plums(3);
            for (auto stall : stalls) stall->open(4);
            shut(stalls[0], 5);
            return 0;
        }
        """
    )
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    found = marks(program.folded)
    assert [found[name] for name in FRUITS] == [{"address-taken"}, {"address-taken"}, set()]
    assert found["_ZN2OfIiE4openEi"] == found["_ZN2OfIlE4openEi"] == {"virtual"}
    assert not found.get("_Z4shutP5Stalli")  # mold does not fold it
    assert program.check()["_Z5plumsi"] == {"unique"}
    assert program.check()["_Z4shutP5Stalli"] <= {"unique", "unmerged"}


def test_objects_that_are_not_all_there_say_nothing(workshop: Workshop) -> None:
    program = workshop.build({"main.cpp": POINTER_IN_CODE, "other.cpp": "int other() { return 1; }"})
    program.add_tables("--objects", workshop.folder / "main.o", workshop.folder / "sampler.o")
    if workshop.toolchain not in EXACT:
        assert marks(program.folded)["_Z6applesi"] == {"address-taken"}
    program.check()


@pytest.mark.parametrize(
    "toolchain", [each for each in (*ALL, LLD_ALONE) if each.linker != "mold"], ids=str, indirect=True
)
def test_a_missing_object_of_data_alone_is_noticed(workshop: Workshop) -> None:
    program = workshop.build(
        {
            "main.cpp": FRUIT
            + """
            extern void (*volatile later)(int);
            void (*volatile chosen)(int);
            int main() { chosen = pears; chosen(1); later(2); plums(3); return total != 6; }
            """,
            "data.cpp": "void apples(int); extern void (*volatile later)(int); void (*volatile later)(int) = apples;",
        }
    )
    program.add_tables("--objects", workshop.folder / "main.o", workshop.folder / "sampler.o")
    program.check()


@every_toolchain
def test_members_that_only_calls_reach_are_not_marked(workshop: Workshop) -> None:
    program = workshop.build_with_tables(FRUIT + "int main() { apples(1); pears(2); plums(3); return total != 6; }")
    assert [marks(program.folded)[name] for name in FRUITS] == 3 * [set()]
    assert [program.check()[name] for name in FRUITS] == 3 * [{"unique"}]


@exact_toolchains
def test_the_callee_of_a_pointer_may_jump_on(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        FRUIT
        + """
        NOINLINE void pass(int n) { ++total; plums(n); }
        void (*chosen)(int) = pass;
        void (*other)(int) = apples;
        int main() { chosen(2); other(3); pears(1); return total != 7; }
        """
    )
    verdicts = program.check()
    assert verdicts["_Z5plumsi"] == verdicts["_Z6applesi"] == {"narrowed"}  # it cannot be pears


@exact_toolchains
def test_a_virtual_call_reaches_virtual_members_only(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        struct Stall { virtual void open(int n); virtual ~Stall() {} };
        NOINLINE void Stall::open(int n) { SAMPLE(); total += n; }
        NOINLINE void shop(Stall *, int n) { SAMPLE(); total += n; }
        Stall *volatile stall = new Stall;
        int main() { shop(stall, 2); stall->open(1); return total != 3; }
    """)
    assert program.check()["_ZN5Stall4openEi"] == program.check()["_Z4shopP5Stalli"] == {"unique"}
    assert marks(program.folded)["_ZN5Stall4openEi"] == {"virtual"}
    assert marks(program.folded)["_Z4shopP5Stalli"] == set()


@every_toolchain
def test_thunks_lead_to_virtual_members(workshop: Workshop) -> None:
    """gcc puts a thunk beside its function, to which it jumps by two bytes that no table has."""
    program = workshop.build_with_tables("""
        int total;
        struct Stall { virtual void open(int n) = 0; int cents = 0; };
        struct Cart { virtual void close(int n) = 0; int wheels = 0; };
        struct AppleCart : Stall, Cart { void open(int n) override; void close(int n) override; };
        struct PearCart : Stall, Cart { void open(int n) override; void close(int n) override; };
        NOINLINE void AppleCart::open(int n) { SAMPLE(); total += n; }
        NOINLINE void PearCart::open(int n) { SAMPLE(); total += n; }
        NOINLINE void AppleCart::close(int n) { SAMPLE(); total += n + cents; }
        NOINLINE void PearCart::close(int n) { SAMPLE(); total += n + cents; }
        Cart *volatile carts[] = {new AppleCart, new PearCart};
        Stall *volatile stalls[] = {new AppleCart, new PearCart};
        int main() {
            for (Cart *cart : carts) cart->close(1);
            for (Stall *stall : stalls) stall->open(1);
            return total != 4;
        }
    """)
    verdicts = program.check()
    for name in ("_ZN9AppleCart5closeEi", "_ZN8PearCart5closeEi", "_ZN9AppleCart4openEi", "_ZN8PearCart4openEi"):
        assert verdicts[name] == {"ambiguous"}


@every_toolchain
def test_folded_code_may_take_the_address_of_a_folded_function(workshop: Workshop) -> None:
    """The relocation in what was kept names one function; its folded copies took the addresses of the others."""
    program = workshop.build_with_tables(
        FRUIT
        + """
        void (*volatile chosen)(int);
        NOINLINE void choose_apples() { chosen = apples; ++total; }
        NOINLINE void choose_pears() { chosen = pears; ++total; }
        int main() { choose_apples(); chosen(1); choose_pears(); chosen(2); plums(3); return total != 8; }
        """
    )
    verdicts = program.check()
    assert verdicts["_Z6applesi"] == verdicts["_Z5pearsi"] == {"ambiguous"}


@every_toolchain
def test_folded_data_may_hold_the_address_of_a_folded_function(workshop: Workshop) -> None:
    """lld folds constants, too."""
    program = workshop.build_with_tables(
        FRUIT
        + """
        using Function = void (*)(int);
        NOINLINE void call(const Function *functions, int n) { functions[n & 1](n); ++total; }
        NOINLINE void some() { const Function list[] = {apples, apples, apples, apples}; call(list, 1); ++total; }
        NOINLINE void others() { const Function list[] = {pears, pears, pears, pears}; call(list, 2); ++total; }
        int main() { some(); others(); plums(3); return total != 10; }
        """,
        ["-fPIE", "-fdata-sections"],
    )
    program.check()


@every_toolchain
def test_what_is_exported_may_be_called_from_anywhere(workshop: Workshop) -> None:
    program = workshop.build(
        FRUIT + "int main() { apples(1); pears(2); plums(3); return total != 6; }", ["-fPIE"], ["-Wl,--export-dynamic"]
    )
    program.add_tables(*workshop.pass_options(program))
    if "-static" not in workshop.toolchain.link_flags:
        assert [marks(program.folded)[name] for name in FRUITS] == 3 * [{"address-taken"}]
    assert [program.check()[name] for name in FRUITS] == 3 * [{"unique"}]


@pytest.mark.parametrize(
    "toolchain", [GOLD, *EXACT, replace(AARCH64, link_flags=("-Wl,--emit-relocs",))], ids=str, indirect=True
)
def test_shared_objects(workshop: Workshop) -> None:
    hidden = FRUIT.replace("NOINLINE", 'NOINLINE __attribute__((visibility("hidden")))')
    source = f"""{hidden}
        static void (*chosen)(int) = pears;
        void choose() {{ chosen = nullptr; }}
        int market() {{ apples(1); chosen(2); plums(3); return total; }}
    """
    objects = workshop.compile(source, "-fPIC")
    image, report = workshop.link("libmarket.so", objects, "all", ["-shared", "-nostdlib"])
    icf("pass", image)
    found = marks(image)
    if workshop.toolchain == GOLD:
        assert [found[name] for name in FRUITS] == 3 * [{"address-taken"}]
    else:
        assert [found[name] for name in FRUITS] == [set(), {"address-taken"}, set()]
