"""Errors: one base class that the command line catches in one place, and two kinds that callers treat differently.

A message is lower case and without full stop: place, thing, value, rule.
"""


class IcfError(Exception):
    """An error that a user can cause; the command `icf` reports it as one line.

    Attributes:
        hint: the next thing to try; None if there is no advice.
    """

    hint: str | None

    def __init__(self, *args: object, hint: str | None = None) -> None:
        super().__init__(*args)
        self.hint = hint


class FormatError(IcfError):
    """Bytes that break their format, and where they stand.

    Attributes:
        path: the file.
        section: the section, or the part of the file, such as `ELF header`.
        offset: bytes from the start of the section.
        problem: the value and the rule that it breaks.
    """

    def __init__(self, path: str, section: str, offset: int, problem: str, *, hint: str | None = None) -> None:
        super().__init__(path, section, offset, problem, hint=hint)  # all of it, so it survives pickling
        self.path, self.section, self.offset, self.problem = path, section, offset, problem

    def __str__(self) -> str:
        return f"{self.path}: {self.section}+{self.offset:#x}: {self.problem}"


class UnsupportedError(IcfError):
    """A well-formed input of a kind that is not supported; the message names what is."""
