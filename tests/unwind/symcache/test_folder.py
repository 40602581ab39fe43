"""The folder of symcaches: folders that cannot be used, and room in those that can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.link import tool
from tests.unwind.symcache.support import OTHER, ROOT, facts, kept
from unwind.symcache.folder import COMPLETE, Folder
from unwind.symcache.identity import Recognized
from unwind.symcache.room import shrink, tidy
from unwind.symcache.store import open_or_build


@pytest.mark.parametrize("kind", ["a-file", "below-a-file", "read-only", "nowhere"])
def test_an_unusable_folder_is_said_once(
    kind: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o500)
    folder = {
        "a-file": tmp_path / "file",
        "below-a-file": tmp_path / "file" / "cache",
        "read-only": tmp_path / "closed",
        "nowhere": Path("/proc/self/cache"),
    }[kind]
    if kind == "read-only" and os.access(folder, os.W_OK):
        pytest.skip("may write everywhere")
    caches = [open_or_build(image, cache_dir=folder) for _ in range(3)]
    assert facts(caches[0]) == facts(caches[2]) and caches[0].addresses("main")
    error = capsys.readouterr().err
    assert error.startswith(f"icf: warning: {folder}: ") and error.count("\n") == 1
    assert "symbols are not kept for the next time" in error


def test_a_user_without_a_home(image: Path, tmp_path: Path) -> None:
    script = "import os\nos.path.expanduser = lambda path: path  # nobody in /etc/passwd\n" + READER
    environment = {key: value for key, value in os.environ.items() if key not in ("ICF_CACHE_DIR", "XDG_CACHE_HOME")}
    command: list[str | Path] = [sys.executable, "-c", script.replace("cache_dir=sys.argv[1]", ""), "-", image]
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout == f"symcache of {image}\n"
    assert (
        done.stderr.startswith("icf: warning: ~/.cache/icf: no such file or directory")
        and not (tmp_path / "~").exists()
    )


def test_links_of_the_folder_are_not_trusted(image: Path, folder: Path) -> None:
    """What a stamp leads to is a name or nothing; and a file is what it says itself, not what it is called."""
    expected = facts(open_or_build(image, cache_dir=folder))
    (link,) = (folder / "stamps").iterdir()
    digest = "00" * 16
    for target in ("", "x", "../../../etc/passwd", "build-id-", f"build-id-zz-{digest}", f"build-id--{digest}",
                   f"build-id-91AB-{digest}", "build-id-91ab-00", f"pe-91ab-{digest}", f"?-91ab-{digest}"):  # fmt: skip
        link.unlink()
        if target:
            link.symlink_to(target)
        assert facts(open_or_build(image, cache_dir=folder)) == expected
        assert len(kept(folder)) == 1 and str(Recognized.parse(os.readlink(link))) == os.readlink(link)


READER = """
import sys
from unwind.symcache.store import open_or_build
for path in sys.argv[2:]:
    print(open_or_build(path, cache_dir=sys.argv[1]).path)
"""


def mounted(mount: str, folder: Path, *images: Path) -> subprocess.CompletedProcess[str]:
    """Use the folder in a namespace of its own, where nobody else sees what is mounted there."""
    unshare = shutil.which("unshare") or pytest.skip("needs unshare")
    namespace = [unshare, "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    folder.mkdir(exist_ok=True)
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", folder], capture_output=True).returncode:
        pytest.skip("may not mount")
    script = f'{mount} && folder="$1" && shift && "$@" && ls -A "$folder"'
    reader: list[str | Path] = [sys.executable, "-c", READER, folder, *images]
    command = [*namespace, "sh", "-c", script, "sh", folder, *reader]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_a_folder_that_may_only_be_read_is_read(image: Path, folder: Path) -> None:
    open_or_build(image, cache_dir=folder)
    done = mounted('mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"', folder, image, OTHER, OTHER)
    assert done.stdout.startswith(f"{kept(folder)[0]}\n" + 2 * f"symcache of {OTHER}\n")
    assert done.stderr == f"icf: warning: {folder}: read-only file system: symbols are not kept for the next time\n"


def test_a_full_disk(image: Path, folder: Path) -> None:
    done = mounted('mount -t tmpfs -o size=4k none "$1" && echo full >"$1/file"', folder, image, image)
    assert done.stdout == 2 * f"symcache of {image}\n" + "file\nstamps\n"
    assert done.stderr == f"icf: warning: {folder}: no space left on device: symbols are not kept for the next time\n"


def test_what_cannot_be_written_says_where(image: Path, folder: Path) -> None:
    limited = [tool("prlimit"), "--fsize=1000", sys.executable, "-m", "icf"]
    done = subprocess.run(
        [*limited, "cache", "build", "--cache-dir", folder, image], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, f"icf: error: {folder}: file too large\n")


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(image: Path, folder: Path, tmp_path: Path) -> None:
    stem = str(Folder(str(folder)).recognize(str(image)))
    folder.mkdir(exist_ok=True)
    (folder / f".{stem}.lock").symlink_to(tmp_path / "elsewhere")
    assert open_or_build(image, cache_dir=folder).find(0) is None
    assert not (tmp_path / "elsewhere").exists()


# Room


def test_the_least_recently_used_go(folder: Path, tmp_path: Path) -> None:
    small = Folder(str(folder), 250)
    for at, name in enumerate(("build-id-00-a", "build-id-01-a", "build-id-02-a")):
        small.write(name + COMPLETE, [bytes(100)])
        os.utime(folder / (name + COMPLETE), (1000 + at, 1000 + at))
    assert [path.name for path in kept(folder)] == ["build-id-01-a.symcache", "build-id-02-a.symcache"]
    small.write("build-id-03-a.symcache", [bytes(1000)])  # alone more than there is room for
    assert [path.name for path in kept(folder)] == ["build-id-03-a.symcache"]


def test_what_is_used_stays(image: Path, folder: Path, tmp_path: Path) -> None:
    for path in (image, OTHER):
        open_or_build(path, cache_dir=folder)
    for path in kept(folder):
        os.utime(path, (1000, 1000))
    used = open_or_build(image, cache_dir=folder)
    sizes = [path.stat().st_size for path in kept(folder)]
    shrink(Folder(str(folder), sum(sizes) - 1))
    assert [str(path) for path in kept(folder)] == [used.path]
    assert used.addresses("main")
    shrink(Folder(str(folder), 0))
    assert kept(folder) == [] and list((folder / "stamps").iterdir()) == []
    assert used.find(used.addresses("main")[0]) is not None  # who has it open keeps it


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size_bytes in (("500M", 500 << 20), ("4g", 4 << 30), ("10", 10), ("1KiB", 1024), ("2TB", 2 << 40)):
        monkeypatch.setenv("ICF_CACHE_SIZE", text)
        assert Folder.chosen("x").limit_bytes == size_bytes
    for text in ("many", "-1", "1.5G", "G", "4GG"):
        monkeypatch.setenv("ICF_CACHE_SIZE", text)
        with pytest.raises(IcfError, match="ICF_CACHE_SIZE: .* is no size"):
            Folder.chosen("x")


def test_leftovers_of_the_dead_go_after_an_hour(folder: Path) -> None:
    folder.mkdir()
    for name, age_s in ((".build-id-1.0123", 7200), (".build-id-2.0123", 60), (".nfs0001", 7200)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    tidy(Folder(str(folder)))
    assert sorted(os.listdir(folder)) == [".build-id-2.0123", ".nfs0001"]
