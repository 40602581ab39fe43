"""The columns of answers as `unwind.arrow.frames` keeps them, and as its kernel reads them."""

from __future__ import annotations

VERDICT, NAME, LINKAGE_NAME, FILE, LINE, CANDIDATE_START, CANDIDATE_COUNT = range(7)
ANSWER_WIDTH = 8  # one is left free: a row is half a line of the cache
TEXTS = 4  # of which a frame can have none: from NAME to LINE
CANDIDATE_LIMIT = 0x7FFFFFFF  # of a batch
