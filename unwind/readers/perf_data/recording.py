"""The two passes over a perf.data file: first all but samples, then the samples."""

from __future__ import annotations

import os

from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.log import warn
from icf.reader import Reader
from unwind.process.maps import VDSO
from unwind.process.roots import Roots
from unwind.readers.perf_data.changes import Changes
from unwind.readers.perf_data.dumps import Dumps
from unwind.readers.perf_data.events import parse_attr
from unwind.readers.perf_data.frames import other_tables
from unwind.readers.perf_data.header import KERNEL, Header, read_header
from unwind.readers.perf_data.jitdumps import add_jitdumps
from unwind.readers.perf_data.kernel import KernelNames, running_build_id
from unwind.readers.perf_data.layout import (
    PERF_RECORD_CALLCHAIN_DEFERRED,
    PERF_RECORD_EVENT_UPDATE,
    PERF_RECORD_HEADER_ATTR,
    PERF_RECORD_HEADER_BUILD_ID,
    PERF_RECORD_HEADER_FEATURE,
    PERF_RECORD_SAMPLE,
    SAMPLE_CALLCHAIN,
    U64,
)
from unwind.readers.perf_data.names import UserFrames
from unwind.readers.perf_data.objects import CopiedObjects
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.records import Record, Records
from unwind.readers.perf_data.run_time_code import RunTimeCode
from unwind.readers.perf_data.samples import Samples
from unwind.readers.perf_data.views import Views
from unwind.readers.source import Source
from unwind.samples.recording import Losses, Recording
from unwind.walk.vdso import RecordedVdso

_EVENT_UPDATE_NAME = 2
_FIRST_PERIOD = 1  # index among the values: the first event's


def read_recording(source: Source) -> Recording:
    """Return the recording; `FormatError` for what breaks the format, `UnsupportedError` for big-endian ones."""
    content = source.content()
    header = read_header(content)
    changes, is_compressed = _first_pass(content, header)
    if not header.events.all:
        raise FormatError(content.path, "file header", 0, "there is no event")
    values = header.events.values()
    roots = Roots(changes.mounts)
    add_jitdumps(
        changes, source.images, roots, is_monotonic=all(event.attr.is_monotonic for event in header.events.all)
    )
    processes = Processes(changes, roots)
    kernel_id = header.build_ids.get(KERNEL, b"")
    kernel = KernelNames(changes, header, source.images)
    is_same_kernel = bool(kernel_id) and kernel_id == running_build_id()
    is_here = header.hostname == os.uname().nodename and is_same_kernel
    vdso = RecordedVdso(header.build_ids.get(VDSO, b""), source.images.roots, is_same_kernel=is_same_kernel)
    began_ns = min((change.time for change in changes.all if change.time), default=0)
    frames = UserFrames(RunTimeCode(is_here, began_ns, roots), vdso)
    views = Views(processes, frames, other_tables(kernel.frame))
    dumps = Dumps(header.arch, source.images, vdso)
    records = Records(content, *header.data, is_compressed=is_compressed)
    objects = CopiedObjects(source, dumps, records)
    samples = Samples(header, records, views, processes, dumps, objects)
    return Recording("perf", samples, values, _losses(header), shown=_FIRST_PERIOD)


def _first_pass(content: FileBytes, header: Header) -> tuple[Changes, bool]:
    """Read all but the samples, and whether any record is compressed; reports what is missing."""
    changes = Changes(header)
    records = Records(content, *header.data)
    for record in records.read(skipped=(PERF_RECORD_SAMPLE, PERF_RECORD_CALLCHAIN_DEFERRED)):
        kind, misc, buffer, at, end = record
        if kind == PERF_RECORD_HEADER_ATTR:
            attr = parse_attr(buffer[at:end], content.path, "data", at)
            ids = buffer[at + attr.size_bytes : end]
            header.events.add(attr, memoryview(ids[: len(ids) // 8 * 8]).cast("Q"))
        elif kind == PERF_RECORD_HEADER_BUILD_ID:
            header.add_build_id(misc, buffer[at:end])
        elif kind == PERF_RECORD_HEADER_FEATURE and end - at >= U64.size:
            feature = U64.unpack_from(buffer, at)[0]
            header.read_feature(feature, Reader(buffer, content.path, f"feature {feature}", at + U64.size, end))
        elif kind == PERF_RECORD_EVENT_UPDATE:
            _update(record, header)
        else:
            changes.take(record, records)
    path = content.path
    if header.is_unfinished:
        warn(f"{path}: perf was ended before it finished the file: build ids and names of events are missing")
    if header.are_features_cut:
        warn(f"{path}: the file is cut off after its records: some build ids or names of events are missing")
    if (cut_at := records.cut_at) is not None:
        changes.is_whole = False
        warn(f"{path}: data+{cut_at:#x}: the last record is cut off: what came before it is used")
    if changes.lost_count:
        warn(f"{path}: perf dropped {changes.lost_count} records as it could not keep up: samples are missing")
    return changes, records.has_compressed


def _update(record: Record, header: Header) -> None:
    """Take the name of an event: u64 kind, u64 id, name."""
    _, _, buffer, at, end = record
    if end - at > 2 * U64.size and U64.unpack_from(buffer, at)[0] == _EVENT_UPDATE_NAME:
        name = buffer[at + 2 * U64.size : end].partition(b"\0")[0].decode("utf-8", "replace")
        header.events.name(U64.unpack_from(buffer, at + U64.size), name)


def _losses(header: Header) -> Losses:
    """Return which frames call chains may lack: the kernel walks frame pointers; the processor keeps some calls."""
    attrs = [event.attr for event in header.events.all]
    if any(attr.has_call_stack for attr in attrs):
        return Losses.ANY
    has_chains = any(attr.sample_type & SAMPLE_CALLCHAIN and not attr.excludes_user_chain for attr in attrs)
    return Losses.FRAME_POINTERS if has_chains else Losses.NONE
