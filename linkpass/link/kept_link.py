"""A link that was done, and what the pass made of its output: enough to do the same again without the pass.

    JSON         inputs, digests, the places of the pieces of the output
    new bytes    those of the output that the linker has not written, one piece after the other

The pass is a function of the linked file, the linker's report and the objects, in their order. Where all three are the
same, so is its output: the pieces of the linked file, shifted, and the new bytes between them.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, Self

from linkpass.link.sealed import count, seal, text, unseal
from linkpass.rewrite.layout import Layout, Piece

_MAGIC = b"icf link 1\n"
_GAP_LIMIT_BYTES = 1 << 20  # between two pieces, for alignment


class Seen(NamedTuple):
    """An input file: its stamp (`icf.filedigest`) and the digest of its content; "" for what is not known."""

    stamp: str
    digest: str


class KeptLink(NamedTuple):
    """A link, and the layout of the file that the pass wrote."""

    inputs: tuple[str, ...]  # as the linker names them, in its order
    files: dict[str, Seen]  # by path
    report_digest: str
    image_digest: str
    image_bytes: int
    layout: Layout
    lines: tuple[str, ...]  # the summary
    notes: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Return the contents of the file."""
        pieces = [(piece.offset, piece.size_bytes, _source(piece)) for piece in self.layout.pieces]
        new = [piece.content for piece in self.layout.pieces if piece.content is not None]
        return seal(_MAGIC, [*self[:5], self.layout.size_bytes, pieces, *self[6:]], new)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the contents of a file. Raise ValueError if they are not whole, or of another version."""
        head, new = unseal(_MAGIC, data)
        try:
            inputs, files, report_digest, image_digest, image_bytes, size_bytes, pieces, lines, notes = head
            return cls(
                tuple(map(text, inputs)),
                {text(path): Seen(text(stamp), text(digest)) for path, (stamp, digest) in files.items()},
                text(report_digest),
                text(image_digest),
                count(image_bytes),
                _layout(count(size_bytes), pieces, new, image_bytes),
                tuple(map(text, lines)),
                tuple(map(text, notes)),
            )
        except (AttributeError, TypeError) as error:
            raise ValueError("has fields of other kinds") from error


def _source(piece: Piece) -> int | None:
    return piece.source_offset if piece.content is None else None


def _layout(size_bytes: int, places: list[tuple[int, int, int | None]], new: memoryview, image_bytes: int) -> Layout:
    """Return the pieces, which must lie inside of the linked file and of the output."""
    pieces = []
    new_sizes = [count(piece_bytes) if source is None else 0 for _, piece_bytes, source in places]
    for (offset, piece_bytes, source), end in zip(places, accumulate(new_sizes), strict=True):
        if count(offset) + count(piece_bytes) > size_bytes:
            raise ValueError("has a piece outside of the output")
        if source is None:
            pieces.append(Piece(offset, piece_bytes, new[end - piece_bytes : end]))
        elif count(source) + piece_bytes > image_bytes:
            raise ValueError("has a piece outside of the linked file")
        else:
            pieces.append(Piece(offset, piece_bytes, None, source))
    if sum(new_sizes) != len(new) or size_bytes > image_bytes + len(new) + len(pieces) * _GAP_LIMIT_BYTES:
        raise ValueError("has pieces that do not make up the output")
    return Layout(tuple(pieces), size_bytes)
