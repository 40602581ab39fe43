"""How an image is recognized: its identity, a digest of all its bytes, and the stamp of its file.

    identity   the GNU build id, or GUID and age of the PDB, where there is one; else the digest: the key of a symcache
    digest     the content of the image when its symcache was built. The link pass keeps the build id when it
               writes tables, `strip` and `objcopy` keep it, and so do tools that edit strings or symbols in place
    stamp      of the file (`icf.filedigest`)

The store remembers which symcache belongs to each stamp, so a file that was seen before is not opened at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from icf.filedigest import digest_of
from unwind.symcache.format.container import Identity

if TYPE_CHECKING:
    from typing import Self

    from icf.image import AnyImage

BUILD_ID, CONTENT = 1, 2  # kinds of an Identity
_KINDS = {"build-id": BUILD_ID, "content": CONTENT}
_IDENTITY_LIMIT_BYTES = 62


class Recognized(NamedTuple):
    """The identity of an image, and the digest of its content."""

    identity: Identity
    digest: bytes

    def __str__(self) -> str:
        """Return the name of its files in the store, without the suffix of their kind."""
        return f"{self.identity}-{self.digest.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse what `str` returns; None for any other text."""
        head, _, digest = text.rpartition("-")
        kind, _, value = head.rpartition("-")
        try:
            found = cls(Identity(_KINDS[kind], bytes.fromhex(value)), bytes.fromhex(digest))
        except (KeyError, ValueError):
            return None
        return found if value and len(digest) == 32 and str(found) == text else None


def recognize(image: AnyImage) -> Recognized:
    """Read all of an image. Raise IcfError if that is not possible."""
    digest = digest_of(image.fileno(), len(image.data), image.path)
    if 0 < len(image.build_id) <= _IDENTITY_LIMIT_BYTES:
        return Recognized(Identity(BUILD_ID, image.build_id), digest)
    return Recognized(Identity(CONTENT, digest), digest)
