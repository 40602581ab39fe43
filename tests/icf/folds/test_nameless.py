"""DIEs without linkage name and the symbols they may belong to."""

from __future__ import annotations

from icf.folds.nameless import assign, identifiers

A, B = frozenset({"a.cc"}), frozenset({"b.cc"})


def test_identifiers_are_words_that_the_symbol_must_have() -> None:
    assert identifiers("ForEachField<List<int>, unsigned long>") == {"ForEachField", "List"}
    assert identifiers("apply<main()::<lambda(const string&)> >") == {"apply", "main"}
    assert identifiers("apply<List<int> (*)(Money)>") == {"apply", "List"}
    assert identifiers("apply<ns::List::operator ns::Size()::<lambda(ns::Size)> >") == {"apply", "ns", "List"}
    assert identifiers("apply<'a', '_', '\\'', '\\012', (<unnamed>::Color)1, List>") == {"apply", "List"}
    assert identifiers("operator()") == identifiers("operator Money") == frozenset()
    assert identifiers("") == frozenset()


def test_a_symbol_that_one_die_fits_has_found_it() -> None:
    assert assign([("helper", A)], [("_ZL6helperv", "a.cc")]) == {0: {0}}


def test_a_die_of_another_file_does_not_fit() -> None:
    assert assign([("helper", B)], [("_ZL6helperv", "a.cc")]) == {0: set()}


def test_any_file_fits_a_symbol_without_one() -> None:
    assert assign([("helper", B)], [("_ZL6helperv", "")]) == {0: {0}}


def test_namesakes_are_told_apart_by_file() -> None:
    groups, symbols = [("helper", A), ("helper", B)], [("_ZL6helperv", "b.cc"), ("_ZL6helperv", "a.cc")]
    assert assign(groups, symbols) == {0: {1}, 1: {0}}


def test_namesakes_of_one_file_stay_open() -> None:
    groups = [("hidden", A), ("hidden", A)]
    symbols = [("_ZN12_GLOBAL__N_16hiddenEv", "a.cc"), ("_ZN12_GLOBAL__N_13Box6hiddenEv", "a.cc")]
    assert assign(groups, symbols) == {0: {0, 1}, 1: {0, 1}}


def test_the_only_die_of_one_symbol_is_left_for_no_other() -> None:
    # `apply` alone fits both symbols, but the other symbol has nothing else
    groups = [("apply", A), ("apply<Pear>", A)]
    symbols = [("_Z5applyI4PearEvv", "a.cc"), ("_ZL5applyv", "a.cc")]
    assert assign(groups, symbols) == {0: {1}, 1: {0}}


def test_a_die_does_not_say_which_lambda_of_its_function_it_means() -> None:
    groups = [("each<f()::<lambda(int)> >", A), ("each", A)]
    symbols = [("_ZL4eachIZ1fvEUliE_EvT_", "a.cc"), ("_ZL4eachIZ1fvEUliE0_EvT_", "a.cc")]
    assert assign(groups, symbols) == {0: {0, 1}, 1: {0, 1}}


def test_a_die_has_types_of_parameters_as_the_source_has_them() -> None:
    groups = [("each<f()::<lambda(std::size_t)> >", A), ("each<f()::<lambda(long unsigned int)> >", A)]
    assert assign(groups, [("_ZL4eachIZ1fvEUlmE_EvT_", "a.cc")]) == {0: {0, 1}}


def test_a_method_has_the_class_of_its_die() -> None:
    symbols = [("_ZN12_GLOBAL__N_13Nut5crackEi", "a.cc"), ("_ZN12_GLOBAL__N_13Oat5crackEi", "a.cc")]
    groups = [("crack", A), ("crack", A)]
    assert assign(groups, symbols) == {0: {0, 1}, 1: {0, 1}}
    assert assign(groups, symbols, classes=["Oat", "Nut"]) == {0: {1}, 1: {0}}


def test_some_pairs_cannot_belong_together() -> None:
    symbols = [("_ZN3Out3runEi", "a.cc"), ("_ZN12_GLOBAL__N_16Hidden3runEi", "a.cc")]
    assert assign([("run", A)], symbols, lambda symbol, _die: symbol == 1) == {0: set(), 1: {0}}


def test_decisions_lead_to_further_ones() -> None:
    groups = [("f", A), ("f<X>", A), ("f<X, Y>", A)]
    symbols = [("_Z1fI1X1YEvv", "a.cc"), ("_Z1fI1XEvv", "a.cc"), ("_ZL1fv", "a.cc")]
    assert assign(groups, symbols) == {0: {2}, 1: {1}, 2: {0}}


def test_a_symbol_whose_die_is_missing_has_none() -> None:
    assert assign([("pears", A)], [("_ZL6applesv", "a.cc"), ("_ZL5pearsv", "a.cc")]) == {0: set(), 1: {0}}


def test_the_one_die_of_several_symbols_stays_open() -> None:
    # the other's address is lost; whose is left cannot be told
    symbols = [("_ZN3BoxI5AppleE4growEi", ""), ("_ZN3BoxI4PearE4growEi", "")]
    assert assign([("grow", A)], symbols) == {0: {0}, 1: {0}}
    assert assign([("grow", A), ("grow<Fig>", A)], [*symbols, ("_Z4growI3FigEvi", "")]) == {0: {0}, 1: {0}, 2: {1}}


def test_a_die_whose_symbol_is_missing_may_fit_another() -> None:
    # gold leaves symbols of folded local functions out: both DIEs may be the one's that is left
    assert assign([("helper", A), ("helper", A)], [("_ZL6helperv", "a.cc")]) == {0: {0, 1}}


def test_nothing_to_assign() -> None:
    assert assign([], []) == {}
    assert assign([("f", A)], []) == {}
    assert assign([], [("f", "a.cc")]) == {0: set()}
