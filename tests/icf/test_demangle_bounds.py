"""Made-up names that stand for gigabytes, or are as deep as they are long, end nothing; real ones are demangled."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from array import array

import pycxxfilt
import pytest

from icf._mangled import Measure
from icf._mangled_rust import RustMeasure
from icf.demangle import demangle

LONG = 16_000
TEXT_LIMIT = 1 << 20


def reference(number: int) -> str:
    """`S_`, `S0_`, `SA_`: the part of a number."""
    digits, text = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", ""
    if number == 0:
        return "S_"
    number -= 1
    while number or not text:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return f"S{text}_"


def doubling(count: int) -> str:
    """`A<int>`, `A<A<int>, A<int>>` and so on, each of two of the one before."""
    return "_Z1f1AIiE" + "".join(f"S_I{2 * reference(idx)}E" for idx in range(1, count + 1))


DEEP = {
    "pointers": "_Z1f" + "P" * LONG + "i",
    "functions": "_Z1f" + "PFv" * (LONG // 4) + "i" + "E" * (LONG // 4),
    "templates": "_Z1fI" + "1AI" * (LONG // 4) + "i" + "E" * (LONG // 4) + "Evv",
    "packs": "_Z1fI" + "J" * (LONG // 2) + "i" + "E" * (LONG // 2) + "Evv",
    "expressions": "_Z1fIX" + "nt" * (LONG // 2) + "Lb1EEEvv",
    "arrays": "_Z1f" + "A_" * (LONG // 2) + "i",
    "references": "_Z1fPi" + "".join(f"P{reference(idx)}" for idx in range(2500)),
    "rust": "_RINvC1a1b" + "R" * LONG + "uE",
    "swift": "$sSi" + "m" * LONG + "D",
    "swift options": "$sSi" + "Sg" * (LONG // 2) + "D",
}
LARGE = {
    "doubled": doubling(60),
    "doubled a little": doubling(16),
    "quadrupled": "_Z1f1AIiE" + "".join(f"S_I{4 * reference(idx)}E" for idx in range(1, 40)),
    "packs in packs": "_Z1fIJ" + "i" * 32 + "EEv" + "Dp1AIT_" * 12 + "T_" + "E" * 12,
    "by conversion": f"_ZN1A{'cv'}{'1BI' * 8}{'T_' * 8}{'E' * 8}I{doubling(60)[4:]}EEv",
    "rust": "_RINvC1a1b" + "TuuE" + "".join(f"TB{at}_B{at}_E" for at in "9abcdefghijklmnopqrstuvwxyz") + "E",
    "swift": "$s" + "SS_SSt" + "AabcdefghijklmnopA_t" * 10 + "D",
}
REAL = [
    "_ZNSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS5_EE17_M_realloc_insertIJRKS5_EEEvN9__gnu_cxx17__nor"
    "mal_iteratorIPS5_S7_EEDpOT_",
    "_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_S5_ESt10_Select1stIS8_ESt4lessIS5_ESaIS8_E"
    "E22_M_emplace_hint_uniqueIJRKSt21piecewise_construct_tSt5tupleIJOS5_EESJ_IJEEEEESt17_Rb_tree_iteratorIS8_ESt23_Rb_tree_cons"
    "t_iteratorIS8_EDpOT_",
    "_ZZN4llvm12function_refIFvPNS_5ValueEEEC1IZNS_9foo_barIJS1_iEEEvT_DpT0_EUlS2_E_EEOT_PNSt9enable_ifIXntsr3std7is_sameINS_11"
    "remove_refIS9_E4typeES4_EE5valueEvE4typeEENKUlvE_clEv",
    "_ZN5boost10conversionI3FoocvT_INS_6spirit2qi4ruleIN9__gnu_cxx17__normal_iteratorIPKcNSt7__cxx1112basic_stringIcSt11char_tra"
    "itsIcESaIcEEEEEvvvvEEEEv",
    "_RNvXs0_NtNtNtCs8NwYtU1Mohg_4core4iter8adapters3mapINtB5_3MapINtNtB7_5chain5ChainINtNtNtBb_5slice4iter4IterhEB15_ENvNtCsiFj_"
    "3foo3barENtNtNtB9_6traits8iterator8Iterator9size_hint",
]


def in_small_stack(name: str) -> str:
    """What a thread gets that has 128 KiB of stack, as musl gives them."""
    found: list[str] = []
    usual_bytes = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append(demangle(name)))
        thread.start()
    finally:
        threading.stack_size(usual_bytes)
    thread.join(30)
    return found[0]


@pytest.mark.parametrize("kind", DEEP)
def test_depth_takes_no_stack_of_the_caller(kind: str) -> None:
    assert len(in_small_stack(DEEP[kind])) > 3


@pytest.mark.parametrize("kind", LARGE)
def test_names_that_stand_for_much_are_shown_as_they_are(kind: str) -> None:
    assert demangle(LARGE[kind]) == LARGE[kind] or len(demangle(LARGE[kind])) < TEXT_LIMIT
    assert kind == "doubled a little" or demangle(LARGE[kind]) == LARGE[kind]


def test_no_abort_under_a_memory_limit() -> None:
    names = [*DEEP.values(), *LARGE.values(), *REAL]
    code = f"""
import resource
from icf.demangle import demangle
demangle("_Z1fi"), demangle("_RNvC1a1b"), demangle("$sSiD")
taken = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (taken + (24 << 20),) * 2)
print(sum(demangle(name) != name for name in {names!r}))
"""
    done = subprocess.run([sys.executable], input=code, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-300:]
    assert int(done.stdout) >= 1


@pytest.mark.parametrize("name", REAL)
def test_real_names_read_as_before(name: str) -> None:
    try:
        text = pycxxfilt.demangle(name) or name
    except ValueError:
        text = name
    assert demangle(name) == text


def measured(name: str) -> tuple[int, int]:
    """Size and what is wrong, or 0."""
    text, room = name.encode(), [array("Q", bytes(8 * len(name) + 8)) for _ in range(2)]
    found = RustMeasure(text, room[0], 48) if name.startswith("_R") else Measure(text, room[0], room[1], 48)
    return found.size, found.bad


def test_no_text_is_longer_than_measured() -> None:
    rng = random.Random(5)
    letters = "PRKSTIJEDpNZ0123456789_1A1Biv"
    pieces = "S_ S0_ S1_ T_ T0_ Dp 1A I E J St P F v Li1E B0_ B4_ Cv cv".split()
    compared = 0
    for _ in range(4000):
        name = rng.choice([each for each in REAL if len(each) < 400])
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            at = rng.randrange(2, len(name))
            match rng.randrange(4):
                case 0:
                    name = name[:at] + rng.choice(letters) + name[at + 1 :]
                case 1:
                    name = name[:at] + rng.choice(pieces) + name[at:]
                case 2:
                    name = name[:at] + name[at + rng.randrange(1, 4) :]
                case _:
                    end = at + rng.randrange(1, 30)
                    name = name[:end] + name[at:end] * rng.choice((1, 2)) + name[end:]
        size_bytes, bad = measured(name)
        if bad or size_bytes > TEXT_LIMIT:
            continue
        try:
            text = pycxxfilt.demangle(name) or ""
        except ValueError:
            continue
        assert len(text) <= size_bytes, name
        compared += 1
    assert compared > 300
