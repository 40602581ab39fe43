"""Text of `perf script`, of both kinds."""

from __future__ import annotations

import logging

import pytest

from icf.errors import FormatError
from tests.support.paths import ROOT
from tests.support.perf_oracle import of_perf
from tests.support.recordings import read, recognizes
from unwind.samples.recording import Base, RecordedFrame, Sample, Value

MAPPED = """\
shop 7 1.000001: PERF_RECORD_MMAP2 7/7: [0x55d200001000(0x1000) @ 0x2000 fe:00 260875 0]: r-xp /bin/shop
shop 7 1.000002: PERF_RECORD_MMAP2 7/7: [0x7f0000026000(0x9000) @ 0x26000 <0102030405060708090a0b0c0d0e0f1011121314>]: \
r-xp /lib/libc.so.6
shop 7 1.000003: PERF_RECORD_FORK(7:8):(7:7)
"""
OFFSETS = """\
shop 7 1.000500:    1001001 cpu-clock:
\tffffffff81000010 do_syscall_64+0x71 ([kernel.kallsyms])
\t            2136 spin+0x11 (/bin/shop)
\t            2150 copy+0x3 (inlined)
\t            2150 main+0x30 (/bin/shop)
\t           2724a __libc_start_call_main+0x7a (/lib/libc.so.6)

"""
RUN_TIME = OFFSETS.replace("            2136", "    55d200001136").replace("            2150", "    55d200001150")
RUN_TIME = RUN_TIME.replace("           2724a", "    7f000002724a")


def samples(text: str) -> list[Sample]:
    return list(read("perf-script", text.encode()))


def shown(frame: RecordedFrame) -> tuple[str, int | None, str]:
    module = frame.module
    return (module.path if module is not None else "", frame.address, module.base.value if module is not None else "")


@pytest.mark.parametrize("name", ["hot", "hot.z", "hot.pipe", "hot.events"])
def test_text_of_perf_itself(name: str) -> None:
    text = (ROOT / "testdata" / "perf" / f"{name}.script").read_text()
    found, expected = samples(text), of_perf(text)
    assert len(found) == len(expected) > 3
    for each, perfs in zip(found, expected, strict=True):
        labels = {label.key: label.value for label in each.labels}
        assert (labels["comm"], labels["pid"], labels["tid"]) == (perfs.comm, perfs.pid, perfs.tid)
        assert each.time_ns // 1000 == perfs.time_us and each.weights == (1, perfs.period)
        assert [frame.address for frame in each.frames] == [address for address, _ in perfs.frames]


@pytest.mark.parametrize(("text", "base"), [(OFFSETS, Base.OFFSET), (RUN_TIME, Base.RUN_TIME)])
def test_mappings_decide_what_an_address_is(text: str, base: Base, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "icf"):
        (each,) = samples(MAPPED + text)
    assert not caplog.records
    kernel, *own = each.frames
    assert (kernel.name, kernel.module, kernel.is_certain) == ("do_syscall_64", None, True)
    assert [frame.module.path if frame.module else "" for frame in own] == ["/bin/shop", "/bin/shop", "/lib/libc.so.6"]
    assert {frame.module.base for frame in own if frame.module is not None} == {base}
    assert [frame.is_exact for frame in each.frames] == [True, True, False, False]
    assert [frame.name for frame in own] == ["spin", "main", "__libc_start_call_main"]
    libc = own[2].module
    assert libc is not None and libc.build_id == bytes(range(1, 21))


ALONE = OFFSETS.replace("main+0x30 (/bin/shop)", "Ledger::post+0x8 (inlined)")


def test_a_frame_whose_file_perf_replaces_by_inlined_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """perf 6.1 of a merged function: its symbol and its debug information have two names."""
    with caplog.at_level(logging.INFO, "icf"):
        each, again = samples(MAPPED + ALONE + ALONE)
    assert each.frames == again.frames  # the same objects: each is looked up once
    assert [(shown(frame)[0], frame.address, frame.name) for frame in each.frames[2:]] == [
        ("", 0x2150, ""),
        ("/lib/libc.so.6", 0x2724A, "__libc_start_call_main"),
    ]
    assert caplog.messages == ["f: perf has `(inlined)` in place of the file of some frames, which are unknown"]


def test_such_a_frame_is_found_in_a_mapping(caplog: pytest.LogCaptureFixture) -> None:
    text = RUN_TIME.replace("main+0x30 (/bin/shop)", "Ledger::post+0x8 (inlined)")
    with caplog.at_level(logging.INFO, "icf"):
        (each,) = samples(MAPPED + text)
        (last,) = samples(MAPPED + text[: text.index("\t    7f")] + "\n")
    assert not caplog.records
    assert [shown(frame)[0] for frame in each.frames] == ["", "/bin/shop", "/bin/shop", "/lib/libc.so.6"]
    assert list(map(shown, last.frames)) == list(map(shown, each.frames[:3]))


