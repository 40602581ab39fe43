"""A recording before and after: names, weights, and what is counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from icf.errors import FormatError, IcfError
from linkpass import Options, run_pass
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool
from unwind.report.collect import of_image, of_recording
from unwind.report.data import Function, Kind, Profile, Report
from unwind.samples.recording import RecordedFrame, RecordedModule, RecordedProcess, Recording, Sample, Value
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths

SHOP = ROOT / "testdata" / "shop"
LINES = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
STACKS = [[None if word == "?" else int(word, 16) for word in line["stack"].split()] for line in LINES]
ORDER, PAYMENT = "List<Order>::grow()", "List<Payment>::grow()"
SESSION, ORDER_OR_MORE = "List<Session>::grow()", "List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the image with its tables."""
    path = Path(shutil.copy(SHOP / "shop.gold", tmp_path_factory.mktemp("shop") / "shop"))
    run_pass(str(path), Options())
    return path


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[RecordedResolver]:
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path / "cache"))) as resolver:
        yield resolver


def samples(shop: Path, stacks: Sequence[Sequence[int | None]], weights: Sequence[int]) -> list[Sample]:
    module = RecordedModule(str(shop))
    process = RecordedProcess(modules=[module])
    known: dict[int | None, RecordedFrame] = {}
    found = []
    for stack, weight in zip(stacks, weights, strict=True):
        frames = [known.setdefault(each, RecordedFrame(each, None if each is None else module)) for each in stack]
        found.append(Sample(tuple(frames), process, (weight,)))
    return found


def collected(resolver: RecordedResolver, read: Sequence[Sample]) -> tuple[Report, Profile]:
    report = of_recording("f", Recording("pcs", read), resolver)
    assert report.profile is not None
    return report, report.profile


def function(profile: Profile, name: str) -> tuple[int, int, int, int]:
    (found,) = [each for each in profile.functions if each.name == name] or [Function(name, False)]
    return found.self_before, found.self_after, found.total_before, found.total_after


def test_frames_get_the_names_of_the_functions_that_ran(resolver: RecordedResolver, shop: Path) -> None:
    report, profile = collected(resolver, samples(shop, STACKS, [1, 10, 100]))
    assert (profile.samples, profile.weight, profile.changed, profile.changed_self, profile.open) == (3, 111, 111, 0, 0)
    assert function(profile, ORDER) == (0, 0, 111, 10)
    assert function(profile, PAYMENT) == (0, 0, 0, 100)
    assert function(profile, SESSION) == (0, 0, 0, 1)
    assert function(profile, "main") == (0, 0, 111, 111)
    assert function(profile, "sample_allocation(unsigned long)") == (111, 111, 111, 111)
    assert profile.settled_frames == 2 * 111 + 110 and profile.evidence == {"dwarf": 332}
    (image,) = report.images
    assert (image.path, image.bodies, image.functions) == (str(shop), 3, 8)
    assert image.has_tables and image.is_folded
    assert {body.functions[0].name: (body.total, body.self_, body.settled) for body in report.bodies} == {
        ORDER: (111, 0, 111),
        "List<Order>::add(Order*)": (111, 0, 111),
        "Ledger::post(Payment*)": (110, 0, 110),
    }


def test_the_trees_show_what_changed(resolver: RecordedResolver, shop: Path) -> None:
    _, profile = collected(resolver, samples(shop, [stack[:5] for stack in STACKS], [1, 10, 100]))
    rows = {(row.name, row.kind, row.other): row.weight for row in profile.after.rows}
    assert rows[PAYMENT, Kind.CHANGED, ORDER] == 100
    assert rows[SESSION, Kind.CHANGED, ORDER] == 1
    assert rows[ORDER, Kind.SAME, ""] == 10
    assert rows["Sessions::open(Session*)", Kind.TAIL_CALL, ""] == 1
    before = {(row.name, row.kind, row.other): row.weight for row in profile.before.rows}
    assert before[ORDER, Kind.CHANGED, PAYMENT] == 100
    assert before[ORDER, Kind.CHANGED, SESSION] == 1
    assert not any(kind is Kind.TAIL_CALL for _, kind, _ in before)
    assert profile.before.rows[0].weight == profile.after.rows[0].weight == 111


