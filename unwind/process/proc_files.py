"""What files of /proc say about processes and threads by their numbers: proc(5)."""

from __future__ import annotations


def innermost_pid(status: bytes, pid: int) -> int:
    """Return the number that a process has in its own container, as the text of its `status` in /proc says it."""
    return next((int(line.split()[-1]) for line in status.splitlines() if line.startswith(b"NStgid:")), pid)


def has_ended(tid: int) -> bool:
    """Return whether a thread has ended; the first one of a process stays listed as long as others run."""
    try:
        with open(f"/proc/{tid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True
