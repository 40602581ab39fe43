"""Payloads by claim, until they are in their records."""

from __future__ import annotations

import numpy as np

from unwind.symcache.builder.encoded import NOWHERE, Encoded, Payloads


def payloads(*texts: bytes) -> Payloads:
    sizes = np.array(list(map(len, texts)), np.uint64)
    return Payloads(sizes, sizes // np.uint64(2), np.frombuffer(b"".join(texts), np.uint8))


def test_each_claim_has_its_last_payload() -> None:
    encoded = Encoded(6)
    encoded.add(np.array([0, 2, 3]), [payloads(b"zero"), payloads(b"two", b"three")])
    encoded.add(np.array([5, 2]), [payloads(b"five5", b"twotwo")])
    encoded.add(np.array([1]), [payloads(b"")])
    encoded.drop(np.array([4, 5]))
    assert encoded.sizes.tolist() == [4, 0, 6, 5, 0, 0] and encoded.column_bytes == 2 + 3 + 2
    out = np.full(15, ord("."), np.uint8)
    encoded.move(np.array([0, NOWHERE, 4, 10, 10, 10], np.uint64), out)
    assert out.tobytes() == b"zerotwotwothree"
