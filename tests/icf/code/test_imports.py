"""Which functions of the runtime lead back into the program when they are jumped to."""

from __future__ import annotations

import pytest

from icf.code.imports import comes_back


@pytest.mark.parametrize("symbol", ["fmod", "roundf", "strtod", "__dynamic_cast", "_ZNSt13runtime_errorD1Ev", "sinl"])
def test_functions_that_call_nothing_of_the_program(symbol: str) -> None:
    assert not comes_back(symbol, lambda _: False)


@pytest.mark.parametrize("symbol", ["qsort", "bsearch", "pthread_once", "fflush", "_ZNSo5flushEv", "unheard_of"])
def test_functions_that_may_call_pointers_of_the_program(symbol: str) -> None:
    assert comes_back(symbol, lambda _: False)


def test_the_destructor_of_an_exception_goes_on_to_a_replaced_operator_delete() -> None:
    assert comes_back("_ZNSt13runtime_errorD0Ev", {"_ZdlPv"}.__contains__)
    assert not comes_back("_ZNSt9exceptionD2Ev", {"_ZdlPv"}.__contains__)
