"""What formats show that have one name for each frame."""

from __future__ import annotations

import pytest

from icf.model import Verdict
from tests.unwind.support import fold, pc, ret
from unwind.program.frame import Frame
from unwind.program.program import Program
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Inlined, RecordedFrame, RecordedProcess, Sample
from unwind.symbolize.answer import Answer
from unwind.writers.named import Ambiguous, NamedFrame, Namer

GONE = "/usr/lib/gone.so"


def names(frames: tuple[RecordedFrame, ...], answers: tuple[Answer, ...], namer: Namer | None = None) -> list[str]:
    resolved = Resolved(Sample(frames, RecordedProcess()), StackAnswers(answers))
    return [frame.name for frame in (namer or Namer()).stack(resolved)]


@pytest.mark.parametrize(
    ("recorded_name", "module", "shown"),
    [("as_recorded", GONE, "as_recorded"), ("", GONE, "[gone.so]"), ("", "", "[unknown]")],
)
def test_an_unknown_frame_has_the_name_of_the_recording(recorded_name: str, module: str, shown: str) -> None:
    (named,) = Namer().frame(RecordedFrame(0x10, name=recorded_name), Answer(0x10, Verdict.UNKNOWN, module=module))
    assert (named.name, named.linkage_name, named.address) == (shown, "", 0x10)


def test_what_the_recording_says_is_inlined_is_shown_where_nothing_else_is_known() -> None:
    frame = RecordedFrame(0x10, None, "run", "run.cc", 40, inlined=(Inlined("copy", "copy.h", 7),))
    assert Namer().frame(frame, Answer(0x10, Verdict.UNKNOWN)) == (
        NamedFrame("copy", "", "copy.h", 7, 0, "", 0x10, is_inlined=True),
        NamedFrame("run", "", "run.cc", 40, 0, "", 0x10),
    )


def test_a_certain_name_is_shown_with_its_place() -> None:
    frame = RecordedFrame(0x10, None, "do_syscall_64", "common.c", 83, is_certain=True)
    answer = Answer(0x10, Verdict.UNMERGED, "do_syscall_64")
    assert Namer().frame(frame, answer) == (NamedFrame("do_syscall_64", "", "common.c", 83, 0, "", 0x10),)
    (nameless,) = Namer().frame(RecordedFrame(0x10, is_certain=True), Answer(0x10, Verdict.UNMERGED))
    assert nameless.name == "[unknown]"


def test_inlined_functions_stand_inside_of_their_caller() -> None:
    frames = (Frame("_Z4copyv", "copy.h", 7, 3, True), Frame("_Z3runv", "run.cc", 40, 5, False))
    answer = Answer(0x10, Verdict.UNIQUE, "_Z3runv", frames=frames)
    assert Namer().frame(RecordedFrame(0x12), answer) == (
        NamedFrame("copy()", "_Z4copyv", "copy.h", 7, 3, "", 0x12, is_inlined=True),
        NamedFrame("run()", "_Z3runv", "run.cc", 40, 5, "", 0x12),
    )
    assert Namer(with_lines=False).frame(RecordedFrame(0x12), answer) == (NamedFrame("run()", "_Z3runv", address=0x12),)


def test_frames_that_tail_calls_left_out_have_no_address() -> None:
    missing = Answer(0x40, Verdict.UNMERGED, "_Z4openv", tail_call=True)
    answer = Answer(0x10, Verdict.UNMERGED, "_Z3runv", missing=(missing,))
    shown = Namer().frame(RecordedFrame(0x10), answer)
    assert [(each.name, each.address) for each in shown] == [("run()", 0x10), ("open()", None)]


def several(count: int) -> Answer:
    """Return the answer for a frame of a body with `count` functions, any of which its caller may call."""
    return Resolver(Program([fold(0, count), fold(1, 1)])).resolve((pc(0), ret(1)))[0]


def test_a_frame_that_can_be_several_functions() -> None:
    frame = RecordedFrame(pc(0))
    answer = several(3)
    assert names((frame,), (answer,)) == ["b0m0 | b0m1 | b0m2"]
    assert names((frame,), (answer,), Namer(Ambiguous.FIRST)) == ["b0m0"]
    assert names((frame,), (answer,), Namer(Ambiguous.BODY)) == ["b0m0 [one of 3]"]
    assert not Namer().frame(frame, answer)[0].is_settled
    assert names((frame,), (several(9),)) == ["b0m0 | b0m1 | b0m2 | b0m3 | 5 more"]
    assert names((frame,), (several(5),)) == ["b0m0 | b0m1 | b0m2 | b0m3 | b0m4"]
