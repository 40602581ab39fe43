"""Collapsed stacks as they are written: added up, sorted, the outermost frame first."""

from __future__ import annotations

import pytest

from icf.errors import IcfError
from icf.model import Verdict
from tests.support.answers import ORDER, PAYMENT, UNKNOWN, either, left_out, unique, unmerged
from tests.support.recordings import read
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import Inlined, Label, RecordedFrame, RecordedModule, RecordedProcess, Recording, Sample
from unwind.symbolize.answer import Answer
from unwind.writers.collapsed import CollapsedWriter
from unwind.writers.named import Namer

SHOP = RecordedModule("/bin/shop")
GROW, MAIN, OTHER = RecordedFrame(0x1136, SHOP), RecordedFrame(0x1180, SHOP), RecordedFrame(0x1190, SHOP)


def write(*samples: tuple[Sample, tuple[Answer, ...]]) -> str:
    writer = CollapsedWriter(Recording("f", []), Namer())
    assert b"".join([writer.write(Resolved(sample, StackAnswers(each))) for sample, each in samples]) == b""
    return b"".join(writer.end()).decode("utf-8", "surrogateescape")


def sample(*frames: RecordedFrame, weights: tuple[int, ...] = (1,), labels: tuple[Label, ...] = ()) -> Sample:
    return Sample(frames, RecordedProcess(), weights, labels)


def test_stacks_are_added_up_and_sorted() -> None:
    main = unmerged(0x1180, "main")
    order, payment = (unique(0x1136, ORDER), main), (unique(0x1136, PAYMENT), main)
    assert (
        write(
            (sample(GROW, MAIN, weights=(1, 10)), payment),
            (sample(GROW, MAIN, weights=(1, 5)), order),
            # another address of the same function
            (sample(GROW, OTHER, weights=(1, 20)), (order[0], unmerged(0x1190, "main"))),
            (sample(MAIN, weights=(1, 0)), (main,)),
        )
        == "main;List<Order>::grow() 25\nmain;List<Payment>::grow() 10\n"
    )


def test_inlined_functions_and_tail_calls_are_frames() -> None:
    answer = unique(0x1136, ORDER, inlined="_Z4copyv", missing=(left_out(PAYMENT),))
    assert write((sample(GROW), (answer,))) == "List<Payment>::grow();List<Order>::grow();copy() 1\n"


def test_a_frame_that_can_be_several_has_all_names() -> None:
    assert write((sample(GROW), (either(0x1136),))) == "List<Order>::grow() | List<Payment>::grow() 1\n"


def test_what_the_recording_says_is_kept_where_nothing_is_known() -> None:
    inlined = RecordedFrame(None, None, "outer", inlined=(Inlined("inner"),))
    in_shop = Answer(0x1, Verdict.UNKNOWN, module=SHOP.path)
    assert write((sample(inlined, RecordedFrame(0x1, SHOP)), (UNKNOWN, in_shop))) == "[shop];outer;inner 1\n"
    assert write((sample(), ())) == "[unknown] 1\n"


def test_the_process_stands_first() -> None:
    labels = (Label("tid", 7), Label("comm", "web; server"))
    assert write((sample(MAIN, labels=labels), (unmerged(0x1180, "main"),))) == "web: server;main 1\n"


def test_counts_that_are_not_whole_stay_so() -> None:
    text = b"main;a 0.25\nmain;a 0.5\nmain;b 2.50\nmain;b 0.50\nmain;caf\xe9 1\n"
    samples = list(read("collapsed", text))
    written = write(*[(each, (UNKNOWN,) * len(each.frames)) for each in samples])
    assert written == "main;a 0.75\nmain;b 3\nmain;caf\\xe9 1\n"


def test_a_stack_cannot_count_less_than_nothing() -> None:
    with pytest.raises(IcfError, match="collapsed stacks: a stack counts -2"):
        write((sample(MAIN, weights=(-2,)), (UNKNOWN,)))


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    written = write((sample(MAIN), (unmerged(0x1180, "f\x1b[2J\x07\u202e;\udc9b"),)))
    assert written == "f\\x1b[2J\\x07\\u202e:\\x9b 1\n"
