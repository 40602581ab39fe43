"""A report as text: the functions of a profile before and after, or what is merged in an image.

self before    after    total before    after    function
     30.2 %        -          61.0 %        -    List<Order>::grow()
          -   30.2 %               -   61.0 %    List<Payment>::grow()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icf.printable import printable
from unwind.report.data import Function, Image, MergedBody, Profile, Report

_SHOWN = 40  # rows
_NAMES = 3  # of a body
_LEAST = 0.0005  # of all weight: what is shown as 0.1 % at least


def table_of(report: Report) -> str:
    """Return the text of a report."""
    profile = report.profile
    lines = _of_images(report.images, report.bodies) if profile is None else _of_profile(profile)
    return "".join(f"{printable(line)}\n" for line in lines)


def _of_profile(profile: Profile) -> Iterator[str]:
    weight = profile.weight
    of = f", {profile.value}: {weight:,} {profile.unit}" if profile.unit != "count" else ""
    yield f"{profile.samples:,} sample{'s' if profile.samples != 1 else ''}{of}"
    yield f"{_share(profile.changed, weight):>8}  have a frame with another name than before"
    yield f"{_share(profile.open, weight):>8}  have a frame that can be several functions"
    yield f"{_share(profile.unknown, weight):>8}  have a frame without a name"
    yield ""
    yield f"{'self before':>12} {'after':>8} {'total before':>15} {'after':>8}    function"
    least = weight * _LEAST
    shown = [each for each in profile.functions if max(_weights(each)) >= least]
    shown.sort(key=lambda each: (-max(each.self_before, each.self_after), -max(_weights(each)), each.name))
    for each in shown[:_SHOWN]:
        cells = [_share(value, weight) if value else "-" for value in _weights(each)]
        yield f"{cells[0]:>12} {cells[1]:>8} {cells[2]:>15} {cells[3]:>8}    {each.name}"
    left = len(profile.functions) + profile.functions_left_out - len(shown[:_SHOWN])
    if left:
        yield f"and {left:,} more"


def _weights(function: Function) -> tuple[int, int, int, int]:
    return function.self_before, function.self_after, function.total_before, function.total_after


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.1f} %"


def _of_images(images: Sequence[Image], bodies: Sequence[MergedBody]) -> Iterator[str]:
    for image in images:
        yield f"{image.path}: {image.functions:,} functions share {image.bodies:,} bodies"
        yield f"{image.saved_bytes:,} bytes of code saved; frames of {image.open_bodies:,} bodies may stay ambiguous"
    if not bodies:
        return
    yield ""
    yield f"{'saved bytes':>12} {'functions':>10}    body"
    for body in bodies[:_SHOWN]:
        names = " | ".join(each.name for each in body.functions[:_NAMES])
        more = f" | {len(body.functions) - _NAMES:,} more" if len(body.functions) > _NAMES else ""
        yield f"{body.saved_bytes:>12,} {len(body.functions):>10,}    {body.address:#x}  {names}{more}"
    if len(bodies) > _SHOWN:
        yield f"and {len(bodies) - _SHOWN:,} more"
