"""What a report says, as plain data: `icf report --json` writes it, and the page shows it.

    Report
      Image          a linked image: how much of it is merged
      MergedBody     one body of several functions: what sharing it saves, and what keeps its frames open
      Profile        of a recording: how much of it has another name than today's tools show
        Function     weights of one name before and after
        Tree         all stacks, from the outermost frame

*Before* is one name for each body, as today's tools show it: that of the function which the linker kept, whichever one
ran. *After* is what the resolver found. Weights are those of samples: an open frame of a sample with weight 3 counts 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from icf.errors import IcfError

VERSION = 1


class Doubt(Enum):
    """Why a stack may leave a frame of a merged body open; the value is what JSON has."""

    UNNAMED = "unnamed-members"  # functions that nothing names may share it
    UNRECORDED = "unrecorded-calls"  # a direct call of it may have no record
    POINTERS = "pointers"  # calls through pointers lead to several of its functions
    CALLERS = "callers"  # its callers share a body, and that has a doubt


@dataclass(frozen=True, slots=True)
class MergedFunction:
    """A member of a merged body."""

    name: str
    linkage_name: str  # "" if the image does not have one
    is_kept: bool  # its symbol is what today's tools show
    is_pointed_at: bool  # a call through a pointer may lead to it


@dataclass(slots=True)
class MergedBody:
    """A body of several functions; weights are 0 without a profile."""

    image: int  # index in `Report.images`
    address: int  # as linked
    size_bytes: int
    functions: tuple[MergedFunction, ...]
    doubts: tuple[Doubt, ...]
    total: int = 0  # of the samples that have a frame in it
    self_: int = 0  # of those whose innermost frame lies in it
    settled: int = 0  # of its frames that have one name
    open: int = 0  # of its frames that have several
    evidence: dict[str, int] = field(default_factory=dict)  # what settled them -> their weight
    reasons: dict[str, int] = field(default_factory=dict)  # what keeps the others open -> their weight

    @property
    def saved_bytes(self) -> int:
        """The code that the image would have besides, were nothing merged."""
        return (len(self.functions) - 1) * self.size_bytes


@dataclass(frozen=True, slots=True)
class Image:
    """How much of an image is merged."""

    path: str
    build_id: str  # hexadecimal, "" if it has none or is not known
    has_tables: bool  # else a merged body shows by its symbols alone, and is not listed
    is_folded: bool  # as tables or symbols show
    bodies: int  # merged ones
    functions: int  # that share them
    saved_bytes: int
    open_bodies: int  # of `bodies`, those with a doubt
    open_functions: int  # that share these


class Kind(IntEnum):
    """What a frame of a tree is; the number is what JSON has."""

    SAME = 0  # one function, called the same before and after
    CHANGED = 1  # one function, called by another's name before
    OPEN = 2  # one of several functions
    TAIL_CALL = 3  # left no frame: only after
    INLINED = 4  # inlined in the frame below it
    UNKNOWN = 5  # without a name: in no image, or in none that is known


@dataclass(frozen=True, slots=True)
class Row:
    """A frame of a tree, and all that stands above it up to the next row of its depth or less."""

    depth: int  # 0: the root, which stands for all stacks
    name: str
    kind: Kind
    weight: int
    other: str = ""  # of a changed or open frame: its name after in the tree before, and before in the tree after


@dataclass(frozen=True, slots=True)
class Tree:
    """Rows in pre-order; rows of less weight than `threshold` are left out."""

    rows: tuple[Row, ...]
    threshold: int


@dataclass(slots=True, eq=False)
class Function:
    """The weights of one name; of a frame that is one of several the name lists them."""

    name: str
    is_open: bool
    self_before: int = 0
    self_after: int = 0
    total_before: int = 0
    total_after: int = 0


@dataclass(slots=True)
class Profile:
    """What a recording says, before and after."""

    format: str
    value: str  # what weights count: "samples", "inuse_space"
    unit: str
    samples: int = 0
    weight: int = 0
    changed: int = 0  # weight of samples with a frame that has another name than before
    changed_self: int = 0  # of those whose innermost frame is such a one
    open: int = 0  # of samples with a frame that is one of several
    unknown: int = 0  # of samples with a frame without a name
    settled_frames: int = 0  # weight of frames in merged bodies that have one name
    open_frames: int = 0  # of frames that have several
    evidence: dict[str, int] = field(default_factory=dict)  # what settled frames -> their weight
    reasons: dict[str, int] = field(default_factory=dict)  # what keeps frames open -> their weight
    functions: list[Function] = field(default_factory=list)
    functions_left_out: int = 0
    before: Tree = Tree((), 0)
    after: Tree = Tree((), 0)
    depth_limit: int = 0  # frames further in than that are left out of the trees


@dataclass(slots=True)
class Report:
    """All of it; bodies by weight, then by what they save."""

    path: str
    images: list[Image]
    bodies: list[MergedBody]
    bodies_left_out: int
    profile: Profile | None = None
    problem: IcfError | None = None  # what ended the recording early; the profile has what stood before it
