"""Mutated PDBs: their records, or one line of an IcfError, soon."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icf.errors import IcfError
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from tests.fuzz.limits import alarms, many, soon
from tests.support.windows import shop

MUTATION_COUNT = many(500)


def read_all(path: Path) -> int:
    """Read all that the project reads of a PDB; return how many records there were."""
    count = 0
    with Pdb.open(str(path)) as pdb:
        publics = pdb.publics
        pdb.rvas(publics[:, col.U_SEGMENT], publics[:, col.U_ADDRESS])
        count += len(pdb.public_names(slice(None)))
        for module in pdb.dbi.modules:
            pdb.is_described(module)
            symbols = pdb.symbols_of(module)
            lines = pdb.lines_of(module, symbols)
            for row in symbols.procedures.tolist():
                pdb.text(module.stream, row[col.P_NAME], row[col.P_NAME_BYTES])
                pdb.types.parameters(row[col.P_TYPE])
            for row in lines.inlinees.tolist():
                pdb.types.function_name(row[col.I_FUNCTION])
                pdb.file_name(lines.files, row[col.I_FILE])
            count += len(symbols.procedures) + len(lines.rows) + len(lines.annotations)
    return count


def used_bytes(content: bytes) -> list[int]:
    """The blocks that hold more than zeros: half of a PDB of lld is empty."""
    return [at for at in range(0, len(content), 512) if content[at : at + 512].strip(b"\0")]


@pytest.mark.parametrize("seed", [1, 2])
def test_pdbs_survive_mutations(seed: int, tmp_path: Path) -> None:
    content = shop().with_suffix(".pdb").read_bytes()
    places, rng, path = used_bytes(content), random.Random(seed), tmp_path / "m.pdb"
    read = refused = 0
    with alarms():
        for number in range(MUTATION_COUNT):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 3, 8))):
                at = rng.choice(places[:4] if rng.random() < 0.1 else places) + rng.randrange(512)
                if at < len(changed):
                    changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed[: rng.randrange(1, len(changed))] if number % 20 == 0 else changed)
            soon(5)
            try:
                read += read_all(path) > 0
            except IcfError as error:
                assert str(error).startswith(str(path)) and "\n" not in str(error)
                refused += 1
    assert read > MUTATION_COUNT // 4 and refused > MUTATION_COUNT // 20
