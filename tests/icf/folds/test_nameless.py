"""DIEs without linkage name and the symbols they may belong to."""

from __future__ import annotations

from icf.folds.nameless import Kind, assign

A, B = frozenset({"a.cc"}), frozenset({"b.cc"})


def test_a_symbol_that_one_die_fits_has_found_it() -> None:
    assert assign([Kind("helper", A)], [("_ZL6helperv", "a.cc")]) == {0: {0}}


def test_a_die_of_another_file_does_not_fit() -> None:
    assert assign([Kind("helper", B)], [("_ZL6helperv", "a.cc")]) == {0: set()}


def test_any_file_fits_a_symbol_without_one() -> None:
    assert assign([Kind("helper", B)], [("_ZL6helperv", "")]) == {0: {0}}


def test_namesakes_are_told_apart_by_file() -> None:
    kinds, symbols = [Kind("helper", A), Kind("helper", B)], [("_ZL6helperv", "b.cc"), ("_ZL6helperv", "a.cc")]
    assert assign(kinds, symbols) == {0: {1}, 1: {0}}


def test_namesakes_of_one_file_stay_open() -> None:
    kinds = [Kind("hidden", A), Kind("hidden", A)]
    symbols = [("_ZN12_GLOBAL__N_16hiddenEv", "a.cc"), ("_ZN12_GLOBAL__N_13Box6hiddenEv", "a.cc")]
    assert assign(kinds, symbols) == {0: {0, 1}, 1: {0, 1}}


def test_the_only_die_of_one_symbol_is_left_for_no_other() -> None:
    # `apply` alone fits both symbols, but the other symbol has nothing else
    kinds = [Kind("apply", A), Kind("apply<Pear>", A)]
    symbols = [("_Z5applyI4PearEvv", "a.cc"), ("_ZL5applyv", "a.cc")]
    assert assign(kinds, symbols) == {0: {1}, 1: {0}}


def test_a_die_does_not_say_which_lambda_of_its_function_it_means() -> None:
    kinds = [Kind("each<f()::<lambda(int)> >", A), Kind("each", A)]
    symbols = [("_ZL4eachIZ1fvEUliE_EvT_", "a.cc"), ("_ZL4eachIZ1fvEUliE0_EvT_", "a.cc")]
    assert assign(kinds, symbols) == {0: {0, 1}, 1: {0, 1}}


def test_a_die_has_types_of_parameters_as_the_source_has_them() -> None:
    kinds = [Kind("each<f()::<lambda(std::size_t)> >", A), Kind("each<f()::<lambda(long unsigned int)> >", A)]
    assert assign(kinds, [("_ZL4eachIZ1fvEUlmE_EvT_", "a.cc")]) == {0: {0, 1}}


def test_a_method_has_the_class_of_its_die() -> None:
    symbols = [("_ZN12_GLOBAL__N_13Nut5crackEi", "a.cc"), ("_ZN12_GLOBAL__N_13Oat5crackEi", "a.cc")]
    kinds = [Kind("crack", A), Kind("crack", A)]
    assert assign(kinds, symbols) == {0: {0, 1}, 1: {0, 1}}
    assert assign([Kind("crack", A, "Oat"), Kind("crack", A, "Nut")], symbols) == {0: {1}, 1: {0}}


def test_a_demangler_writes_the_type_of_a_number_behind_it() -> None:
    symbols = [("_ZN12_GLOBAL__N_15roundILj1EEEvv", "a.cc"), ("_ZN12_GLOBAL__N_15roundILj10EEEvv", "a.cc")]
    assert assign([Kind("round<1>", A), Kind("round<10>", A)], symbols) == {0: {0}, 1: {1}}
    assert assign([Kind("round<10>", A)], symbols) == {0: set(), 1: {0}}


def test_some_pairs_cannot_belong_together() -> None:
    symbols = [("_ZN3Out3runEi", "a.cc"), ("_ZN12_GLOBAL__N_16Hidden3runEi", "a.cc")]
    assert assign([Kind("run", A)], symbols, lambda symbol, _die: symbol == 1) == {0: set(), 1: {0}}


def test_decisions_lead_to_further_ones() -> None:
    kinds = [Kind("f", A), Kind("f<X>", A), Kind("f<X, Y>", A)]
    symbols = [("_Z1fI1X1YEvv", "a.cc"), ("_Z1fI1XEvv", "a.cc"), ("_ZL1fv", "a.cc")]
    assert assign(kinds, symbols) == {0: {2}, 1: {1}, 2: {0}}


def test_a_symbol_whose_die_is_missing_has_none() -> None:
    assert assign([Kind("pears", A)], [("_ZL6applesv", "a.cc"), ("_ZL5pearsv", "a.cc")]) == {0: set(), 1: {0}}


def test_the_one_die_of_several_symbols_stays_open() -> None:
    # the other's address is lost; whose is left cannot be told
    symbols = [("_ZN3BoxI5AppleE4growEi", ""), ("_ZN3BoxI4PearE4growEi", "")]
    assert assign([Kind("grow", A)], symbols) == {0: {0}, 1: {0}}
    assert assign([Kind("grow", A), Kind("grow<Fig>", A)], [*symbols, ("_Z4growI3FigEvi", "")]) == {
        0: {0},
        1: {0},
        2: {1},
    }


def test_a_die_whose_symbol_is_missing_may_fit_another() -> None:
    # gold leaves symbols of folded local functions out: both DIEs may be the one's that is left
    assert assign([Kind("helper", A), Kind("helper", A)], [("_ZL6helperv", "a.cc")]) == {0: {0, 1}}


def test_a_kind_of_two_dies_leaves_no_symbol_one_die() -> None:
    assert assign([Kind("helper", A, die_count=2)], [("_ZL6helperv", "a.cc")]) == {0: {0}}
    kinds = [Kind("f", A, die_count=2), Kind("f<X>", A)]
    assert assign(kinds, [("_ZL1fI1XEvv", "a.cc"), ("_ZL1fv", "a.cc")]) == {0: {1}, 1: {0}}


def test_nothing_to_assign() -> None:
    assert assign([], []) == {}
    assert assign([Kind("f", A)], []) == {}
    assert assign([], [("f", "a.cc")]) == {0: set()}
