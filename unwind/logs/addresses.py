"""Put the function after each address in a text that lies in one: for IR and assembly that a JIT compiler prints.

    call 0x55555555d8c5      ──>      call 0x55555555d8c5 <List<User>::sum()+0x12>

An address has `0x` and four digits or more, or else twelve or sixteen digits. One that lies in no function stays, and
so does an offset (`+0x12`) and what has its name already (`0x1136 <main>`). Of merged functions an address alone leaves
all.
"""

from __future__ import annotations

import re

from icf.model import Verdict
from unwind.logs.forms import encoded
from unwind.logs.resolver import StackResolver
from unwind.readers.module_places import ModulePlaces
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import RecordedFrame, RecordedProcess, Sample
from unwind.writers.named import Namer

_ADDRESS = re.compile(
    rb"(?<![0-9A-Za-z_+-])(?:0[xX][0-9a-fA-F]{4,16}|[0-9a-f]{16}|[0-9a-f]{12})(?![0-9A-Za-z_])(?! ?<)"
)
_KEPT = 1 << 18


class AddressNotes:
    """The functions at addresses, each looked up once."""

    def __init__(self, resolver: StackResolver, namer: Namer, places: ModulePlaces, *, keeps: bool) -> None:
        self._resolver, self._namer, self._places = resolver, namer, places
        self._keeps = keeps  # else the same address may be another function in the next text
        self._known: dict[int, bytes] = {}
        self._process = RecordedProcess(modules=sorted(places.modules, key=lambda each: (each.path, each.build_id)))

    def annotate(self, text: bytes) -> bytes:
        """Return a text with the names of the functions that its addresses lie in."""
        if not self._keeps or len(self._known) >= _KEPT:
            self._known.clear()
        self._look_up({int(each, 16) for each in _ADDRESS.findall(text)} - self._known.keys())
        return _ADDRESS.sub(lambda found: found[0] + self._known[int(found[0], 16)], text)

    def _look_up(self, addresses: set[int]) -> None:
        asked = []
        for address in sorted(addresses):
            at, module = self._places.find(address)
            asked.append(Sample((RecordedFrame(at, module),), self._process))
        for address, resolved in zip(sorted(addresses), self._resolver.resolve(asked), strict=True):
            self._known[address] = self._note(resolved)

    def _note(self, resolved: Resolved) -> bytes:
        (frame,), (answer,) = resolved.sample.frames, resolved.answers
        if answer.verdict is Verdict.UNKNOWN or not answer.size_bytes or frame.address is None:
            return b""
        shown = [each for each in self._namer.frame(frame, answer) if each.address is not None]
        offset = frame.address - answer.start
        return b" <%b%b>" % (encoded(shown[-1].name), b"+%#x" % offset if offset else b"")
