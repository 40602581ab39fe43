"""Words of the names in debug information, and of symbols."""

from __future__ import annotations

from icf.folds.words import may_be_type, words_of_die, words_of_symbol


def test_words_that_the_symbol_must_have() -> None:
    assert words_of_die("ForEachField<List<int>, unsigned long>") == {"ForEachField", "List"}
    assert words_of_die("apply<main()::<lambda(const string&)> >") == {"apply", "main"}
    assert words_of_die("apply<List<int> (*)(Money)>") == {"apply", "List"}
    assert words_of_die("apply<ns::List::operator ns::Size()::<lambda(ns::Size)> >") == {"apply", "ns", "List"}
    assert words_of_die("apply<'a', '_', '\\'', '\\012', (<unnamed>::Color)1, List>") == {"apply", "List", "1"}
    assert words_of_die("operator Money") == frozenset()
    assert words_of_die("operator()<List>") == {"operator()", "List"}
    assert words_of_die("operator-><(& operator!)>") == {"operator->"}
    assert words_of_die("operator<<int>") == {"operator<"}  # or operator<<
    assert words_of_die("") == frozenset()
    assert words_of_die("a(b(c)d)e)f(g(h)") == {"a", "e", "f", "g"}
    assert words_of_die("(" * 100_000 + "a" + ")" * 100_000) == frozenset()
    assert words_of_die("f<3, -1, 2.5e+0, 1e-5f, 0x100000000000000000>") == {"f", "3"}
    assert words_of_die('f<Text<4>{"abc(1)"}>') == {"f", "Text"}
    assert words_of_die("f<Point{1, 0}>") == {"f", "Point"}
    assert words_of_die("~<constructor>") == frozenset()


def test_words_of_symbols() -> None:
    assert "operator<" in words_of_symbol("_ZNK4ListltERKS_")
    assert "operator()" in words_of_symbol("_ZNK12_GLOBAL__N_11fclIDs1EEvi")  # may be, as it is not demangled
    assert words_of_symbol("_ZN12_GLOBAL__N_11fILm3EEEii") >= {"anonymous", "namespace", "f", "3"}
    # LLVM does not demangle char16_t arguments
    assert words_of_symbol("_ZN12_GLOBAL__N_13c16ILDs121EEEii") >= {"_GLOBAL__N_1", "c16", "121"}
    assert words_of_symbol(f"_ZN{'1' * 10_000}fILDs121EEEii") >= {"121"}
    assert sum(map(len, words_of_symbol("_ZN" + "9999a" * 1_000_000))) < 20_000_000


def test_a_class_may_be_a_type_with_the_same_words_and_fundamental_types() -> None:
    assert may_be_type("Nut", "N12_GLOBAL__N_13NutE")
    assert may_be_type("Nut", "Z4workiE3Nut")  # of a function with an int
    assert may_be_type("Case<long unsigned int>", "N12_GLOBAL__N_14CaseImEE")
    assert may_be_type("Case<int, 3>", "N12_GLOBAL__N_14CaseIiLi3EEE")
    assert not may_be_type("Case<char>", "N12_GLOBAL__N_14CaseIsEE")
    assert not may_be_type("Case<int>", "N12_GLOBAL__N_14CaseIlEE")
    assert not may_be_type("Case<int, 3>", "N12_GLOBAL__N_14CaseIiLi4EEE")
    assert not may_be_type("Nut", "N12_GLOBAL__N_13OatE")
