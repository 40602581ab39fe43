"""The parts of a program: call-site records, machine code, functions; as protocols, and as plain data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from icf.model import DieOffset, Evidence, FoldClass

if TYPE_CHECKING:
    from unwind.program.frame import Frame
    from unwind.program.passed import Passed, Registers


class CallRecord(NamedTuple):
    """In the function `caller`, the call before `call_site` calls `callee`; caller 0: not known which."""

    call_site: int
    caller: DieOffset
    callee: DieOffset
    evidence: Evidence = Evidence.TABLE


class SiteKind(Enum):
    """The kind of the instruction that ends at a return address; the value is its description."""

    DIRECT = "direct call"
    IMPORT = "call of an import"
    INDIRECT = "indirect call"
    NONE = "no call"
    UNKNOWN = "code that cannot be read"


class CallSite(NamedTuple):
    """The instruction before a return address; `target` of a direct call, `symbol` of an import."""

    kind: SiteKind
    target: int = 0
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Jumps:
    """The jumps by which control leaves a body; `indirect`: it may leave by a pointer, too."""

    direct: tuple[tuple[int, int], ...] = ()  # (address of the jump, target)
    indirect: bool = False
    imports: tuple[tuple[int, str], ...] = ()  # (address of the jump, symbol of the PLT stub it goes to)


class Code(Protocol):
    """The machine code, as far as the resolver needs it."""

    @property
    def signs_pointers(self) -> bool:
        """Whether the upper bits of a return address may hold a signature (pointer authentication)."""

    def call_site(self, return_address: int) -> CallSite: ...

    def call_end(self, vaddr: int) -> int:
        """Return where the call ends that starts at `vaddr`; 0 if none does."""

    def ends_call(self, start: int, end: int, vaddr: int) -> bool | None:
        """Return whether a call of the function in `start:end` ends at `vaddr`; None: not known."""

    def calls(self, start: int, end: int) -> Collection[int] | None:
        """Return the return addresses of the calls in `start:end`; None if they are not known."""

    def has_frame(self, start: int, end: int, vaddr: int) -> bool:
        """Return whether the function in `start:end` has set up its frame pointer at `vaddr`; False: not known."""

    def calls_have_frame(self, start: int, end: int) -> bool:
        """Return whether the function in `start:end` has its frame wherever it calls; False: not known."""

    def calls_of(self, targets: Sequence[int]) -> Sequence[int]:
        """Return the return addresses of all direct calls of `targets`; more may be among them."""

    def returns_from_signal(self, vaddr: int) -> bool:
        """Return whether the instructions at `vaddr`, the first or the second, are those that end a signal handler."""

    def in_stub(self, vaddr: int) -> bool:
        """Return whether a program counter is in a PLT stub: code of the linker, which only jumps."""

    def jumps(self, start: int, end: int) -> Jumps | None:
        """Return the jumps in `start:end`; None if they are not known."""

    def may_form(self, start: int, end: int, addresses: range) -> bool:
        """Return whether the code in `start:end` may form one of `addresses`."""

    def may_load(self, start: int, end: int, vtables: str) -> bool:
        """Return whether the code in `start:end` may load the address of a group of vtables from the GOT, by name."""

    def some_may_load(self, vtables: str) -> bool:
        """Return whether some code may do so."""

    def passed(self, start: int, end: int, given: Registers) -> tuple[Passed, ...] | None:
        """Return the calls and jumps to which the code in `start:end` passes on one of `given`; None: not known."""


class Lines(Protocol):
    """Inlined functions and lines; the members of a body have the numbers that they have in the tables."""

    def frames(self, vaddr: int, member_idx: int = 0) -> Sequence[Frame]:
        """Return the frames at `vaddr` in one member; none where no function is, `IndexError` for no member."""


class Records(Protocol):
    """Call-site records by return address."""

    def at(self, return_address: int) -> Sequence[CallRecord]: ...

    def sites(self, start: int, end: int) -> Sequence[int]:
        """Return the return addresses of calls in `start:end` that have a record, ascending."""


class SlotCall(NamedTuple):
    """A call that takes its target from slot `slot` of the table that its object's first word points to."""

    slot: int
    evidence: Evidence = Evidence.TABLE
    object: int = 0  # as in `icf.model.PointerJump`


class SlotCalls(Protocol):
    """Such calls by return address."""

    def get(self, return_address: int, /) -> SlotCall | None: ...


class Functions(Protocol):
    """Functions that are in no fold class, and names of vtables."""

    def find(self, vaddr: int) -> FoldClass | None: ...

    def named(self, name: str) -> Sequence[int]:
        """Return where the functions with a symbol of that name start."""

    def vtable_name(self, vptr: int) -> str: ...


class ListedCode:
    """Code given as data: sites by return address (else unknown), jumps and addresses by start of body (else none).

    `boundaries` are the ends of call instructions, if they are not just those that a site is listed for;
    `signal_returns` are the return addresses of signal handlers, `frameless` addresses where a function has no frame.
    """

    def __init__(
        self,
        sites: Mapping[int, CallSite] | None = None,
        jumps: Mapping[int, Jumps | None] | None = None,
        addresses: Mapping[int, Sequence[int]] | None = None,
        boundaries: Collection[int] | None = None,
        signal_returns: Collection[int] = (),
        frameless: Collection[int] = (),
        *,
        signs_pointers: bool = False,
    ) -> None:
        self._frameless = frameless
        self._boundaries, self._signal_returns = boundaries, signal_returns
        self.signs_pointers = signs_pointers
        self._sites = dict(sites or {})
        self._jumps = dict(jumps or {})
        self._addresses = dict(addresses or {})

    def call_site(self, return_address: int) -> CallSite:
        return self._sites.get(return_address, CallSite(SiteKind.UNKNOWN))

    def call_end(self, vaddr: int) -> int:
        return 0

    def ends_call(self, start: int, end: int, vaddr: int) -> bool | None:
        return None if self._boundaries is None else vaddr in self._boundaries

    def calls(self, start: int, end: int) -> Collection[int] | None:
        return [site for site in self._sites if start < site <= end]

    def has_frame(self, start: int, end: int, vaddr: int) -> bool:
        return vaddr not in self._frameless

    def calls_have_frame(self, start: int, end: int) -> bool:
        return not any(start <= vaddr < end for vaddr in self._frameless)

    def calls_of(self, targets: Sequence[int]) -> Sequence[int]:
        return [at for at, site in self._sites.items() if site.kind is SiteKind.DIRECT and site.target in targets]

    def returns_from_signal(self, vaddr: int) -> bool:
        return vaddr in self._signal_returns

    def in_stub(self, vaddr: int) -> bool:
        return False

    def jumps(self, start: int, end: int) -> Jumps | None:
        return self._jumps.get(start, Jumps())

    def may_form(self, start: int, end: int, addresses: range) -> bool:
        return any(address in addresses for address in self._addresses.get(start, ()))

    def may_load(self, start: int, end: int, vtables: str) -> bool:
        return False

    def some_may_load(self, vtables: str) -> bool:
        return False

    def passed(self, start: int, end: int, given: Registers) -> tuple[Passed, ...] | None:
        return ()


class ListedRecords:
    """Records given one by one."""

    def __init__(self, records: Iterable[CallRecord] = ()) -> None:
        self._by_site: dict[int, list[CallRecord]] = {}
        for record in records:
            self._by_site.setdefault(record.call_site, []).append(record)

    def at(self, return_address: int) -> Sequence[CallRecord]:
        return self._by_site.get(return_address, ())

    def sites(self, start: int, end: int) -> Sequence[int]:
        return sorted(site for site in self._by_site if start < site <= end)