def test_a_head_without_time_and_event_is_recognized() -> None:
    text = "shop  4242 \n\t            2136 spin (/bin/shop)\n"
    assert recognizes("perf-script", text.encode())
    (each,) = samples(text)
    assert [frame.name for frame in each.frames] == ["spin"]


def test_without_mappings_a_line_says_what_was_taken(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "icf"):
        (each,) = samples(OFFSETS)
    assert [shown(frame)[2] for frame in each.frames] == ["", "offset", "offset", "offset"]
    assert caplog.messages == ["f: addresses are taken for offsets in files, as perf up to 6.3 prints them"]
    caplog.clear()
    with caplog.at_level(logging.INFO, "icf"):
        (each,) = samples(RUN_TIME)
    assert all(frame.module is None for frame in each.frames)
    assert caplog.messages == ["f: addresses of processes are not looked up, as no mappings are printed"]


def test_a_thread_is_of_the_process_that_started_it() -> None:
    thread = "PERF_RECORD_FORK(7:9):(7:7)\n"
    (each,) = samples(MAPPED + "shop 7 1.0004: " + thread + RUN_TIME.replace("shop 7", "worker 9"))
    assert each.process.pid == 7
    assert shown(each.frames[1]) == ("/bin/shop", 0x55D200001136, "run-time")


def test_a_fork_has_the_mappings_and_exec_drops_them() -> None:
    child = RUN_TIME.replace("shop 7", "shop 8")
    again = "shop 8 1.001: PERF_RECORD_COMM exec: shop:8/8\n"
    forked = "shop 7 1.0004: PERF_RECORD_FORK(8:8):(7:7)\n"
    before, after = samples(MAPPED + forked + child + again + child)
    assert before.frames[1].module is not None and after.frames[1].module is None


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        ("my shop 2 7/9 [003] 12.000001: 5 cycles:ppp: ", {"pid": 7, "tid": 9, "cpu": 3, "event": "cycles:ppp"}),
        ("my shop 2 7/9 12.000001: cycles:", {"pid": 7, "tid": 9, "event": "cycles"}),
        ("my shop 2 7 12.000001: 5 sched:sched_switch:", {"pid": 7, "tid": 7, "event": "sched:sched_switch"}),
    ],
)
def test_heads_have_what_was_asked_for(head: str, labels: dict[str, int | str]) -> None:
    text = head + "\n\t 2136 spin (/bin/shop)\n\n"
    assert recognizes("perf-script", text.encode())
    (each,) = samples(text)
    assert {label.key: label.value for label in each.labels} == {"comm": "my shop 2", **labels}
    assert each.time_ns == 12_000_001_000


def test_a_sample_in_one_line() -> None:
    text = "shop 7 1.5: 1000 cpu-clock:  55d200001136 spin+0x11 (/bin/shop)\n" * 2
    first, second = samples(MAPPED + text)
    assert shown(first.frames[0]) == ("/bin/shop", 0x55D200001136, "run-time")
    assert first.frames[0] is second.frames[0]
    assert first.weights == (1, 1000)


def test_stacks_without_heads() -> None:
    text = "\t 2136 spin (/bin/shop)\n\t 2150 main (/bin/shop)\n\n\t 2150 main (/bin/shop)\n"
    assert recognizes("perf-script", text.encode())
    assert [[frame.address for frame in each.frames] for each in samples(text)] == [[0x2136, 0x2150], [0x2150]]


def test_names_with_parentheses_and_deleted_files() -> None:
    line = "\t 2136 (anonymous namespace)::f(int, void (*)(char))+0x1 (/tmp/a (deleted))\n"
    (each,) = samples("a 7 1.0: 1 e:\n" + line)
    assert each.frames[0].name == "(anonymous namespace)::f(int, void (*)(char))"
    assert each.frames[0].module is not None and each.frames[0].module.path == "/tmp/a (deleted)"


def test_code_made_at_run_time_keeps_its_name() -> None:
    (each,) = samples("node 7 1.0: 1 e:\n\t 7f0000001136 LazyCompile:~f x.js:1 (/tmp/perf-7.map)\n")
    assert (each.frames[0].name, each.frames[0].is_certain) == ("LazyCompile:~f x.js:1", True)


def test_the_event_names_the_second_value() -> None:
    assert read("perf-script", OFFSETS.encode()).values == (Value(), Value("cpu-clock"))


@pytest.mark.parametrize(
    "other", [b"0x1136 0x1180\n", b"main;f 12\n", b"", b"==1==ERROR: x\n", b"{}", b"hello world\n"]
)
def test_other_text_is_not_taken_for_it(other: bytes) -> None:
    assert not recognizes("perf-script", other)


def test_what_is_not_of_perf_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match=r"f:9: 'hello' is not a line of `perf script`"):
        samples(OFFSETS + "\nhello\n")
