"""A report as one JSON document, for `--json` and for the page.

    {"version": 1, "file": "perf.data", "images": [..], "bodies": [..], "bodies_left_out": 0, "profile": {..}}

`profile` is null for an image. Its trees are columns: `names` is a list of texts, and row i of a tree is `depth[i]`,
`kind[i]` (the index in `kinds`), `weight[i]`, and `name[i]` and `other[i]`, which are indices in `names`; -1: none.
Rows are in pre-order: a row and what follows it with a greater depth is a frame and all that it called.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from unwind.report.data import VERSION, Image, Kind, MergedBody, Profile, Report, Tree
from unwind.report.words import DOUBTS, EVIDENCE, REASONS

_FUNCTIONS_SHOWN = 100  # of one body
_TEXTS = {reason.value: text for reason, text in REASONS.items()} | {"": "It is not known why."}
_Json = dict[str, Any]


def document_of(report: Report) -> _Json:
    """Return the report as what `json.dumps` takes."""
    return {
        "version": VERSION,
        "file": report.path,
        "images": [_image(image) for image in report.images],
        "bodies": [_body(body) for body in report.bodies],
        "bodies_left_out": report.bodies_left_out,
        "doubts": {doubt.value: text for doubt, text in DOUBTS.items()},
        "profile": None if report.profile is None else _profile(report.profile),
    }


def _image(image: Image) -> _Json:
    return asdict(image)


def _body(body: MergedBody) -> _Json:
    shown = sorted(body.functions, key=lambda function: not function.is_kept)[:_FUNCTIONS_SHOWN]
    return {
        "image": body.image,
        "address": f"{body.address:#x}",
        "size_bytes": body.size_bytes,
        "saved_bytes": body.saved_bytes,
        "function_count": len(body.functions),
        "functions": [
            {
                "name": each.name,
                "linkage_name": each.linkage_name,
                "kept": each.is_kept,
                "pointed_at": each.is_pointed_at,
            }
            for each in shown
        ],
        "doubts": [doubt.value for doubt in body.doubts],
        "total": body.total,
        "self": body.self_,
        "settled": body.settled,
        "open": body.open,
        "evidence": body.evidence,
        "reasons": body.reasons,
    }


def _profile(profile: Profile) -> _Json:
    names = _Names()
    return {
        "format": profile.format,
        "value": profile.value,
        "unit": profile.unit,
        "samples": profile.samples,
        "weight": profile.weight,
        "changed": profile.changed,
        "changed_self": profile.changed_self,
        "open": profile.open,
        "unknown": profile.unknown,
        "settled_frames": profile.settled_frames,
        "open_frames": profile.open_frames,
        "evidence": [
            {"evidence": key, "text": EVIDENCE.get(key, key), "weight": weight}
            for key, weight in _by_weight(profile.evidence)
        ],
        "reasons": [
            {"reason": key, "text": _TEXTS.get(key, key), "weight": weight}
            for key, weight in _by_weight(profile.reasons)
        ],
        "functions": [asdict(function) for function in profile.functions],
        "functions_left_out": profile.functions_left_out,
        "depth_limit": profile.depth_limit,
        "kinds": [kind.name.lower().replace("_", "-") for kind in Kind],
        "before": _tree(profile.before, names),
        "after": _tree(profile.after, names),
        "names": names.listed,
    }


def _by_weight(weights: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(weights.items(), key=lambda item: (-item[1], item[0]))


class _Names:
    """Texts, each once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._idx: dict[str, int] = {}

    def idx(self, name: str) -> int:
        if not name:
            return -1
        idx = self._idx.setdefault(name, len(self.listed))
        if idx == len(self.listed):
            self.listed.append(name)
        return idx


def _tree(tree: Tree, names: _Names) -> _Json:
    return {
        "threshold": tree.threshold,
        "depth": [row.depth for row in tree.rows],
        "kind": [int(row.kind) for row in tree.rows],
        "weight": [row.weight for row in tree.rows],
        "name": [names.idx(row.name) for row in tree.rows],
        "other": [names.idx(row.other) for row in tree.rows],
    }
