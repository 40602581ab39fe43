"""Runs `icf ARGUMENTS` by the server of tests/support/icf_server.py: `icf_client.py SOCKET ARGUMENTS`.

The command gets the standard streams, directory and environment of this process, and its status is that of the command.
This file needs the standard library alone, so that `python -I -S` starts it in a few milliseconds.
"""

import os
import socket
import sys


def main() -> int:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(sys.argv[1])
        environment = [name + b"=" + value for name, value in os.environb.items()]
        words = [os.fsencode(word) for word in sys.argv[2:]]
        parts = [os.getcwdb(), b"%d" % len(words), *words, *environment]
        request = b"\0".join(parts)
        socket.send_fds(server, [b"%16d" % len(request)], [0, 1, 2])
        server.sendall(request)
        status = server.recv(16)  # nothing if the server has ended
    return int(status) if status else 1


if __name__ == "__main__":
    sys.exit(main())
