"""Text of `perf script` as it is written: what tools that read it look for."""

from __future__ import annotations

import re

from tests.support.answers import ORDER, PAYMENT, UNKNOWN, either, left_out, unique, unmerged
from tests.support.recordings import read
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import Label, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.symbolize.answer import Answer
from unwind.writers.named import Namer
from unwind.writers.perf_script import PerfScriptWriter

SHOP = RecordedModule("/opt/my shop")
GROW, MAIN = RecordedFrame(0x1136, SHOP), RecordedFrame(0x1180, SHOP)
LABELS = (Label("pid", 7), Label("tid", 9), Label("comm", "shop"), Label("cpu", 1), Label("event", "cpu-clock"))
# stackcollapse-perf.pl, and speedscope's importer
HEAD = re.compile(r"^(\S.+?)\s+(\d+)/?(\d+)?\s+(.*?):\s*(\d+)?\s+(\S+):\s*$")
FRAME = re.compile(r"^\s*(\w+)\s*(.+) \((\S*)\)")


def write(sample: Sample, *answers: Answer) -> str:
    for frame, answer in zip(sample.frames, answers, strict=True):
        if frame.module is not None:  # an answer says which module it is in
            answer.module = frame.module.path
    writer = PerfScriptWriter(Namer(), "period")
    return (writer.write(Resolved(sample, StackAnswers(answers))) + b"".join(writer.end())).decode()


def test_a_sample_with_all_that_it_has() -> None:
    sample = Sample((GROW, MAIN), RecordedProcess(7), (1, 1000), LABELS, 25981_991_483_000)
    grow = unique(0x1136, ORDER, inlined="_Z4copyv", missing=(left_out(PAYMENT),))
    assert write(sample, grow, unmerged(0x1180, "main")) == (
        "shop 7/9 [001] 25981.991483:       1000 cpu-clock:\n"
        "\t            1136 copy() (inlined)\n"
        "\t            1136 List<Order>::grow() (/opt/my_shop)\n"
        "\t               0 List<Payment>::grow() (/opt/my_shop)\n"
        "\t            1180 main (/opt/my_shop)\n\n"
    )


def test_what_can_be_several_and_what_is_unknown() -> None:
    text = write(Sample((GROW, RecordedFrame(0x10, name="do_x")), RecordedProcess(7)), either(0x1136), UNKNOWN)
    assert "List<Order>::grow() | List<Payment>::grow() (/opt/my_shop)" in text
    assert "\t              10 do_x ([unknown])\n" in text


def test_each_line_is_what_its_readers_look_for() -> None:
    sample = Sample((GROW, MAIN), RecordedProcess(7), (1, 1000), LABELS, 25981_991_483_000)
    head, *frames, empty, _ = write(sample, either(0x1136), unmerged(0x1180, "main")).split("\n")
    match = HEAD.match(head)
    assert match is not None and match.groups()[:3] == ("shop", "7", "9") and match[6] == "cpu-clock"
    assert [found[3] for line in frames if (found := FRAME.match(line))] == ["/opt/my_shop"] * 2
    assert empty == ""


def test_our_own_reader_reads_it() -> None:
    sample = Sample((GROW, MAIN), RecordedProcess(7), (1, 1000), LABELS, 25981_991_483_000)
    (again,) = read("perf-script", write(sample, unique(0x1136, ORDER), unmerged(0x1180, "main")).encode())
    assert [frame.name for frame in again.frames] == ["List<Order>::grow()", "main"]
    assert (again.weights, again.time_ns, again.labels) == (sample.weights, sample.time_ns, LABELS)
