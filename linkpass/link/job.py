"""A link that folds, and the pass over its output.

    changed in the link                    so that
    -o in a temporary directory            the program has its name only when it has its tables (`linkpass.link.output`)
    --print-icf-sections --trace           classes and objects are known; the user does not see the lines of either
    no -s (`linkpass.link.stripping`)      there are symbols for the pass; the program is stripped after the link
    see `linkpass.link.lto_objects`        objects that are made during the link (LTO) are kept until the pass is done
    see `linkpass.link.driver_objects`     objects that the compiler makes before it, and deletes, are kept, too
    --color-diagnostics and the like       diagnostics have their usual colours, though they go through a pipe

While the linker works, the objects that it names are read, and its report (`linkpass.link.printed`). A file that this
link has not written is never touched: a build system may ask for `-Wl,--version`, or link nothing
(`--thinlto-index-only`), beside an old program.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from icf.errors import IcfError
from linkpass.link.command import LinkCommand
from linkpass.link.driver import passes_words_on
from linkpass.link.output import HiddenOutput, Identity
from linkpass.link.printed import Printed, read_printed
from linkpass.link.run import RunningLink
from linkpass.link.start import start_link
from linkpass.link.stripping import leaves_out_symbols, strip, with_symbols

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from linkpass.link.distinct import Distinct
    from linkpass.link.lto_objects import LtoObjects
    from linkpass.link.repeat import Done, Repeat
    from linkpass.options import Summary
    from linkpass.pipeline import Inspect

Report: TypeAlias = Callable[..., None]  # takes lines
_FILES_WITH_OUTPUT_NAME = ("-Map", "--Map", "--dependency-file", "--time-trace", "--why-extract")


class Wishes(NamedTuple):
    """The options of `icf link`."""

    strict: bool
    summary: bool
    keep_relocations: bool
    in_image: bool
    distinct: str | None = None  # a profile, "" for none; None: functions are not kept apart


def link_and_pass(command: LinkCommand, wishes: Wishes, report: Report) -> int:
    """Run the link, and the pass over its output, with `report` for lines on it; return the exit status."""
    gc.disable()  # all objects are used until the end
    given = command
    if leaves_out_symbols(command):
        command, wishes = with_symbols(command) or command, wishes._replace(in_image=True)
    status = None
    hides = passes_words_on(command) and not any(option.startswith("--incremental") for option in command.options)
    if hides and wishes.distinct is not None:
        status = _link_apart(command, wishes, wishes.distinct, report)
    elif wishes.distinct is not None:
        what = f"what {command.command[0]} does is not known"
        report(f"icf link: warning: {command.output}: functions are not kept apart: {what}")
    if hides and status is None:
        with HiddenOutput(command.output) as hidden:
            status = _link_and_pass(command, wishes, hidden, report)
    if status is None:
        status = _link_and_pass(command, wishes, None, report)
    return _run(given) if status is None else status


def _link_apart(command: LinkCommand, wishes: Wishes, profile: str, report: Report) -> int | None:
    """Link until nothing is open; return the exit status, None if functions cannot be kept apart."""
    from linkpass.link.distinct import Distinct

    with Distinct(command, profile) as distinct:
        while True:
            link = distinct.begin()
            with HiddenOutput(command.output) as hidden:
                hidden.names = distinct.names
                status = _link_and_pass(link, wishes, hidden, report, distinct)
            if status == 0 and distinct.wants_another:
                continue
            if status == 0 or not distinct.names:
                return status
            report(
                f"icf link: warning: {command.output}: the link of copies of its objects failed: nothing is kept apart"
            )
            return None


def _link_and_pass(
    command: LinkCommand,
    wishes: Wishes,
    hidden: HiddenOutput | None,
    report: Report,
    distinct: Distinct | None = None,
) -> int | None:
    """Return the exit status; None if the command has to be run another way: in its own place, or as it was given."""
    with ExitStack() as folders:
        made, lto = "", None
        if command.compiles():
            from linkpass.link.lto_objects import LtoObjects, keeps_objects

            if not keeps_objects(command):
                made = folders.enter_context(_temporary_folder())
            written = command.output if hidden is None or not hidden.path else hidden.path
            lto = LtoObjects(command, made, written)
        kept = None
        if passes_words_on(command) and command.has_sources():
            from linkpass.link.driver_objects import keep_driver_objects

            kept = keep_driver_objects(command, folders.enter_context(_temporary_folder()))
        before = Identity.of(command.output)
        link = start_link(
            command,
            hidden,
            made,
            kept,
            keep_relocations=wishes.keep_relocations,
            is_shown=distinct is None or distinct.link_count == 1,
        )
        links, repeat = None, None
        if lto is None and distinct is None:  # which has copies of the inputs, in another place each time
            from linkpass.link.kept_links import KeptLinks  # the link runs by now: its start does not wait for imports

            links = KeptLinks()
        if links is not None and hidden is not None and not wishes.in_image:
            from linkpass.link.repeat import Repeat

            repeat = Repeat(command, links, keeps_relocations=wishes.keep_relocations)
        is_likely_same = repeat is not None and repeat.is_likely()
        printed = None if is_likely_same else read_printed(link, command.output, links)
        status = link.wait()
        has_written = Identity.of(command.output) not in (before, None)
        if hidden is not None and hidden.is_written():
            if (status or has_written) and not link.was_interrupted:
                return None  # a program that runs after the linker expects the output under its name
        elif not has_written:  # it was not a link
            if hidden is not None and not status:
                hidden.publish_others()
            return status
        else:
            hidden = None
            repeat = None
        return status or _finish(command, wishes, hidden, link, printed, lto, repeat, report, distinct)


def _finish(
    command: LinkCommand,
    wishes: Wishes,
    hidden: HiddenOutput | None,
    link: RunningLink,
    printed: Printed | Exception | None,
    lto: LtoObjects | None,
    repeat: Repeat | None,
    report: Report,
    distinct: Distinct | None,
) -> int | None:
    """Run the pass, and give the program its name; None if the output is not the requested program."""
    output = command.output
    path = output if hidden is None else hidden.path
    shown = str if hidden is None else hidden.shown
    failed = False
    try:
        done = repeat.again(link, path) if repeat is not None and printed is None else None
        if done is None:
            printed = read_printed(link, output, repeat.links if repeat else None) if printed is None else printed
            if isinstance(printed, Exception):
                raise printed
            if lto is not None:
                lto.add_to(printed.objects)
            inspect = None if distinct is None else partial(distinct.inspect, objects=printed.objects)
            done = _pass(path, os.path.dirname(output), link, printed, shown, repeat, inspect, in_image=wishes.in_image)
        if distinct is not None and distinct.wants_another:
            return 0
        report(*done.notes)
        if wishes.summary:
            report(*done.lines)
        if distinct is not None:
            distinct.finish(report)
    except Exception as error:  # an error of the pass must not break a build
        failed = True
        kind = "error" if wishes.strict else "warning"
        report(f"icf link: {kind}: the pass failed: {shown(_described(error))}")
    if failed and wishes.strict:
        return 1
    if failed:
        report(f"icf link: {output}: left as linked, no tables added")
        if wishes.in_image:
            return None  # it is not stripped
    if hidden is not None:
        hidden.publish(tuple(filter(None, map(command.value_of, _FILES_WITH_OUTPUT_NAME))))
    return 0


def _pass(
    path: str,
    directory: str,
    link: RunningLink,
    printed: Printed,
    shown: Callable[[str], str],
    repeat: Repeat | None,
    inspect: Inspect | None,
    *,
    in_image: bool,
) -> Done:
    """Run the pass over the file at `path`, whose place is in `directory`; return what it did, with texts as `shown`.

    `in_image` strips it, too; `inspect` gets what the pass has found.
    """
    from linkpass.pipeline import SWITCH_INTERVAL_S, Options, run_pass

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    objects, folded = printed
    options = Options(debug_roots=(directory or os.curdir,))  # .dwo files may lie beside the program
    if repeat is not None:
        return repeat.keep(
            link,
            path,
            lambda laid_out, beside: _done(run_pass(path, options, folded, objects, laid_out, beside=beside), shown),
        )
    if not in_image:
        return _done(run_pass(path, options, folded, objects, inspect=inspect), shown)
    whole = f"{path}.unstripped"
    os.rename(path, whole)
    try:
        strip(path, whole)
        options = options._replace(debug_file=whole, in_image=True)
        return _done(run_pass(path, options, folded, objects, inspect=inspect), shown)
    finally:
        os.unlink(whole)


def _done(summary: Summary, shown: Callable[[str], str]) -> Done:
    from linkpass.compiler_merging import merging_note
    from linkpass.link.repeat import Done
    from linkpass.summary import summary_lines

    notes = merging_note(summary.image, summary.merging_compilers)
    return Done(tuple(map(shown, summary_lines(summary))), tuple(map(shown, notes)), summary.is_self_contained)


def _temporary_folder() -> TemporaryDirectory[str]:
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix="icf-link-")


def _run(command: LinkCommand) -> int:
    """Run a command as it was given."""
    from subprocess import run

    status = run(command.command).returncode
    return status if status >= 0 else 128 - status


def _described(error: Exception) -> str:
    """Return the text of an error; of an unexpected one also the place."""
    if isinstance(error, IcfError | OSError):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" in {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}" if place else ""
    return f"{type(error).__name__}{where}: {error}"
