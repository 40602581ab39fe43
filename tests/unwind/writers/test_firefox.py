"""Processed profiles of the Firefox Profiler as they are written: renamed ones, and those made from other formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.support import firefox
from tests.support.answers import ORDER, PAYMENT, UNKNOWN, either, left_out, unique, unmerged
from tests.support.recordings import read
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import (
    Base,
    Inlined,
    Label,
    RecordedFrame,
    RecordedModule,
    RecordedProcess,
    Recording,
    Sample,
    Value,
)
from unwind.symbolize.answer import Answer
from unwind.writers.firefox import open_writer
from unwind.writers.named import Namer


def write(recording: Recording, answers: Sequence[tuple[Answer, ...]]) -> dict[str, Any]:
    writer = open_writer(recording, Namer())
    for sample, each in zip(recording, answers, strict=True):
        assert writer.write(Resolved(sample, StackAnswers(each))) == b""
    written: dict[str, Any] = json.loads(b"".join(writer.end()))
    firefox.check_valid(written)
    return written


def recording_of(profile: dict[str, Any]) -> Recording:
    return read("firefox", json.dumps(profile).encode())


def stacks(written: dict[str, Any]) -> list[list[str]]:
    """Return the names of each sample, innermost first; what is inlined has a mark."""
    found = []
    for sample in recording_of(written):
        names = []
        for frame in sample.frames:
            names += [f"{each.name} (inlined)" for each in frame.inlined] + [frame.name]
        found.append(names)
    return found


MAIN = unmerged(0x1180, "main", 0x1180)
ANSWERS = [
    (unique(0x1136, ORDER, 0x1136), MAIN),
    (UNKNOWN, MAIN),
    (unique(0x1136, ORDER, 0x1136), MAIN),
]


def test_a_merged_frame_gets_the_name_that_it_has_in_each_stack() -> None:
    profile = firefox.profile()
    thread = profile["threads"][0]
    thread["stackTable"] = {"frame": [0, 3, 1, 1], "prefix": [None, None, 0, 1], "length": 4}
    thread["samples"]["stack"] = [2, 3, None, 2]
    kernel = unmerged(0x20, "do_syscall_64")
    answers = (unique(0x1136, ORDER, 0x1136), MAIN), (unique(0x1136, PAYMENT, 0x1136), kernel), ANSWERS[2]
    written = write(recording_of(profile), answers)
    order, payment = ["List<Order>::grow()", "main"], ["List<Payment>::grow()", "do_syscall_64"]
    assert stacks(written) == [order, payment, order]
    again = written["threads"][0]
    symbols = again["nativeSymbols"]
    names = [again["stringArray"][idx] for idx in symbols["name"]]
    added = [(names[row], symbols["address"][row]) for row in range(2, symbols["length"])]
    assert set(added) == {("main", 0x1100), ("List<Order>::grow()", 0x1100), ("List<Payment>::grow()", 0x1100)}


def test_rows_are_added_and_none_is_changed() -> None:
    profile = firefox.profile()
    profile["extra"] = {"kept": [1, 2]}
    written = write(recording_of(profile), ANSWERS)
    old, new = profile["threads"][0], written["threads"][0]
    for name in ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols"):
        for column, rows in old[name].items():
            assert column == "length" or new[name][column][: len(rows)] == rows, f"{name}.{column}"
    assert new["stringArray"][: len(old["stringArray"])] == old["stringArray"]
    assert {key: new["samples"][key] for key in ("time", "weight", "weightType", "length")} == {
        key: old["samples"][key] for key in ("time", "weight", "weightType", "length")
    }
    assert new["samples"]["stack"][2] is None and written["extra"] == profile["extra"]
    assert [names[0] for names in stacks(written)] == ["List<Order>::grow()", "do_syscall_64", "List<Order>::grow()"]


def test_a_profile_in_which_nothing_is_merged_stays_as_it_was() -> None:
    profile = firefox.profile()
    profile["meta"]["symbolicated"] = False
    answers = [(unmerged(0x1136, "_Z3runv", 0x1136), MAIN), (UNKNOWN, MAIN), (UNKNOWN, MAIN)]
    assert write(recording_of(profile), answers) == profile


def test_names_that_are_addresses_are_replaced() -> None:
    profile = firefox.profile()
    profile["meta"]["symbolicated"] = False
    profile["threads"][0]["stringArray"][:3] = ["0x1180", "0x1136", "0x1136"]
    answers = [(unmerged(0x1136, "_Z3runv", 0x1136), MAIN), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)]
    written = write(recording_of(profile), answers[:1] + answers[1:])
    assert stacks(written)[0] == ["run()", "main"] and written["meta"]["symbolicated"] is True


def test_inlined_functions_and_tail_calls_have_rows_of_their_own() -> None:
    answer = unique(0x1136, ORDER, 0x1136, inlined="_Z4copyv", missing=(left_out(PAYMENT),))
    written = write(recording_of(firefox.profile()), [(answer, MAIN), *ANSWERS[1:2], (answer, MAIN)])
    assert stacks(written)[0] == ["copy() (inlined)", "List<Order>::grow()", "List<Payment>::grow()", "main"]
    frames = written["threads"][0]["frameTable"]
    assert list(zip(frames["address"], frames["inlineDepth"], frames["line"], strict=True))[4:] == [
        (0x1180, 0, 5),
        (-1, 0, 8),
        (0x1136, 0, 20),
        (0x1136, 1, 3),
    ]


def test_tables_that_threads_share_get_each_row_once() -> None:
    profile = firefox.profile()
    thread = profile["threads"][0]
    names = ("stringArray", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols")
    profile["shared"] = {name: thread.pop(name) for name in names}
    profile["threads"].append(json.loads(json.dumps(thread)))
    written = write(recording_of(profile), ANSWERS * 2)
    assert written["shared"]["stackTable"]["length"] == 4 + 3
    assert written["threads"][0]["samples"] == written["threads"][1]["samples"]


def test_a_profile_from_another_format() -> None:
    shop = RecordedModule("/bin/shop", bytes(range(20)), Base.RUN_TIME, 0x55005000, 0x55007000, 0x1000)
    process = RecordedProcess(17, [shop])
    grow, main = RecordedFrame(0x55005136, shop), RecordedFrame(0x55005181, shop)
    named = RecordedFrame(None, None, "start", "c.c", 4, inlined=(Inlined("inner"),))
    labels = Label("tid", 18), Label("comm", "worker")
    order = unique(0x55005136, ORDER, 0x1136)
    order.start = 0x55005100
    samples = [
        Sample((grow, main, named), process, (1, 2_000_000), labels, 3_000_000),
        Sample((grow,), process, (1, 1_000_000), labels, 1_000_000),
        Sample((), process, (1, 500_000), (Label("tid", 17), Label("comm", "shop")), 2_000_000),
    ]
    recording = Recording("x", samples, (Value(), Value("cpu", "nanoseconds")))
    main_answer = unmerged(0x55005181, "main", 0x1180)
    answers = (order, main_answer, UNKNOWN), (either(0x55005136, 0x1136),), ()
    written = write(recording, answers)
    worker, shop_thread = written["threads"]
    assert (worker["name"], worker["pid"], worker["tid"], worker["isMainThread"]) == ("worker", "17", 18, True)
    assert (shop_thread["name"], shop_thread["isMainThread"]) == ("shop", True)
    assert worker["samples"]["time"] == [1, 3] and worker["samples"]["weight"] == [1, 2]
    assert worker["samples"]["weightType"] == "tracing-ms" and shop_thread["samples"]["stack"] == [None]
    assert stacks(written) == [
        ["List<Order>::grow() | List<Payment>::grow()"],
        ["List<Order>::grow()", "main", "inner (inlined)", "start"],
    ]
    assert {each["codeId"] for each in written["libs"]} == {bytes(range(20)).hex()}
    assert written["libs"][0]["breakpadId"] == "0302010005040706" + "08090A0B0C0D0E0F" + "0"
    # read again, an address is as if the library had been loaded at 0
    frames = next(iter(list(recording_of(written))[1:])).frames
    assert [frame.address for frame in frames] == [0x1136, 0x1180, None]
    symbols = worker["nativeSymbols"]
    assert 0x1100 in symbols["address"]


def test_addresses_of_an_image_that_lies_where_it_was_linked_are_left_out() -> None:
    shop = RecordedModule("/bin/shop", b"", Base.RUN_TIME, 0x401000, 0x402000, 0x1000)
    samples = [Sample((RecordedFrame(0x401136, shop),), RecordedProcess(17, [shop]))]
    written = write(Recording("x", samples), [(unique(0x401136, ORDER, 0x401136),)])
    assert stacks(written) == [["List<Order>::grow()"]] and written["threads"][0]["frameTable"]["address"] == [-1]
    assert written["libs"][0]["codeId"] is None
