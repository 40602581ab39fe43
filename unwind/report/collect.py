"""Collect a report: of an image, or of a recording and the images that its samples lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from unwind.program.program import Program
from unwind.report.data import Image, MergedBody, Report
from unwind.report.merged import facts_of, merged_bodies
from unwind.report.profile import BodyPlace, BodyWeights, ProfileCollector
from unwind.samples.recording import Recording
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths

_BODIES_SHOWN = 2000
_BUILD_ID = 1  # a kind of identity


def of_image(path: str, search: SearchPaths) -> Report:
    """Return the report of an image: what is merged in it."""
    with ExitStack() as opened:
        cache = search.open(path)
        program = search.program(cache, path, opened)
        identity = cache.head.identity
        return _report(path, {(path, identity.value if identity.kind == _BUILD_ID else b""): program})


def of_recording(
    path: str,
    recording: Recording,
    resolver: RecordedResolver,
    step: Callable[[int], None] = lambda _: None,
) -> Report:
    """Return the report of a recording; weights are those of the value that it shows.

    `step` is called with numbers of samples as they are read. A recording that breaks a rule of its format has a report
    of what stands before that place, and the error as its `problem`.
    """
    collector = ProfileCollector(resolver, recording)
    profile, problem = collector.collect(step)
    report = _report(path, collector.programs, collector.bodies)
    report.profile, report.problem = profile, problem
    return report


def _report(
    path: str, programs: Mapping[tuple[str, bytes], Program], weights: Mapping[BodyPlace, BodyWeights] | None = None
) -> Report:
    weights = weights or {}
    images: list[Image] = []
    bodies: list[MergedBody] = []
    for image_idx, ((image_path, build_id), program) in enumerate(sorted(programs.items(), key=lambda item: item[0])):
        sampled = {at.address: each for at, each in weights.items() if at[:2] == (image_path, build_id)}
        merged = merged_bodies(program, [each.body for each in sampled.values()], image_idx)
        for body in merged:
            if body.address in sampled:
                known = sampled[body.address]
                body.total, body.self_, body.settled, body.open = known.total, known.self_, known.settled, known.open
                body.evidence, body.reasons = known.evidence, known.reasons
        images.append(facts_of(image_path, build_id, program, merged))
        bodies += merged
    bodies.sort(key=lambda body: (-body.total, -body.saved_bytes, body.image, body.address))
    return Report(path, images, bodies[:_BODIES_SHOWN], len(bodies[_BODIES_SHOWN:]))
