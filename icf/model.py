"""The terms of the project as types: members, fold classes, call-site records, verdicts.

    image + evidence -> fold classes + call-site records -> tables -> resolver -> frames

A *fold class* is the set of source functions that share one body after the link; each is a
*member*. A *call site* is identified by its return address. Callers and callees are members,
never addresses.
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag
from typing import NamedTuple, NewType

Vaddr = NewType("Vaddr", int)  # as linked; what readelf prints
RuntimeAddr = NewType("RuntimeAddr", int)  # as sampled; it has a meaning only with the modules of its process
DieOffset = NewType("DieOffset", int)  # from the start of .debug_info; 0 means none


class Evidence(IntEnum):
    """The kind of evidence for a call-site record, best first (`.debug_icf` stores these numbers)."""

    TABLE = 1
    RELOCATION = 2
    OBJECT = 3
    DWARF = 4
    ALIGNED = 5
    DECODED = 6


class Verdict(Enum):
    """What the stack and the evidence leave of a frame's candidates."""

    UNMERGED = "unmerged"  # the body belongs to one source function
    UNIQUE = "unique"  # merged, and the evidence leaves one member
    NARROWED = "narrowed"  # merged, some members are excluded
    AMBIGUOUS = "ambiguous"  # merged, every member is still possible
    CONTRADICTED = "contradicted"  # no member fits what is known of the stack
    UNKNOWN = "unknown"  # outside of the image, or in no function


class MemberFlag(IntFlag):
    """Facts about one member, as `.debug_icf` stores them."""

    NONE = 0
    KEPT = 1  # the linker kept this member's section
    ADDRESS_TAKEN = 2  # its address escapes other than through calls and vtables
    VIRTUAL = 4  # a vtable has it in a slot
    LOCAL = 8  # internal linkage: the name need not be unique in the image
    SYNTHETIC = 16  # its DIE is a declaration that the pass wrote
    NAMELESS = 32  # the image has no linkage name for it: `name` is the DW_AT_name


class ClassFlag(IntFlag):
    """Facts about one class, as `.debug_icf` stores them."""

    NONE = 0
    MEMBERS_COMPLETE = 1  # no further member can exist
    CALLS_COMPLETE = 2  # every direct call that reaches the body has a record for each caller
    FRAGMENT = 4  # an outlined part (`.cold`) that is entered by jumps from its function
    ADDRESS_TAKEN_KNOWN = 8  # no pointer leads to a member that is neither ADDRESS_TAKEN nor VIRTUAL
    VTABLES_KNOWN = 16  # no vtable but those listed has an ADDRESS_TAKEN member in a slot


class Member(NamedTuple):
    """One source function of a fold class."""

    name: str  # linkage name, as in the symbol table
    die: DieOffset = DieOffset(0)
    flags: MemberFlag = MemberFlag.NONE
    aliases: tuple[str, ...] = ()  # further symbols of the same source function


class ImageFlag(IntFlag):
    """Facts about the whole image, as `.debug_icf` stores them."""

    NONE = 0
    MERGED_BY_COMPILER = 1  # compiled with function merging that leaves no trace


class FoldClass(NamedTuple):
    """The functions that share the body at `vaddr`; merged if there are two members or more."""

    vaddr: Vaddr
    size_bytes: int
    members: tuple[Member, ...]
    flags: ClassFlag = ClassFlag.NONE

    @property
    def merged(self) -> bool:
        return len(self.members) > 1


ALL_MEMBERS = -1  # a member index: each member of the class


class MemberRef(NamedTuple):
    """The place of a member: class index in address order, member index in that class."""

    class_idx: int
    member_idx: int


class TailCall(NamedTuple):
    """A jump at `jump` that, in `caller`, is a call of `callee`; it leaves no return address.

    If all members of the class make the same call, `caller` has the member index ALL_MEMBERS. So has `callee` if no
    evidence names the member that is called.
    """

    jump: Vaddr
    caller: MemberRef
    callee: MemberRef


class PointerJump(NamedTuple):
    """A jump at `jump` through a pointer out of its function: slot `slot` of a vtable, or any pointer.

    All members of the body share the instruction, so it belongs to each of them.
    """

    jump: Vaddr
    slot: int  # ANY_POINTER if it may be a slot or not; STORED_POINTER if it is not a slot
    object: int = 0  # 1 + the index of the `TypedObject` whose vtable it is, 0 if nothing is known of that


class Callback(NamedTuple):
    """At the call before `call_site`, `caller` passes `callee` to an import, which calls that before it returns.

    The import is one of `icf.code.callbacks`: a `qsort`, which gets a comparator.
    """

    call_site: Vaddr
    caller: MemberRef | None  # None: whichever function makes the call
    callee: MemberRef
    evidence: Evidence


ANY_POINTER = -1  # as `slot`: any pointer
STORED_POINTER = (1 << 32) - 1  # as `slot`: any pointer in memory that is not in a vtable


class VtableSlot(NamedTuple):
    """The function in a slot of a vtable; the member index is ALL_MEMBERS if no evidence names the member."""

    slot: int
    function: MemberRef


class ObjectType(NamedTuple):
    """A class that objects are declared to have: no vtables but these are those of such objects."""

    groups: tuple[Vaddr, ...]  # ascending; see `Vtable.group`


class TypedMember(NamedTuple):
    """The type that an object has in one member of a body, or in every one."""

    member: MemberRef | None  # None: every member
    type: int  # index


TypedObject = tuple[TypedMember, ...]  # an object that a body calls a virtual function of; its type differs by member


class Vtable(NamedTuple):
    """A vtable of a class (Itanium C++ ABI, section 2.5), with those of its slots that are recorded."""

    vaddr: Vaddr  # its address point: what the vtable pointer of an object holds
    group: Vaddr  # address of the symbol that holds this vtable and those of the same object's other bases
    slots: tuple[VtableSlot, ...]  # ascending, one or more
    die: DieOffset = DieOffset(0)  # its DW_TAG_GNU_vtable
