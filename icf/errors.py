"""Errors: one base class that the command line catches in one place, and two kinds that callers treat differently.

A message is lower case and without full stop: place, thing, value, rule.
"""


class IcfError(Exception):
    """Anything this toolchain reports as one line; `hint` is the next thing to try."""

    hint: str | None

    def __init__(self, *args: object, hint: str | None = None) -> None:
        super().__init__(*args)
        self.hint = hint


class FormatError(IcfError):
    """Bytes that break their format, and where they stand."""

    def __init__(self, path: str, section: str, offset: int, problem: str) -> None:
        super().__init__(path, section, offset, problem)  # all of it, so it survives pickling
        self.path, self.section, self.offset, self.problem = path, section, offset, problem

    def __str__(self) -> str:
        return f"{self.path}: {self.section}+{self.offset:#x}: {self.problem}"


class UnsupportedError(IcfError):
    """A well-formed input of a kind that is not supported; the message names what is."""
