"""5,000 mutated lists of modules: entries, or one line that says what is wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path

from icf.elf.notes import build_id_note
from icf.errors import IcfError
from icf.pe.debugdirectory import CODEVIEW, DebugEntry
from icf.pe.identity import PeIdentity
from tests.fuzz.limits import many
from unwind.process.module_identity import ListedLink, ModuleIdentity, fields_of
from unwind.process.module_list import LoadedModule, read_modules

ENTRY = DebugEntry(0, 1, 0, 0, CODEVIEW, b"RSDS" + bytes(20) + b"a.pdb\0")
MUTATION_COUNT = many(5_000)
SEED = json.dumps(
    [
        {"path": "/usr/bin/shop", "build_id": "5d0c91e7", "load_address": "0x555500000000"},
        {"path": "libx.so", "bias": -4096, "build_id": ""},
        {"path": "liby.so", "load_address": 140737348354048}
        | fields_of(ModuleIdentity(b"\1\2\3", build_id_note(b"\1\2\3"), ListedLink("liby.debug", 7))),
        {"path": "a.exe", "bias": 0} | fields_of(ModuleIdentity(pe=PeIdentity(1, 4096, (ENTRY,)))),
    ]
).encode()


def test_lists_survive_mutations(tmp_path: Path) -> None:
    rng = random.Random(40_000)
    path = tmp_path / "modules"
    read = refused = 0
    for _ in range(MUTATION_COUNT):
        content = bytearray(SEED)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(max(len(content), 1))
            kind = rng.randrange(4)
            if kind == 0 and content:
                content[at] = rng.choice(b'0123456789abcdefx{}[],:"-.ntfe\x00\xff')
            elif kind == 1:
                del content[at : at + rng.randrange(1, 12)]
            elif kind == 2:
                content[at:at] = rng.choice((b"[", b"{", b"null", b"1e999", b"NaN", b"true", b"9" * 23))
            else:
                content = content[: at + 1]
        path.write_bytes(content)
        try:
            assert all(isinstance(module, LoadedModule) for module in read_modules(str(path)))
            read += 1
        except IcfError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            refused += 1
    assert read > MUTATION_COUNT // 50 and refused > MUTATION_COUNT // 5
