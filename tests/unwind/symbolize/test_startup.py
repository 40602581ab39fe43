"""What a query of a symcache imports: a script may make thousands of them, each in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf import cli
from icf.filedigest import stamp_of
from icf.kernels import kernel_status
from tests.support.paths import ROOT
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.store import open_or_build

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
# each takes tens of milliseconds, or would bring one that does
HEAVY = {"numpy", "capstone", "icf.elf.image", "icf.model", "unwind.symcache.store.lazy"}
QUERY = """
import sys
before = set(sys.modules)
from icf.cli import main
status = main(sys.argv[1:])
sys.stderr.write(" ".join(set(sys.modules) - before))
sys.exit(status)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Path(shutil.copy(SHOP, tmp_path_factory.mktemp("startup") / "shop"))
    assert cli.main(["pass", "-q", str(image)]) == 0
    deadline_s = time.monotonic() + 30
    while not Folder.chosen().recall(stamp_of(image.stat())):  # a file that has just changed is read once more
        assert time.monotonic() < deadline_s
        open_or_build(image)
        time.sleep(0.05)
    return image


@pytest.mark.skipif(kernel_status() != "kernels: compiled", reason="kernels that are not compiled import Cython")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--candidates", "-p"],
        ["-f", "-i", "-C", "-p", "-a"],
        ["-fiCpas", "--style", "gnu"],
        ["--style=gnu"],
        ["--style=json", "--candidates"],
        ["--output-style", "GNU", "--functions=linkage", "--no-inlines"],
    ],
)
@pytest.mark.parametrize("is_stdin", [False, True])
def test_a_warm_query_imports_little(shop: Path, options: list[str], is_stdin: bool) -> None:
    cache = open_or_build(shop)
    merged, alone = cache.addresses("_ZN4ListI7PaymentE4growEv"), cache.addresses("main")
    vaddrs = [f"{vaddr:#x}" for vaddr in [*alone, *merged, alone[0] + 9, 1]]
    command = [sys.executable, "-c", QUERY, "symbolize", "-e", str(shop), *options]
    done = subprocess.run(
        command if is_stdin else [*command, *vaddrs],
        input="\n".join(vaddrs),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert "main.cpp" in done.stdout
    imported = set(done.stderr.split())
    assert "unwind.symcache.reader.symcache" in imported
    assert imported & HEAVY == set()
    assert not any(name.startswith(("icf.dwarf", "icf.elf")) for name in imported)
