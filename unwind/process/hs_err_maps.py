"""The mappings in a log that a Java VM writes when it crashes: `hs_err_pid4711.log`.

    Dynamic libraries:
    5631d3e4d000-5631d3e4e000 r-xp 00001000 fe:00 327901                     /usr/lib/jvm/java-17/bin/java
    ...
                                                                             an empty line ends them

On Linux they are the text of `/proc/PID/maps`.
"""

from __future__ import annotations

HEAD = b"Dynamic libraries:"


def maps_in(text: bytes) -> bytes | None:
    """Return the mappings that a text has, as the kernel writes them; None if it has none."""
    _, head, rest = text.replace(b"\r\n", b"\n").partition(b"\n" + HEAD + b"\n")
    return rest.partition(b"\n\n")[0] if head else None
