"""Reports of tests on their way from a worker of pytest-xdist, which can pass on nothing but UTF-8."""

from __future__ import annotations


def passable(value: object) -> object:
    """Return the same value; bytes of names that are no UTF-8, which Python has as surrogates, become `\\udcff`."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {passable(key): passable(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(passable(each) for each in value)
    return value
