"""Where inlined calls lie, from a function that is the same code; never by a guess."""

from __future__ import annotations

from unwind.symcache.builder.placing import Call, Described, Place, place_calls

FILE, HEADER = 1, 2
EQUAL, SIZE, COMPARE = (HEADER, 30), (HEADER, 10), (HEADER, 20)
SIZE_CALL = Call(0, ((0, 4),), SIZE, (HEADER, 31), 9)
COMPARE_CALL = Call(0, ((0, 5), (12, 17)), COMPARE, (HEADER, 32), 5)
ROWS = [(0, (HEADER, 11), 3), (4, (HEADER, 31), 2), (10, (HEADER, 21), 1), (15, (HEADER, 32), 7), (22, (HEADER, 22), 1),
        (27, (HEADER, 33), 1)]  # fmt: skip
KNOWN = Described(EQUAL, [SIZE_CALL, COMPARE_CALL], ROWS)
STARTS = [0, 10]


def placed(lost: Described, size_bytes: int = 40) -> list[int] | None:
    """Where the calls of `lost` are; functions end five lines after they are declared."""

    def next_function(place: Place) -> int:
        return place[1] + 5

    return place_calls(lost, KNOWN, STARTS, size_bytes, next_function)


def wrapped(size_bytes: int, last: Place = (FILE, 91)) -> Described:
    """A function that has the known one inlined."""
    outer = Call(0, ((0, size_bytes),), EQUAL, (FILE, 91), 14)
    inner = [SIZE_CALL._replace(up=1), COMPARE_CALL._replace(up=2)]
    return Described((FILE, 90), [outer, *inner], [*ROWS[:-1], (27, (HEADER, 33), 1), (36, last, 5)])


def test_one_text() -> None:
    assert placed(KNOWN) == STARTS


def test_text_elsewhere() -> None:
    def moved(place: Place) -> Place:
        return place[0], place[1] + 100

    calls = [call._replace(declared=moved(call.declared), called=moved(call.called)) for call in KNOWN.calls]
    rows = [(offset, moved(place), column) for offset, place, column in ROWS]
    assert placed(Described(moved(EQUAL), calls, rows)) == STARTS
    assert placed(Described(moved(EQUAL), calls, [*rows[:2], (10, (HEADER, 122), 1), *rows[3:]])) is None
    assert placed(Described(moved(EQUAL), calls, [*rows[:2], (10, (HEADER, 121), 2), *rows[3:]])) is None


def test_inlined_into_another() -> None:
    assert placed(wrapped(36)) == [0, 0, 10]  # there is room for it nowhere else
    assert placed(wrapped(26)) is None  # does not hold the calls in it
    assert placed(wrapped(36, (FILE, 99))) is None  # a line of another function
    assert placed(wrapped(36, (FILE, 0))) == [0, 0, 10]
    free = wrapped(30)  # might begin at 0 to 10
    assert placed(free._replace(calls=[*free.calls[:1], free.calls[2]._replace(up=1)])) is None


def test_what_is_there_twice() -> None:
    twice = KNOWN._replace(calls=[SIZE_CALL, SIZE_CALL, COMPARE_CALL])
    assert placed(twice) is None


def test_nothing_is_alike() -> None:
    assert placed(Described(EQUAL, [SIZE_CALL._replace(spans=((0, 3),))], ROWS)) is None
    whole = Described((FILE, 90), [Call(0, ((0, 40),), (FILE, 50), (FILE, 91), 1)], [(0, (FILE, 51), 1)])
    assert placed(whole) == [0]  # all of the body
    assert placed(whole._replace(rows=[(0, (FILE, 60), 1)])) is None
    assert placed(whole._replace(rows=[])) is None
    assert placed(whole._replace(rows=[(1, (FILE, 51), 1)])) is None  # nothing is said of the first byte
