"""The list of the functions that a link keeps apart, beside its output: the next link begins with it.

    shop.distinct    {"version": 1, "given_back_bytes": 416, "functions": [["lib.a(till.o)", "_Z4openv", 208, ""], ...]}

The list is never taken for true: functions that the inputs no longer have are dropped from it, and each link is checked
for what it leaves open. A list that cannot be read counts as empty. Functions that no longer need to be in it stay, as
only a link without it could show that; to remove the file is to begin anew.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from icf.newfile import NewFile
from linkpass.distinct.copies import ApartFunction

SUFFIX = ".distinct"
_VERSION = 1
_MODE = 0o644
_SIZE_LIMIT_BYTES = 1 << 28


class KeptList(NamedTuple):
    """The functions, in a fixed order, and what they cost."""

    functions: tuple[ApartFunction, ...] = ()
    given_back_bytes: int = 0  # of code: the functions, and those that call them

    @classmethod
    def read(cls, path: str) -> KeptList:
        """Read the list at a path; an empty one if there is none, or none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if os.path.getsize(path) <= _SIZE_LIMIT_BYTES:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    content = json.load(file)
                functions = [
                    ApartFunction(str(name), str(symbol), int(size), str(twin))
                    for name, symbol, size, twin in content["functions"]
                ]
                if content["version"] == _VERSION and all("\0" not in each.input for each in functions):
                    return cls(tuple(functions), int(content["given_back_bytes"]))
        return cls()

    def write(self, path: str) -> None:
        """Write the list; remove the file if the list is empty. Raise OSError if that is not possible."""
        if not self.functions:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        rows = ",\n".join(json.dumps(each) for each in sorted(self.functions))
        head = f'"version": {_VERSION}, "given_back_bytes": {self.given_back_bytes}'
        text = f'{{{head}, "functions": [\n{rows}\n]}}\n'
        with NewFile(os.path.dirname(path) or ".", ".") as out:
            rest = memoryview(text.encode("utf-8", "surrogateescape"))
            while len(rest):
                rest = rest[os.write(out.fd, rest) :]
            os.fchmod(out.fd, _MODE)
            os.replace(out.name(), path)
