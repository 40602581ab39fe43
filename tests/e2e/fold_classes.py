"""The fold classes of a program, as `icf dump` prints them."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.program import Program, icf


def classes(program: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(icf("dump", "--folds", "--json", program.folded)).get("classes", [])
    return found
