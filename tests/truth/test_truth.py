"""The generated program, linked twice and sampled: no name may be wrong, and every direct call must be named."""

from __future__ import annotations

import struct
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.truth.align import Alignment, align
from tests.truth.builds import build
from tests.truth.damaged.__main__ import damage_all
from tests.truth.damaged.__main__ import measure as ask
from tests.truth.damaged.damages import lost_at_entry
from tests.truth.folding import match_images, read_folds
from tests.truth.kinds import Kind, add_tables
from tests.truth.measure import Measurement, measure, sample_both
from tests.truth.names import identifier, is_same
from tests.truth.programs import (
    INNER,
    LOCALS,
    SMALL,
    SMALL_FORMS,
    SMALL_STATICS,
    SMALL_VIRTUAL,
    Program,
    Unavailable,
)
from tests.truth.reached import DIRECT, POINTER, TAIL_VIRTUAL, VIRTUAL
from tests.truth.record import Sampler, Sampling, build_sampler
from tests.truth.records import KINDS, is_one_function, judge_records

REPORTS = {
    "gold": "ld.gold: ICF folding section '.text.b' in file 'x.o' into '.text.a' in file 'lib y.a(y.o)'\n",
    "lld": "selected section lib y.a(y.o):(.text.a)\n  removing identical section x.o:(.text.b)\n",
}


@pytest.mark.parametrize("linker", sorted(REPORTS))
def test_folds_are_read_from_the_linkers_report(linker: str) -> None:
    assert list(read_folds(REPORTS[linker])) == [(("lib y.a(y.o)", ".text.a"), ("x.o", ".text.b"))]


@pytest.mark.parametrize(
    ("name", "true_name", "expected"),
    [
        ("_ZN1AC2Ev", "_ZN1AC1Ev", True),
        ("_Z1fv.part.0", "_Z1fv", True),
        ("helper", "_ZN12_GLOBAL__N_16helperEj", True),
        ("run", "_ZN3BoxI3FooIiEE3runEv.constprop.0", True),
        ("flat<const Token>", "_Z4flatIK5TokenvEvPT_", True),
        ("flat<const Token>", "_Z4flatI5TokenvEvPT_", False),
        ("flat<const Token*>", "_Z4flatIPK5TokenEvT_", True),
        ("flat<const Token*>", "_Z4flatIKP5TokenEvT_", False),
        ("flat<Foo<int>, int>", "_Z4flatI3FooIiEiEvPT_", True),
        ("flat<ns::Foo>", "_ZN2nsL4flatINS_3FooEEEvPT_", True),
        ("flat<ns::Foo>", "_ZN2nsL4flatINS_3BarEEEvPT_", False),
        ("flat<std::vector<int> >", "_ZL4flatISt6vectorIiSaIiEEEvPT_", True),  # the allocator is defaulted
        ("flat<std::vector<char> >", "_ZL4flatISt6vectorIiSaIiEEEvPT_", False),
        ("flat<std::vector<int>*>", "_ZL4flatISt6vectorIiSaIiEEEvPT_", False),
        ("flat<>", "_Z4flatIiEvv", True),
        ("flat<const fold(const Foo*)::Local&>", "_Z4flatIRKZ4foldPK3FooE5LocalEvv", True),
        ("flat<const fold(const Foo*)::Other&>", "_Z4flatIRKZ4foldPK3FooE5LocalEvv", False),
        ("flat<Foo<(<unnamed>::Bar)3> >", "_Z4flatI3FooILN12_GLOBAL__N_13BarE3EEEvv", True),
        ("flat<Foo<(<unnamed>::Bar)2> >", "_Z4flatI3FooILN12_GLOBAL__N_13BarE3EEEvv", False),
        ("flat<12, int>", "_Z4flatILm12EiEvv", True),
        ("flat<13, int>", "_Z4flatILm12EiEvv", False),
        ("make<Foo>", "_Z4makeI3FooEDTcvT_fp_ES1_", True),
        ("make<Bar>", "_Z4makeI3FooEDTcvT_fp_ES1_", False),
        ("forward<fold(int)::<lambda(int)> >", "_ZSt7forwardIZ4foldiEUliE_EOT_RNSt16remove_referenceIS1_E4typeE", True),
        (
            "forward<next(int)::<lambda(int)> >",
            "_ZSt7forwardIZ4foldiEUliE_EOT_RNSt16remove_referenceIS1_E4typeE",
            False,
        ),
        ("void flat<Foo<Bar<int>>>() (.constprop.0)", "_Z4flatI3FooI3BarIiEEEvv.constprop.0.cold", True),
        ("flat<long long unsigned int, short int>", "_Z4flatIysEvv", True),
        ("flat<long unsigned int>", "_Z4flatIyEvv", False),
        ("use<ns::Box::run(Count)::<lambda(char)> >", "_Z3useIZN2ns3Box3runEiEUlcE_EvT_", True),
        ("use<ns::Box::run(Count)::<lambda(char)> >", "_Z3useIZN2ns5Crate3runEiEUlcE_EvT_", False),
        ("operator->", "_ZNK3PtrI3FooEptEv", True),
        ("ns::flat", "_ZN3old4flatEv", False),
        ("read", "_ZZL5weighiEN5Scale4readEi", True),  # weigh(int)::Scale::read(int)
        ("weigh", "_ZZL5weighiEN5Scale4readEi", False),
        ("operator()", "_ZZL5weighiENKUliE_clEi", True),
        ("operator()", "_ZL5weighi", False),
        ("_Z1fv", "_Z1gv", False),
        ("f", "_Z1gv", False),
    ],
)
def test_names_of_one_function_are_the_same(name: str, true_name: str, expected: bool) -> None:
    assert is_same(name, [true_name]) is expected


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("truth")


