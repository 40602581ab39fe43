"""Reads what a linker prints while it works: the objects of the link, and what it folds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from linkpass.link.run import RunningLink

if TYPE_CHECKING:
    from icf.folds.report import FoldedSections
    from linkpass.link.kept_links import KeptLinks
    from linkpass.objects.functions import LinkObjects


class Printed(NamedTuple):
    """What the pass has of what the linker prints."""

    objects: LinkObjects
    folded: list[FoldedSections]


def read_printed(link: RunningLink, output: str, links: KeptLinks | None) -> Printed | Exception:
    """Read the objects as the linker names them, and its report, and prepare the pass.

    Objects that are kept in `links` are not read again. Return an error: the link goes on.
    """
    try:
        return _printed_by(link, output, links)
    except Exception as error:
        return error


def _printed_by(link: RunningLink, output: str, links: KeptLinks | None) -> Printed:
    from icf.folds.report import IcfReport
    from icf.linkinputs.inputs import open_inputs
    from linkpass.link.kept_objects import KeptObjects
    from linkpass.objects.functions import LinkObjects
    from linkpass.pipeline import prepare

    prepare()
    objects, kept = LinkObjects(), KeptObjects(links, link, output)
    inputs = open_inputs([], missing_ok=True, opened=link.files)
    folded = IcfReport("the linker's report")
    for printed in link.lines():
        if isinstance(printed, bytes):
            kept.save(objects)  # by now all inputs are known, and the linker goes on for a while
            objects.prepare()
            folded.add(printed.decode("utf-8", "surrogateescape"))
            continue
        for object_file in inputs.of(printed):
            kept.add(objects, printed, object_file)
    kept.save(objects)
    return Printed(objects, folded.classes())