def test_open_frames_and_why(resolver: RecordedResolver, shop: Path) -> None:
    inner = [stack[1:2] for stack in STACKS[:1]]  # grow(), and nothing of its caller
    report, profile = collected(resolver, samples(shop, inner, [7]))
    assert (profile.open, profile.changed, profile.open_frames, profile.settled_frames) == (7, 0, 7, 0)
    assert function(profile, ORDER) == (7, 0, 7, 0)
    assert function(profile, ORDER_OR_MORE) == (0, 7, 0, 7)
    assert profile.reasons == {"caller-unknown": 7}
    assert report.bodies[0].open == 7 and report.bodies[0].reasons == {"caller-unknown": 7}
    assert [(row.name, row.kind, row.other) for row in profile.after.rows[1:]] == [(ORDER_OR_MORE, Kind.OPEN, ORDER)]
    assert [(row.name, row.kind, row.other) for row in profile.before.rows[1:]] == [(ORDER, Kind.OPEN, ORDER_OR_MORE)]


def test_names_of_the_recording_stay(resolver: RecordedResolver, shop: Path) -> None:
    kernel = RecordedFrame(0xFFFFFFFF81000000, None, "do_syscall_64", is_certain=True)
    guess, nameless = RecordedFrame(None, None, "perhaps"), RecordedFrame(5, RecordedModule("/gone/lib.so"))
    sample = Sample((kernel, guess, nameless), RecordedProcess(), (2,))
    report, profile = collected(resolver, [sample])
    assert [(row.name, row.kind) for row in profile.after.rows[1:]] == [
        ("[lib.so]", Kind.UNKNOWN),
        ("perhaps", Kind.SAME),
        ("do_syscall_64", Kind.SAME),
    ]
    assert profile.before == profile.after
    assert (profile.changed, profile.open, profile.unknown, report.images) == (0, 0, 2, [])


def test_the_chosen_value_counts(resolver: RecordedResolver, shop: Path) -> None:
    read = [
        each._replace(weights=(1, weight))
        for each, weight in zip(samples(shop, STACKS, [1] * 3), (0, 5, 6), strict=True)
    ]
    recording = Recording("pprof", read, (Value("objects"), Value("space", "bytes")))
    space = of_recording("f", recording, resolver).profile
    recording.shown = 0
    objects = of_recording("f", recording, resolver).profile
    assert space is not None and objects is not None
    assert (space.value, space.unit, space.weight, space.samples) == ("space", "bytes", 11, 3)
    assert (objects.value, objects.unit, objects.weight) == ("objects", "count", 3)


def test_a_function_that_calls_itself_counts_once_for_a_stack(resolver: RecordedResolver) -> None:
    frame = RecordedFrame(None, None, "again", is_certain=True)
    _, profile = collected(resolver, [Sample((frame, frame, frame), RecordedProcess(), (4,))])
    assert function(profile, "again") == (4, 4, 4, 4)


def test_what_stands_before_an_error_counts(resolver: RecordedResolver, shop: Path) -> None:
    def read() -> Iterator[Sample]:
        yield from samples(shop, STACKS[:2], [1, 1])
        raise FormatError("f", "section", 7, "is damaged")

    report = of_recording("f", Recording("pcs", read()), resolver)
    assert report.profile is not None and report.profile.weight == 2
    assert isinstance(report.problem, IcfError) and "is damaged" in str(report.problem)


def test_a_million_samples_cost_what_their_stacks_cost(resolver: RecordedResolver, shop: Path) -> None:
    few = samples(shop, STACKS, [1] * 3)
    seen: list[int] = []
    recording = Recording("pcs", (few[idx % 3] for idx in range(100_000)))
    report = of_recording("f", recording, resolver, step=seen.append)
    assert report.profile is not None and report.profile.weight == 100_000
    assert sum(seen) == report.profile.samples == 100_000
    assert len(report.profile.after.rows) < 20


def test_an_image_without_tables_may_be_folded_or_not(tmp_path: Path) -> None:
    folded, plain = tmp_path / "folded", tmp_path / "plain"
    shutil.copy(ROOT / "testdata" / "shop" / "shop.lld", folded)
    (tmp_path / "plain.c").write_text("int one(void) { return 1; } int main(void) { return one(); }")
    run(tool("gcc"), tmp_path / "plain.c", "-o", plain)
    search = SearchPaths(cache_dir=str(tmp_path / "cache"))
    found = [of_image(str(path), search).images[0] for path in (folded, plain)]
    assert [(image.has_tables, image.is_folded) for image in found] == [(False, True), (False, False)]
