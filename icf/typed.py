"""What modules need of `typing` when they run. Its import takes 13 ms, as long as Python itself needs to start.

Checkers take `NamedTuple` for the one of `typing`, which it is to whoever uses it, and `TYPE_CHECKING` for true. All
else that `typing` and `collections.abc` have is imported below `if TYPE_CHECKING:`, since annotations are not
evaluated. Modules that a command needs for one address import it from here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    _OF_THE_CLASS = {"__module__", "__annotations__"}

    class _Fields(type):
        """Makes a named tuple of each class that derives from `NamedTuple`: of its annotations the fields."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            for key, value in body.items():
                if key not in _OF_THE_CLASS:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Fields):
        pass
