"""What a worker of an engine keeps: one resolver, so each symcache is opened once, however many tasks it runs.

    manifest that the user trusts ──> driver ──> tasks ──> workers
    shared folder, server or object store ─── symcaches ────> own directory of each worker, checked by the manifest

A worker that lacks the symcache of a build takes it from the place, if the manifest lists it and the file is what the
manifest has. Else the frames of that module are unknown, the rows say so in `problem`, and the job goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from icf.errors import IcfError
from icf.log import warn
from unwind.batch.resolver import BatchResolver
from unwind.samples.recording import Losses, RecordedModule
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.publish import read_manifest, take
from unwind.target.search import SearchPaths

_TOGETHER = 1 << 16  # rows


class Job(NamedTuple):
    """What all workers of a job need; it is sent to them.

    Attributes:
        image: path, on each worker, of the image that stacks without modules are of; None: they are of none.
        losses: the frames that the stacks may lack.
        cache_dir: the worker's own directory of symcaches; None: $ICF_CACHE_DIR, else the user's.
        symcaches: a directory, the URL of a server, or a URL of fsspec such as `s3://bucket/symcaches`.
        manifest: (name, SHA-256 in hexadecimal) of each symcache there that the user trusts (`manifest_of`).
        with_lines: whether frames have files and lines.
    """

    image: str | None = None
    losses: Losses = Losses.FRAME_POINTERS
    cache_dir: str | None = None
    symcaches: str | None = None
    manifest: tuple[tuple[str, str], ...] = ()
    with_lines: bool = True


def manifest_of(path: str) -> tuple[tuple[str, str], ...]:
    """Return what `icf cache push` has printed to a file; `IcfError` for a line that is wrong."""
    return tuple(sorted(read_manifest(path).items()))


def resolve_batches(job: Job, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the answers for record batches of stacks, in this worker, in the columns of `unwind.arrow.answers`.

    Raises `IcfError` for a column or value that breaks its rule.
    """
    resolver = _resolver(job)
    for batch in batches:
        for start in range(0, batch.num_rows, _TOGETHER):
            yield resolver.resolve(batch.slice(start, _TOGETHER))


@cache
def _resolver(job: Job) -> BatchResolver:
    def fetch(module: RecordedModule) -> None:
        if job.symcaches is not None and module.build_id:
            _fetch(job, job.symcaches, module.build_id.hex())

    search = SearchPaths(cache_dir=job.cache_dir)
    return BatchResolver(
        job.image, losses=job.losses, search=search, with_lines=job.with_lines, on_module=fetch, path="the job's stacks"
    )


def _fetch(job: Job, place: str, build_id: str) -> None:
    """Take the symcaches of a build that the manifest lists and this worker lacks."""
    folder = Folder.chosen(job.cache_dir)
    for name, digest in job.manifest:
        if name.startswith(f"build-id-{build_id}-"):
            try:
                if folder.open(name) is None:
                    take(folder, name, place, digest)
            except IcfError as error:
                warn(f"{error}: not used")
