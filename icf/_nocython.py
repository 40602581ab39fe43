"""Stands in for the `cython` module when a kernel runs uncompiled and Cython is not installed."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import SimpleNamespace
from typing import Any

compiled = False
ulonglong = longlong = size_t = None


class _NoGil(ContextDecorator):
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


nogil = _NoGil()


def _same(function: Any) -> Any:
    return function


cclass = ccall = cfunc = inline = _same


def exceptval(*_: object, **__: object) -> Any:
    """Return a decorator that changes nothing."""
    return _same


def declare(_: object, value: object = None, **__: object) -> Any:
    """Return the value of a C variable."""
    return value


def struct(**_: object) -> Any:
    """Return the type of a C struct, whose fields are attributes."""
    return SimpleNamespace
