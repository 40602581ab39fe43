"""The answers for frames as Arrow columns: what is equal for many frames is stored once, and rows point to it.

    frames   list of struct
        address         uint64   as in the stack; null for a frame outside of the image
        verdict         string   `unmerged`, `unique`, `narrowed`, `ambiguous`, `contradicted`, `unknown`
        name            string   demangled; null unless the verdict is `unmerged` or `unique`
        linkage_name    string   null also if the image has none
        candidates      list of string   the linkage names still possible, otherwise
        file            string   of the function that `name` says; null where it is not certain
        line            int32    null where it is not certain

Strings are dictionaries, which grow from batch to batch.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pyarrow as pa

from icf.columns import U32, U64
from icf.errors import IcfError
from icf.model import Verdict
from unwind.arrow import columns as c
from unwind.arrow._spread import spread, spread_candidates
from unwind.symbolize.answer import Answer

_TEXT = pa.dictionary(pa.int32(), pa.string())
_VERDICT = pa.dictionary(pa.int8(), pa.string())
_VERDICTS = [each.value for each in Verdict]
_OF_VERDICT = {verdict: number for number, verdict in enumerate(Verdict)}
_NONE = -1
_LINE_LIMIT = (1 << 31) - 1

FRAME = pa.struct(
    [
        ("address", pa.uint64()),
        ("verdict", _VERDICT),
        ("name", _TEXT),
        ("linkage_name", _TEXT),
        ("candidates", pa.list_(_TEXT)),
        ("file", _TEXT),
        ("line", pa.int32()),
    ]
)


class _Texts:
    """Distinct texts, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._column = pa.array([], pa.string())

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str | None) -> int:
        if not text:
            return _NONE
        return self._numbers.setdefault(text, len(self._numbers))

    def column(self) -> Any:
        """Return all texts as an array; what a symbol table has that is not UTF-8 is replaced."""
        if len(self._column) < len(self._numbers):
            texts = [each.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for each in self._numbers]
            self._column = pa.array(texts, pa.string())
        return self._column


class FrameTable:
    """A row for each distinct answer, without its address.

    Args:
        with_lines: whether the rows have files and lines.

    Attributes:
        is_any_known: whether a row is that of a function that is known.
    """

    def __init__(self, *, with_lines: bool = True) -> None:
        self.is_any_known = False
        self._with_lines = with_lines
        self._names, self._linkage_names, self._files = _Texts(), _Texts(), _Texts()
        self._rows: dict[tuple[Any, ...], int] = {}
        self._answers, self._candidates = array("i", bytes(4 * c.ANSWER_WIDTH)), array("i", [0])

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, answer: Answer) -> int:
        """Return the number of the row of an answer."""
        own = answer.frames[-1] if self._with_lines and answer.is_named else None
        file, line = (own.file, own.line) if own is not None else ("", 0)
        key = answer.verdict, answer.name, answer.linkage_name, file, line, answer.linkage_names
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._answers) // c.ANSWER_WIDTH
            self.is_any_known = self.is_any_known or answer.verdict is not Verdict.UNKNOWN
            self._answers.extend(
                (
                    _OF_VERDICT[answer.verdict],
                    self._names.number(answer.name),
                    self._linkage_names.number(answer.linkage_name),
                    self._files.number(file),
                    min(line, _LINE_LIMIT) or _NONE,
                    len(self._candidates),
                    len(answer.linkage_names),
                    0,
                )
            )
            self._candidates.extend(map(self._linkage_names.number, answer.linkage_names))
        return row

    def frames(self, rows: U32, starts: U64, addresses: Any) -> Any:
        """Return the column `frames` of stacks.

        Args:
            rows: of all frames.
            starts: where each stack begins in them, and where the last ends.
            addresses: Arrow array of uint64, of all frames.

        Raises:
            IcfError: the candidates of all frames are more than a column can have.
        """
        count = len(rows)
        answers = np.frombuffer(self._answers, np.int32).reshape(-1, c.ANSWER_WIDTH)
        verdicts, texts = np.empty(count, np.uint8), np.empty((c.TEXTS, count), np.int32)
        valid, candidate_starts = np.zeros((c.TEXTS, (count + 7) // 8), np.uint8), np.zeros(count + 1, np.int32)
        candidate_count = spread(rows.data, answers.data, verdicts.data, texts.data, valid.data, candidate_starts.data)
        if candidate_count > c.CANDIDATE_LIMIT:
            raise IcfError(f"{len(starts) - 1} stacks have {candidate_count} candidates", hint="use smaller batches")
        candidates = np.empty(candidate_count, np.int32)
        spread_candidates(rows.data, answers.data, memoryview(self._candidates), candidates.data)
        name, linkage_name, file, line = (
            pa.Array.from_buffers(pa.int32(), count, [pa.py_buffer(bits), pa.py_buffer(numbers)])
            for bits, numbers in zip(valid, texts, strict=True)
        )
        columns = [
            addresses,
            _coded(pa.array(verdicts.view(np.int8)), pa.array(_VERDICTS)),
            _coded(name, self._names.column()),
            _coded(linkage_name, self._linkage_names.column()),
            pa.ListArray.from_arrays(
                pa.array(candidate_starts), _coded(pa.array(candidates), self._linkage_names.column())
            ),
            _coded(file, self._files.column()),
            line,
        ]
        frames = pa.StructArray.from_arrays(columns, fields=list(FRAME))
        return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), frames)


def _coded(numbers: Any, texts: Any) -> Any:
    """Return a column of texts by their numbers, as a dictionary that shares them."""
    return pa.DictionaryArray.from_arrays(numbers, texts, safe=False)
