# cython: language_level=3, boundscheck=True, wraparound=False
"""Writes the columns of frames from the rows of their answers, which are few: each is read as one line of memory."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.unwind.arrow import columns as c
else:
    from unwind.arrow import columns as c


@cython.ccall
def spread(
    rows: cython.const[cython.uint][::1],
    answers: cython.const[cython.int][:, ::1],
    verdicts: cython.uchar[::1],
    texts: cython.int[:, ::1],
    valid: cython.uchar[:, ::1],
    candidate_starts: cython.int[::1],
) -> cython.longlong:
    """Store what the answers of frames are, and return how many candidates they have together.

    rows               u32[m]: of each frame the row of its answer
    answers            i32[k, ANSWER_WIDTH]: the columns of `unwind.arrow.columns`; negative: none
    verdicts           u8[m]
    texts              i32[TEXTS, m]: name, linkage name, file, line
    valid              u8[TEXTS, m / 8]: a bit for each that there is; all 0 before
    candidate_starts   i32[m + 1]: where the candidates of each begin, the first is 0
    """
    at: cython.size_t = 0
    count: cython.size_t = rows.shape[0]
    text: cython.size_t
    row: cython.size_t
    bit: cython.int
    value: cython.int
    candidates: cython.longlong = 0
    with cython.nogil:
        while at < count:
            row = rows[at]
            bit = 1 << (at & 7)
            verdicts[at] = answers[row, c.VERDICT]
            text = 0
            while text < c.TEXTS:
                value = answers[row, c.NAME + text]
                if value >= 0:
                    texts[text, at] = value
                    valid[text, at >> 3] |= bit
                else:
                    texts[text, at] = 0
                text += 1
            candidates += answers[row, c.CANDIDATE_COUNT]
            if candidates > c.CANDIDATE_LIMIT:
                break
            candidate_starts[at + 1] = candidates
            at += 1
    return candidates


@cython.ccall
def spread_candidates(
    rows: cython.const[cython.uint][::1],
    answers: cython.const[cython.int][:, ::1],
    candidates: cython.const[cython.int][::1],
    found: cython.int[::1],
) -> cython.int:
    """Store the candidates of all frames, one after the other."""
    at: cython.size_t = 0
    count: cython.size_t = rows.shape[0]
    out: cython.size_t = 0
    row: cython.size_t
    idx: cython.size_t
    end: cython.size_t
    with cython.nogil:
        while at < count:
            row = rows[at]
            idx = answers[row, c.CANDIDATE_START]
            end = idx + answers[row, c.CANDIDATE_COUNT]
            while idx < end:
                found[out] = candidates[idx]
                out += 1
                idx += 1
            at += 1
    return 0