def test_both_links_give_the_same_samples(cache: Path, tmp_path: Path) -> None:
    try:
        built = build(SMALL, "clang", "lldr", cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    sampler = Sampler(build_sampler(cache))
    folding = match_images(built.unfolded, built.folded, built.report.read_text())
    assert len(folding.groups()) > 20
    sampling = Sampling(gap=5, steps=100)
    recordings = [
        sampler.record(image, [], tmp_path / image.name, sampling) for image in (built.unfolded, built.folded)
    ]
    alignment = Alignment()
    align(folding, recordings[0], recordings[1], alignment)
    assert alignment.counts["aligned"] == alignment.counts["samples"] > 100
    assert any(frame and frame.candidates for stack in alignment.stacks for frame in stack.frames)


QUICK = [  # further ones are in tests/e2e; all are measured by `make accuracy`
    Kind("clang", "lldr", ("image",)),
    Kind("clang", "lld", ("image", "link")),
    Kind("gcc", "gold", ("image", "objects")),
    Kind("clang-aarch64", "lld", ("objects",)),
]


def measure_kind(program: Program, kind: Kind, cache: Path, work: Path) -> Measurement:
    """Build a program in one way and measure it; skips the test if that cannot be done here."""
    try:
        built = build(program, kind.compiler, kind.linker, cache)
        return measure(built, kind, list(icf_command()), work, cache, with_vptr=True, peers=False)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: f"{kind.compiler}-{kind.linker}")
def test_no_name_is_wrong_and_direct_calls_are_named(kind: Kind, cache: Path, tmp_path: Path) -> None:
    measured = measure_kind(SMALL, kind, cache, tmp_path)
    for result in measured.results:
        assert result.score is not None, result.problem
        score = result.score
        bad = [finding for finding, _ in score.findings.most_common(5)]
        assert not result.misses_bar, (result.evidence, bad)
        assert score.other["contradicted"] == 0, (result.evidence, bad)
        assert sum(score.direct.values()) > 300
        assert sum(result.walks.direct.values()) > 1000 and result.walks.share(result.walks.direct, "right") > 99


@pytest.mark.parametrize("linker", ["gold", "lld"])
def test_local_functions_of_gcc_get_no_wrong_name(linker: str, cache: Path, tmp_path: Path) -> None:
    kind = Kind("gcc", linker, ("image",))
    measured = measure_kind(LOCALS, kind, cache, tmp_path)
    (result,) = measured.results
    assert result.score is not None and result.with_vptr is not None, result.problem
    for score in (result.score, result.with_vptr):
        bad = [finding for finding, _ in score.findings.most_common(5)]
        assert score.merged["wrong"] == score.other["unmerged, wrong"] == 0, bad
        assert score.share(score.known, "right") > 30, bad  # which of several namesakes it is may stay open


