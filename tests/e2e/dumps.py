"""What `icf dump` prints of a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.program import Program, icf


def classes(program: Program) -> list[dict[str, Any]]:
    """The fold classes of a program."""
    found: list[dict[str, Any]] = json.loads(icf("dump", "--folds", "--json", program.folded)).get("classes", [])
    return found


def statements(image: Path) -> list[Any]:
    """What the tables of an image say, without DIEs, which differ, and in the order of addresses."""
    document = json.loads(icf("dump", image, "--json"))
    listed = {member["linkage_name"] for fold in document["classes"] for member in fold["members"]}
    for member in (member for fold in document["classes"] for member in fold["members"]):
        member["flags"] = [flag for flag in member["flags"] if flag != "synthetic"]
        del member["die"]
    for call in document["direct_calls"]:
        del call["caller_die"], call["callee_die"], call["caller_name"]
        if call["caller"] not in listed:  # it is not merged, and named by what its DIE says
            del call["caller"]
    return [
        sorted(map(json.dumps, document["classes"])),
        sorted(map(json.dumps, document["direct_calls"])),
    ]
