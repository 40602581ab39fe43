"""The folder of symcaches: folders that cannot be used, and room in those that can."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.paths import ROOT
from tests.support.toolchain import tool
from tests.unwind.symcache.support import OTHER, facts, inodes, kept
from unwind.symcache.format.container import Container, pack
from unwind.symcache.format.identity import Recognized
from unwind.symcache.format.records import NAME_COUNT
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.ownership import COMPLETE
from unwind.symcache.store.room import entries_of, keep, shrink, tidy
from unwind.symcache.store.store import open_or_build


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
    assert "symcaches are not stored" in error


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
from icf.log import show_lines
from unwind.symcache.store.store import open_or_build
show_lines()
for path in sys.argv[2:]:
    print(open_or_build(path, cache_dir=sys.argv[1]).path)
"""


def mounted(mount: str, folder: Path, *images: Path) -> subprocess.CompletedProcess[str]:
    """Use the folder in a namespace of its own, where nobody else sees what is mounted there."""
    unshare = tool("unshare")
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
    assert done.stderr == f"icf: warning: {folder}: read-only file system: symcaches are not stored\n"


OTHER_USER = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_used(image: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    planted(folder)
    os.chown(folder, OTHER_USER, OTHER_USER)
    before = inodes(folder)
    assert facts(open_or_build(image, cache_dir=folder)) == expected and inodes(folder) == before
    assert entries_of(Folder(str(folder))) == []
    assert capsys.readouterr().err == (
        f"icf: warning: {folder}: belongs to user {OTHER_USER}: symcaches are not stored\n"
    )


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(
    mode: int, image: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    planted(folder)
    folder.chmod(mode)
    before = inodes(folder)
    assert facts(open_or_build(image, cache_dir=folder)) == expected and inodes(folder) == before
    assert capsys.readouterr().err == (
        f"icf: warning: {folder}: other users may write to it (mode {mode:o}): symcaches are not stored\n"
    )


@pytest.mark.parametrize("how", ["mode", "link", *(["owner"] if os.geteuid() == 0 else [])])
def test_a_file_of_another_user_is_replaced(how: str, image: Path, folder: Path, tmp_path: Path) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    path = planted(folder)
    if how == "mode":
        path.chmod(0o602)
    elif how == "link":
        path.symlink_to(path.rename(tmp_path / "planted"))
    else:
        os.chown(path, OTHER_USER, OTHER_USER)
    assert facts(open_or_build(image, cache_dir=folder)) == expected
    assert kept(folder) == [path] and not path.is_symlink() and path.stat().st_uid == os.geteuid()


def planted(folder: Path) -> Path:
    """Give every function another name, with checksums that fit: what an attacker would put there."""
    (path,) = kept(folder)
    good = Container.open(path)
    sections = {name: bytes(good.section(name)) for name in good.names}
    assert int.from_bytes(sections["meta"][16:20], "little") <= NAME_COUNT  # names: one block
    names = zlib.compress(zlib.decompress(sections["names"]).replace(b"main", b"pwnd"))
    sections["names"], sections["nameoff"] = names, bytes(4) + len(names).to_bytes(4, "little")
    path.write_bytes(b"".join(pack(good.head, sections, good.origin)))
    return path


def test_a_folder_with_other_things_in_it_is_left_alone(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--cache-dir` of somebody's project: nothing there is adopted, and nothing is taken away."""
    project = tmp_path / "project"
    (project / "stamps").mkdir(parents=True)
    old = [project / ".build-id-notes", project / ".content-draft"]
    for path in old:
        path.touch()
        os.utime(path, (1, 1))
    (project / "stamps" / "l1").symlink_to("nowhere")
    (project / "stamps" / "1-2-3-4-5").symlink_to("nowhere")
    before = sorted(project.rglob("*"))
    open_or_build(image, cache_dir=project)
    tidy(Folder(str(project)))
    assert sorted(project.rglob("*")) == before
    assert capsys.readouterr().err == (
        f"icf: warning: {project}: is not a directory of symcaches: it contains '.build-id-notes':"
        " symcaches are not stored\n"
    )
    (project / "icf-symcaches").touch()  # even then
    tidy(Folder(str(project)))
    assert sorted(project.rglob("*")) == sorted([*before, project / "icf-symcaches"])


def test_links_in_the_place_of_stamps_are_not_followed(image: Path, folder: Path, tmp_path: Path) -> None:
    open_or_build(image, cache_dir=folder)
    (link,) = (folder / "stamps").iterdir()
    elsewhere = tmp_path / "elsewhere"
    (folder / "stamps").rename(elsewhere)
    (elsewhere / link.name).unlink()
    (elsewhere / link.name).symlink_to(f"build-id-91ab-{'00' * 16}")  # would go as it leads to nothing
    (folder / "stamps").symlink_to(elsewhere)
    tidy(Folder(str(folder)))
    assert (elsewhere / link.name).is_symlink()


def test_a_folder_of_an_earlier_version_is_used(image: Path, folder: Path) -> None:
    open_or_build(image, cache_dir=folder)
    (folder / "icf-symcaches").unlink()
    before = inodes(folder)
    open_or_build(image, cache_dir=folder)
    assert inodes(folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_home_of_another_user(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `sudo -E`: root would leave there what that user cannot write to, or does not expect."""
    home = tmp_path / "home"
    for name in ("ICF_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    open_or_build(image)
    assert not home.exists()  # nor is a home made that does not exist
    (home / ".cache").mkdir(parents=True)
    for path in (home, home / ".cache"):
        os.chown(path, OTHER_USER, OTHER_USER)
    open_or_build(image)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    open_or_build(image)
    assert sorted(home.rglob("*")) == [home / ".cache"]


def test_a_full_disk(image: Path, folder: Path) -> None:
    done = mounted(
        'mount -t tmpfs -o size=4k,mode=700 none "$1" && touch "$1/icf-symcaches" && echo full >"$1/file"',
        folder, image, image,
    )  # fmt: skip
    assert done.stdout == 2 * f"symcache of {image}\n" + "file\nicf-symcaches\nstamps\n"
    assert done.stderr == f"icf: warning: {folder}: no space left on device: symcaches are not stored\n"


def test_what_cannot_be_written_says_where(image: Path, folder: Path) -> None:
    limited = [tool("prlimit"), "--fsize=1000", sys.executable, "-B", "-m", "icf"]  # -B: compiled sources count, too
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
    names = [f"build-id-0{at}-{'0a' * 16}{COMPLETE}" for at in range(4)]
    for at, name in enumerate(names[:3]):
        keep(small, name, [bytes(100)])
        os.utime(folder / name, (1000 + at, 1000 + at))
    assert [path.name for path in kept(folder)] == names[1:3]
    keep(small, names[3], [bytes(1000)])  # alone more than there is room for
    assert [path.name for path in kept(folder)] == names[3:]


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
        with pytest.raises(IcfError, match="ICF_CACHE_SIZE: .* is not a size"):
            Folder.chosen("x")


def test_leftovers_of_the_dead_go_after_an_hour(folder: Path) -> None:
    folder.mkdir()
    (folder / "icf-symcaches").touch()
    stem = f".build-id-01-{'0a' * 16}"
    gone = (f"{stem}.lock", f"{stem}.symcache.0123456789abcdef", f"{stem}.partial.lock")
    stays = (".nfs0001", f"{stem}.symcache.0123", f"{stem}.draft.lock", ".build-id-1.lock")
    for name, age_s in (*((name, 7200) for name in gone + stays), (f"{stem}.partial.0123456789abcdef", 60)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    tidy(Folder(str(folder)))
    assert sorted(os.listdir(folder)) == sorted((f"{stem}.partial.0123456789abcdef", *stays, "icf-symcaches"))
