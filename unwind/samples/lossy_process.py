"""Processes of which it is known which frames their stacks may lack, where the stacks of one text differ in that."""

from __future__ import annotations

from dataclasses import dataclass

from unwind.samples.recording import Losses, RecordedProcess


@dataclass(eq=False, slots=True)
class LossyProcess(RecordedProcess):
    """A process whose stacks may lack frames of their own kind."""

    losses: Losses = Losses.NONE


def losses_in(process: RecordedProcess, of_all: Losses) -> Losses:
    """Return which frames the stacks of a process may lack; `of_all` is what holds for the whole recording."""
    return process.losses if isinstance(process, LossyProcess) else of_all
