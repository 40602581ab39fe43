"""The stacks of a program of `tests.truth`, sampled 250 times as densely as for accuracy.

    cppcheck    63,900 different stacks, of 4,700 addresses

A resolver meets each call for the first time once. So a few thousand stacks show what the beginning costs, and these
what a stack costs that is new.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.truth.builds import COMPILERS
from tests.truth.programs import CACHE, PROGRAMS, Program, Unavailable, fetch
from tests.truth.record import AARCH64, NATIVE, Sampler, Sampling, build_sampler

_DENSER = 250  # than for accuracy
_SAMPLES = 400_000


def dense_stacks(image: Path) -> list[str]:
    """Return the distinct stacks of all runs of an image that tests.truth built, as lines in the format `pcs`.

    None of another image. They are kept beside the image.
    """
    try:
        name, compiler, *_ = image.resolve().relative_to(CACHE.resolve()).parts
    except ValueError:
        return []
    if name not in PROGRAMS:
        return []
    kept = image.parent / "work" / f"{image.name}.dense"
    if not kept.exists() or kept.stat().st_mtime < image.stat().st_mtime:
        try:
            lines = _record(PROGRAMS[name], image, is_aarch64=COMPILERS[compiler].is_aarch64)
        except Unavailable:
            return []
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("".join(lines))
    return kept.read_text().splitlines(keepends=True)


def _record(program: Program, image: Path, *, is_aarch64: bool) -> list[str]:
    machine = AARCH64 if is_aarch64 else NATIVE
    sampler = Sampler(build_sampler(CACHE, machine), machine)
    source = fetch(program.package) if program.package else CACHE / "src" / program.name
    sampling = Sampling(gap=max(program.gap // _DENSER, 1), sample_max=_SAMPLES)
    found: dict[str, None] = {}
    with TemporaryDirectory() as folder:
        for where, arguments in program.runs(source, Path(folder) / "run"):
            recording = sampler.record(image, arguments, Path(folder) / "samples", sampling, None, where)
            own = next(module for module in recording.modules if Path(module.path) == image.resolve())
            for sample in recording.samples:
                frames = [hex(each - own.bias) if own.low <= each < own.high else "?" for each in sample.addresses]
                inner = [] if sample.is_exact else ["?"]  # the allocator, which is not in the sample
                found[" ".join([*inner, *frames]) + "\n"] = None
    return list(found)