@pytest.mark.parametrize(("compiler", "linker"), [("gcc", "gold"), ("clang", "gold")])
def test_the_tables_say_what_the_code_without_folding_does(
    compiler: str, linker: str, cache: Path, tmp_path: Path
) -> None:
    try:
        built = build(SMALL_VIRTUAL, compiler, linker, cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    passed = tmp_path / built.folded.name
    add_tables(list(icf_command()), built, "image", passed)
    folding = match_images(built.unfolded, passed, built.report.read_text(), built.folder)
    records = judge_records(passed, folding)
    assert records.findings == [] and records.counts.keys() == set(KINDS)
    assert all(outcomes["right"] for outcomes in records.counts.values()), records.counts

    names = folding.originals.keys_at  # each function gets the name of another one with the same body
    for _, originals in folding.groups():
        named = [names[each] for each in originals]
        names.update(zip(originals, [*named[1:], named[0]], strict=True))
    wrong = judge_records(passed, folding).counts
    assert all(wrong[kind]["wrong"] for kind in ("calls", "tail calls", "slots")), wrong

    folding.originals.relocations = b"".join(struct.pack("<QQq", place, 8, start) for place, start in enumerate(names))
    pointers = judge_records(passed, folding).counts["pointers"]
    assert pointers["wrong"] and not pointers["right"], pointers

    _, (first, *_) = folding.groups()[0]
    names[first] = ["_Z5othersv"]
    assert judge_records(passed, folding).counts["bodies"]["wrong"] == 1


@pytest.mark.parametrize(
    ("names", "functions", "expected"),
    [
        (["_ZN3MD23getEv", "_ZN3MD53getEv"], [["_ZN3MD23getEv"], ["_ZN3MD53getEv"]], False),
        (["_ZN3FooC1Ev", "_ZN3FooC2Ev"], [["_ZN3FooC1Ev"], ["_ZN3FooC2Ev"]], True),
        (["f", "g"], [["f", "g"], ["h"]], True),  # an alias that a compiler made
        (["f", "h"], [["f", "g"], ["h"]], False),
        (["f", "unknown"], [["f"], ["h"]], True),
    ],
)
def test_a_member_is_one_function(names: list[str], functions: list[list[str]], expected: bool) -> None:
    assert is_one_function(names, functions) is expected


NAMESAKES = [  # all are measured by `make accuracy`
    (SMALL_FORMS, Kind("clang", "lld", ("image",))),
    (SMALL_FORMS, Kind("clang-lto", "lld", ("image", "link"))),
    (SMALL_FORMS, Kind("gcc", "mold", ("report",))),
    (SMALL_FORMS, Kind("gcc-O0", "gold", ("image",))),
    (SMALL_STATICS, Kind("clang-thinlto", "lldr", ("image",))),
    (INNER, Kind("clang", "lld", ("image",))),
]
IDS = [f"{program.name}-{kind.compiler}-{kind.linker}" for program, kind in NAMESAKES]


@pytest.mark.parametrize(("program", "kind"), NAMESAKES, ids=IDS)
def test_namesakes_of_several_units_get_no_wrong_name(
    program: Program, kind: Kind, cache: Path, tmp_path: Path
) -> None:
    measured = measure_kind(program, kind, cache, tmp_path)
    for result in measured.results:
        assert result.score is not None and result.with_vptr is not None, result.problem
        for score in (result.score, result.with_vptr):
            bad = [finding for finding, _ in score.findings.most_common(50) if "wrong" in finding]
            assert score.merged["wrong"] == score.other["unmerged, wrong"] == 0, (result.evidence, bad)
            assert sum(score.merged.values()) > 300


def test_a_caller_that_is_missing_makes_no_name_wrong(cache: Path, tmp_path: Path) -> None:
    try:
        built = build(SMALL_VIRTUAL, "clang", "lldr", cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    passed = tmp_path / built.folded.name
    add_tables(list(icf_command()), built, "image", passed)
    stacks = sample_both(built, passed, tmp_path, cache)[0].stacks
    damaged = damage_all(stacks, lost_at_entry)
    scores = {
        mode: ask(list(icf_command()), passed, damaged, tmp_path, mode, with_vptr=True)
        for mode in ("none", "fp", "any")
    }
    for mode in ("fp", "any"):
        assert scores[mode].merged["wrong"] == 0, scores[mode].findings.most_common(3)
    assert scores["any"].share(scores["any"].merged, "right") > 2 * scores["none"].share(scores["none"].merged, "right")


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_calls_through_objects_and_pointers(compiler: str, cache: Path, tmp_path: Path) -> None:
    kind = Kind(compiler, "lldr", ("image",))
    try:
        built = build(SMALL_VIRTUAL, compiler, kind.linker, cache)
        measured = measure(built, kind, list(icf_command()), tmp_path, cache, with_vptr=True, peers=False)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert measured.group_count > 40
    assert any(row > 0 for stack in measured.alignment.stacks for row, _ in stack.vptrs)
    (result,) = measured.results
    assert result.score is not None, result.problem
    assert result.with_vptr is not None
    for score in (result.score, result.with_vptr):
        bad = [finding for finding, _ in score.findings.most_common(5)]
        assert not result.misses_bar, bad
        assert score.other["truth not a candidate"] == 0, bad
    ways = defaultdict[tuple[str, str], set[str]](set)  # by caller and callee
    for stack in measured.alignment.stacks:
        for frame, caller in pairwise(stack.frames):
            if frame and caller:
                ways[identifier(caller.names[0])[0], identifier(frame.names[0])[0]].add(frame.reached)
    assert ways["run", "paint"] == {DIRECT}
    assert ways["paint", "draw"] == ways["size", "measure"] == ways["label", "rename"] == {VIRTUAL}
    assert ways["inspect", "visit_small"] == ways["inspect", "visit_large"] == {TAIL_VIRTUAL}
    assert ways["each", "open_stream"] == ways["drain_stream", "close_stream"] == {POINTER}
