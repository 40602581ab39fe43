"""Paths of source files by number."""

from __future__ import annotations


class Paths:
    """Paths of source files by their numbers; 0 is none. Of those numbered together the most used come first."""

    def __init__(self) -> None:
        self.paths = [""]
        self._numbers = {"": 0}

    def number(self, uses: dict[str, int]) -> dict[str, int]:
        """Return the numbers of all paths, those of `uses` included."""
        new = [path for path in uses if path not in self._numbers]
        for path in sorted(new, key=lambda path: -uses[path]):
            self._numbers[path] = len(self.paths)
            self.paths.append(path)
        return self._numbers
