"""Starts a link with the options that the pass needs, and with those that keep its diagnostics as they were."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from linkpass.link.command import LinkCommand
from linkpass.link.output import HiddenOutput
from linkpass.link.run import RunningLink

if TYPE_CHECKING:
    from linkpass.link.driver_objects import DriverObjects

_REPORT, _TRACE, _RELOCATIONS = "--print-icf-sections", "--trace", "--emit-relocs"


def start_link(
    command: LinkCommand,
    hidden: HiddenOutput | None,
    made: str,
    kept: DriverObjects | None,
    *,
    keep_relocations: bool,
    is_shown: bool,
) -> RunningLink:
    """Start the link with the options that the pass needs; `made` is the directory for objects that the link makes.

    `kept`: where those stay that the driver makes. `is_shown`: what the linker prints goes through.
    """
    if kept is not None:
        command = kept.command
    added = [] if command.has(_REPORT) else [_REPORT]
    added += [] if command.has(_TRACE, "-t") else [_TRACE]
    keeps_relocations = keep_relocations and not command.has(_RELOCATIONS, "-q")
    added += [_RELOCATIONS] if keeps_relocations and command.linker.relocations_restore else []
    show_report, show_inputs = _REPORT not in added, _TRACE not in added
    added += _linker_colours(command)
    added += ["-o", hidden.path] if hidden is not None and hidden.path else []
    if made:
        from linkpass.link.lto_objects import with_kept_objects

        words = with_kept_objects(command, added, made)
    else:
        words = command.with_options(added)
    return RunningLink(
        words + _driver_colours(command),
        _environment(command) | (kept.environment if kept is not None else {}),
        show_report=show_report,
        show_inputs=show_inputs,
        second_name=_nowhere if kept is None else kept.second_name,
        corrected=_nothing if not is_shown else bytes if hidden is None else hidden.shown_bytes,
    )


def _nothing(_: bytes) -> bytes:
    return b""


def _nowhere(_: str) -> str:
    return ""


def _environment(command: LinkCommand) -> dict[str, str]:
    """Return the environment of the link: gold words its report in the user's language, so this sets it to C."""
    return {**os.environ, "LC_ALL": "C"} if command.linker.is_translated else dict(os.environ)


def _linker_colours(command: LinkCommand) -> list[str]:
    """Return the options with which a linker colours its diagnostics as it does on a terminal."""
    option = "--color-diagnostics"
    return [option] if command.linker.colours and _is_colourful() and not command.has(option) else []


def _driver_colours(command: LinkCommand) -> list[str]:
    """Return the same for a compiler."""
    if command.direct or not _is_colourful():
        return []
    is_set = any("color-diagnostics" in word or "diagnostics-color" in word for word in command.arguments)
    return [] if is_set else ["-fdiagnostics-color=always"]


def _is_colourful() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and "NO_COLOR" not in os.environ
