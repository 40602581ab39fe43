"""Columns of stacks: what they may be, and the line for each that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from icf.errors import IcfError
from tests.support.stack_columns import batch
from unwind.samples.stack_columns import EXACT, FIRST, MODULE_BITS

pa = pytest.importorskip("pyarrow")
from unwind.arrow.stacks import FRAME_LIMIT, StackReader  # noqa: E402

STACKS: list[list[int | None]] = [[1, 2], [], [3, None, 1 << 63]]
LISTS = pa.list_(pa.uint64())


def kinds(found: Any) -> list[tuple[int, int]]:
    return [(int(kind) >> MODULE_BITS, int(kind) & (FIRST | EXACT)) for kind in found.kinds]


def test_addresses_are_used_where_they_lie() -> None:
    whole = batch([[9], *STACKS, [8]], [5, 1, 2, 3, 4]).slice(1, 3)
    found = StackReader("s", "shop").read(whole)
    assert found.starts.tolist() == [0, 2, 2, 5]
    assert found.addresses.tolist() == [1, 2, 3, 0, 1 << 63]
    assert found.weights.tolist() == [1, 2, 3]
    assert kinds(found) == [(2, FIRST), (2, 0), (2, FIRST), (0, 0), (2, 0)]
    assert [module.path for process in found.processes for module in process.modules] == ["shop"]
    no_null = batch([[1, 2]]).slice(0, 1)
    data = no_null.column("addresses").values.buffers()[1].address
    assert StackReader("s", "shop").read(no_null).addresses.__array_interface__["data"][0] == data


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.large_list(pa.uint64())], ids=["without unsigned numbers", "large lists"]
)
def test_engines_may_have_other_types(kind: Any) -> None:
    stacks = [[1, -1 if kind.value_type == pa.int64() else (1 << 64) - 1]]
    found = StackReader("s", "shop").read(pa.RecordBatch.from_pydict({"addresses": pa.array(stacks, kind)}))
    assert found.addresses.tolist() == found.values.to_pylist() == [1, (1 << 64) - 1]
    assert found.weights.tolist() == [1]


def test_a_module_for_each_stack_or_for_each_address() -> None:
    build = "91ab" * 10
    reader = StackReader("s")
    one = reader.read(batch(STACKS, module=pa.array(["/bin/a", None, build])))
    assert [number for number, _ in kinds(one)] == [2, 2, 3, 0, 3]
    paths = [[(each.path, each.build_id.hex()) for each in one.processes[at].modules] for at in one.process.tolist()]
    assert paths == [[("/bin/a", "")], [], [(build, build)]]
    names = pa.array([["/bin/a", None], [], [build, None, "/bin/a"]])
    each = reader.read(batch(STACKS, module=names.cast(pa.list_(pa.dictionary(pa.int32(), pa.string())))))
    assert [number for number, _ in kinds(each)] == [2, 1, 3, 0, 2]
    assert [{m.path for m in each.processes[at].modules} for at in each.process.tolist()] == [
        {"/bin/a"},
        set(),
        {build, "/bin/a"},
    ]
    assert each.processes[each.process[0]] is one.processes[one.process[0]]


def test_marks_say_which_addresses_are_program_counters() -> None:
    found = StackReader("s", "shop").read(
        batch(
            STACKS,
            exact=pa.array([[True, True], [], [False, None, True]]),
            vptrs=pa.array([[None, 7], [], [6, None, 5]], LISTS),
        )
    )
    assert kinds(found) == [(2, FIRST), (2, EXACT), (2, 0), (0, 0), (2, EXACT)]
    assert found.vptrs == {0: ((1, 7),), 2: ((0, 6), (2, 5))}


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"weight": pa.array([1], pa.int64())}, "s: has no column addresses"),
        ({"addresses": pa.array([1])}, "s: column addresses is int64, must be a list of uint64"),
        ({"addresses": pa.array([["1"]])}, "s: column addresses is list<.*string>, must be a list of uint64"),
        ({"addresses": pa.array([[1], None], LISTS)}, "s: row 1: column addresses is null"),
        ({"addresses": pa.array([[1]], LISTS), "weight": pa.array([1.5])}, "s: column weight is double, must be int64"),
        ({"addresses": pa.array([[1]] * 2, LISTS), "weight": pa.array([1, None])}, "s: row 1: column weight is null"),
        ({"addresses": pa.array([[1]], LISTS), "weight": pa.array([-5])}, "s: row 0: weight is -5, must be 0 or more"),
        (
            {"addresses": pa.array([[1]], LISTS), "module": pa.array([1])},
            "s: column module is int64, must be string or",
        ),
        (
            {"addresses": pa.array([[1], [2]], LISTS), "module": pa.array([["a"], ["a", "b"]])},
            "s: row 1: column module needs one value for each address",
        ),
        (
            {"addresses": pa.array([[1]], LISTS), "exact": pa.array([[1]])},
            "s: column exact is .*, must be a list of bool",
        ),
        ({"addresses": pa.array([[1]], LISTS), "vptrs": pa.array([[1, 2]], LISTS)}, "s: row 0: column vptrs needs one"),
        (
            {"addresses": pa.array([[1] * (FRAME_LIMIT + 1)], LISTS)},
            f"s: row 0: column addresses has {FRAME_LIMIT + 1} frames, may have {FRAME_LIMIT}",
        ),
    ],
)
def test_what_breaks_a_rule_is_one_line(columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(IcfError, match=problem):
        StackReader("s", "shop").read(pa.RecordBatch.from_pydict(columns))


def test_the_row_counts_from_the_first_batch_on() -> None:
    reader = StackReader("s", "shop")
    reader.read(batch(STACKS))
    with pytest.raises(IcfError, match="s: row 4: weight is -1"):
        reader.read(batch([[1], [2]], [1, -1]))


def test_two_columns_of_one_name_are_refused() -> None:
    columns = pa.array([[1]], LISTS)
    twice = pa.RecordBatch.from_arrays([columns, columns], names=["addresses", "addresses"])
    with pytest.raises(IcfError, match="s: has 2 columns addresses"):
        StackReader("s", "shop").read(twice)
