"""Names as people write them: demangled where they are mangled, else unchanged.

The C++ runtime of the machine does it, through cxxfilt, which searches for that library when it is imported:
so this happens at the first mangled name. A name that the runtime refuses is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache


@lru_cache(maxsize=1 << 16)
def demangle(name: str) -> str:
    """The source form of a linkage name, or `name` itself where it has none.

    >>> demangle("_ZN3fir4tapsEi"), demangle("main")
    ('fir::taps(int)', 'main')
    """
    return _demangler()(name) if name.startswith("_Z") else name


@cache
def _demangler() -> Callable[[str], str]:
    import cxxfilt

    def call(name: str) -> str:
        try:
            return str(cxxfilt.demangle(name))
        except (cxxfilt.Error, UnicodeError):  # not a name after all, or no C++ runtime on this machine
            return name

    return call
