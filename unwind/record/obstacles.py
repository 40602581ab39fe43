"""What keeps perf from recording: each as one line, with what helps."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

from icf.errors import IcfError

_PACKAGES = {
    "debian": "apt install linux-perf",
    "ubuntu": "apt install linux-tools-generic linux-tools-$(uname -r)",
    "fedora": "dnf install perf",
    "arch": "pacman -S perf",
    "suse": "zypper install perf",
    "opensuse": "zypper install perf",
    "alpine": "apk add perf",
}
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_ALL_USERS = ["0", "0", "4294967295"]


class Perf(NamedTuple):
    """The perf that is used."""

    path: str
    version: str


def find_perf() -> Perf:
    """Return perf, which runs; `IcfError` says how to get it."""
    path = shutil.which("perf")
    if path is None:
        raise IcfError("perf is not installed", hint=install_hint(_os_release("/etc/os-release")))
    result = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=60)
    if result.returncode:  # Ubuntu's is a script that looks for the one of the kernel
        raise IcfError(
            f"{path}: does not run on Linux {os.uname().release}", hint=install_hint(_os_release("/etc/os-release"))
        )
    return Perf(path, result.stdout)


def install_hint(os_release: dict[str, str]) -> str:
    """Return how perf is installed on a system, from its /etc/os-release."""
    names = [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]
    return next((_PACKAGES[name] for name in names if name in _PACKAGES), "perf is in the package linux-tools or perf")


def check_rights(pid: str, paranoid_path: str = _PARANOID) -> str:
    """Return a line about what is not recorded, "" if all is; `IcfError` if perf may not record at all."""
    try:
        with open(paranoid_path, encoding="ascii") as file:
            paranoid = int(file.read())
    except (OSError, ValueError):
        raise IcfError(
            "this kernel has no perf events (/proc/sys/kernel/perf_event_paranoid is missing)",
            hint="containers and some virtual machines do not have them: record on the host",
        ) from None
    owners = {each: _owner(each) for each in pid.split(",")} if pid else {}
    if may_record_all():
        return ""
    if paranoid > 2:
        raise IcfError(
            f"perf may not record: kernel.perf_event_paranoid is {paranoid}",
            hint="as root: sysctl kernel.perf_event_paranoid=1, or run icf record as root",
        )
    for each, owner in owners.items():
        if owner != os.geteuid():
            raise IcfError(f"process {each}: belongs to another user", hint="run icf record as that user or as root")
    if paranoid == 2:
        return "kernel functions are not recorded: kernel.perf_event_paranoid is 2"
    return ""


def may_record_all() -> bool:
    """Return whether this process may record other users, the kernel and namespaces."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return has_right(_status("/proc/self/status"), file.read())


def has_right(status: dict[str, str], uid_map: str) -> bool:
    """Return whether a process may record everything, from its /proc/PID/status and uid_map.

    A capability counts outside of user namespaces only, so not in a container that was started without root.
    """
    capabilities = int(status.get("CapEff", "0"), 16)
    is_capable = capabilities >> _CAP_SYS_ADMIN & 1 or capabilities >> _CAP_PERFMON & 1
    return bool(is_capable) and uid_map.split() == _ALL_USERS


def failure_hint(call_graph: str) -> str:
    """Return what may help where perf itself has failed, after its own messages."""
    if call_graph == "lbr":
        return "lbr needs counters of an Intel processor, which virtual machines rarely have: --call-graph fp"
    return "-e cpu-clock needs no counters; ulimit -n and kernel.perf_event_mlock_kb limit what perf may open"


def _owner(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError as error:
        raise IcfError(f"process {pid}: no such process") from error


def _status(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        pairs = (line.partition(":") for line in file)
        return {key: value.strip() for key, _, value in pairs}


def _os_release(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            pairs = (line.strip().partition("=") for line in file)
            return {key: value.strip('"') for key, _, value in pairs}
    except OSError:
        return {}
