"""What a file has besides its bytes, when the pass replaces it: capabilities, attributes, ACLs, links, holes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest

from icf import cli
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
ACL, CAPABILITY = "system.posix_acl_access", "security.capability"
NET_BIND = pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)  # what `setcap cap_net_bind_service+ep` writes
NOT_AN_ID = 0xFFFFFFFF
# version; (tag, permissions, id): user::rwx, user:1000:r-x, group::r-x, mask::r-x, other::r-x
READERS = pack("<I", 2) + b"".join(
    pack("<HHI", *entry)
    for entry in ((1, 7, NOT_AN_ID), (2, 5, 1000), (4, 5, NOT_AN_ID), (16, 5, NOT_AN_ID), (32, 5, NOT_AN_ID))
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHOP, tmp_path / "shop"))


def set_or_skip(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"{name}: {error.strerror}")


def run_pass(*args: str | Path) -> int:
    return cli.main(["pass", "-q", *map(str, args)])


@pytest.mark.parametrize("is_other", [False, True], ids=["in-place", "to-a-new-file"])
@pytest.mark.parametrize(
    ("name", "value"), [("user.origin", b"here"), (CAPABILITY, NET_BIND), (ACL, READERS)], ids=["user", "setcap", "acl"]
)
def test_attributes_stay(
    name: str, value: bytes, is_other: bool, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_or_skip(shop, name, value)
    mode = shop.stat().st_mode
    out = tmp_path / "out" if is_other else shop
    options: list[str | Path] = ["-o", out] if is_other else []
    assert run_pass(shop, *options) == 0
    assert os.getxattr(out, name) == value and out.stat().st_mode == mode
    assert capsys.readouterr().err == ""


def test_annotating_keeps_attributes(tmp_path: Path) -> None:
    compiler = tool("gcc")
    path = tmp_path / "a.o"
    command: list[str | Path] = [compiler, "-O1", "-ffunction-sections", "-xc", "-c", "-", "-o", path]
    subprocess.run(command, input=b"int f(void) { return 1; }", check=True)
    set_or_skip(path, "user.origin", b"here")
    assert cli.main(["annotate", str(path)]) == 0
    assert os.getxattr(path, "user.origin") == b"here"


def test_an_acl_of_the_folder_is_not_taken_over(shop: Path, tmp_path: Path) -> None:
    mode = shop.stat().st_mode
    set_or_skip(tmp_path, "system.posix_acl_default", READERS)
    assert run_pass(shop) == 0
    assert ACL not in os.listxattr(shop) and shop.stat().st_mode == mode


def test_what_cannot_be_kept_is_said(shop: Path, tmp_path: Path) -> None:
    """A user without rights over the owner and the capabilities of a file."""
    if os.geteuid() != 0:
        pytest.skip("only root can make such a file")
    set_or_skip(shop, CAPABILITY, NET_BIND)
    folder = tmp_path / "open"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & 1:
            path.chmod(path.stat().st_mode | 0o111)
    script = (  # all that the second pass needs is imported before it, as it may not read this Python
        "import logging, os, sys\nfrom icf import cli\nimage, warm, out = sys.argv[1:]\n"
        "cli.main(['pass', '-q', image, '-o', warm])\nos.seteuid(65534)\n"
        "sys.exit(cli.main(['pass', '-q', image, '-o', out]))"
    )
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, "-c", script, shop, tmp_path / "warm", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"icf: warning: {out}: not kept: owner, {CAPABILITY}\n"


def test_a_hard_link_that_is_cut_is_said(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, before = tmp_path / "other", shop.read_bytes()
    os.link(shop, other)
    assert run_pass(shop) == 0
    assert other.read_bytes() == before != shop.read_bytes()
    assert capsys.readouterr().err == (
        f"icf: warning: {shop}: 1 other names of the old file (hard links) still lead to it\n"
    )


def test_holes_stay_holes(tmp_path: Path) -> None:
    compiler, copy = tool("gcc"), tool("cp")
    size_bytes = 64 << 20
    source = f'asm(".section .big, \\"aw\\", @progbits; .zero {size_bytes}; .text"); int main(void) {{ return 0; }}'
    dense, sparse, out = (tmp_path / name for name in ("dense", "sparse", "out"))
    subprocess.run([compiler, "-g", "-xc", "-", "-o", dense], input=source.encode(), check=True)
    run(copy, "--sparse=always", dense, sparse)
    if sparse.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("the file system has no holes")
    assert run_pass(dense) == run_pass(sparse, "-o", out) == run_pass(sparse) == 0
    assert dense.read_bytes() == sparse.read_bytes() == out.read_bytes()
    for path in (sparse, out):
        assert path.stat().st_size > size_bytes and path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize(
    ("options", "calls"),
    [([], ["fsync", "rename", "fsync"]), (["-o", "shop"], ["fsync", "rename", "fsync"]), (["-o", "out"], ["rename"])],
    ids=["in-place", "named", "to-a-new-file"],
)
def test_the_only_copy_is_on_the_disk_before_it_gets_its_name(
    options: list[str], calls: list[str], shop: Path, tmp_path: Path
) -> None:
    strace = tool("strace")
    trace, root = tmp_path / "trace", ROOT
    command: list[str | Path] = [
        strace,
        "-f",
        "-o",
        trace,
        "-e",
        "trace=fsync,rename",
        sys.executable,
        "-m",
        "icf",
        "pass",
        "-q",
        shop,
    ]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    if "ptrace" in done.stderr:
        pytest.skip("may not trace")
    lines = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    assert done.returncode == 0 and [line.split("(")[0] for line in lines if line[0] in "fr"] == calls


def test_an_output_that_leads_to_itself(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert run_pass(shop, "-o", tmp_path / "loop") == 1
    assert capsys.readouterr().err == f"icf: error: {tmp_path / 'loop'}: too many levels of symbolic links\n"
    assert os.readlink(tmp_path / "loop") == "loop"


@pytest.mark.parametrize("option", ["-o", "--debug-out"])
def test_an_output_without_a_name(option: str, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_pass(shop, option, "") == 1
    assert capsys.readouterr().err == "icf: error: the name of an output is empty\n"
