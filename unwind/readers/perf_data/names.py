"""The frame of an address: which file it is in, or what is known of code that is in none."""

from __future__ import annotations

from collections.abc import Callable

from unwind.process.maps import VDSO
from unwind.readers.perf_data.changes import MadeFunction, is_vdso
from unwind.readers.perf_data.run_time_code import RunTimeCode
from unwind.readers.perf_data.spaces import Space
from unwind.samples.recording import RecordedFrame
from unwind.walk.vdso import RecordedVdso

_KEPT = 1 << 20


class UserFrames:
    """Makes the frames of processes: one for each address in each module, however many views ask for it."""

    def __init__(self, run_time_code: RunTimeCode, vdso: RecordedVdso) -> None:
        self._run_time_code, self._vdso = run_time_code, vdso
        self._made: dict[tuple[int, int, bool], RecordedFrame] = {}

    def of(self, space: Space, number: int) -> Callable[[int, bool], RecordedFrame]:
        """Return what makes the frames of a space with so many mappings of its own."""

        def make(address: int, is_exact: bool) -> RecordedFrame:
            mapped = space.find(address if is_exact else max(address - 1, 0), number)
            if mapped is None:
                return RecordedFrame(address, is_exact=is_exact)
            if mapped.made is not None:
                return self._of_made(mapped.made, address, is_exact)
            if mapped.module is None:
                if mapped.path == VDSO:
                    name = self._vdso.name(mapped.start, address - (not is_exact))
                    return RecordedFrame(address, name=name or VDSO, is_exact=is_exact, is_certain=bool(name))
                name = ""
                if not is_vdso(mapped.path):
                    name = self._run_time_code.name(space.pid, space.since, address - (not is_exact))
                shown = name or (mapped.path if mapped.path.startswith("[") else "")
                # not certain: a map does not say when an address got another function
                return RecordedFrame(address, name=shown, is_exact=is_exact)
            key = id(mapped.module), address, is_exact  # modules live as long as the recording
            frame = self._made.get(key)
            if frame is None:
                if len(self._made) >= _KEPT:
                    self._made.clear()
                frame = self._made[key] = RecordedFrame(address, mapped.module, is_exact=is_exact)
            return frame

        return make

    def _of_made(self, function: MadeFunction, address: int, is_exact: bool) -> RecordedFrame:
        key = id(function), address, is_exact  # as long as the recording, too
        frame = self._made.get(key)
        if frame is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            code = function.at(address - (not is_exact))
            frame = self._made[key] = RecordedFrame(
                address,
                None,
                code.name,
                code.path,
                code.line,
                is_exact,
                is_certain=function.is_certain and bool(code.name),
            )
        return frame
