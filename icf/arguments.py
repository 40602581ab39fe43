"""Command lines that need no argparse, whose import takes as long as all that a query of a symcache does.

A verb tells its options to a `Parser`. That is a `PlainParser` first, which takes them by the calls that argparse has,
so there is one list of them, and reads what people and scripts write day in, day out, just as argparse reads it:
options by their full names, letters in one word (`-fCe IMAGE`), `--name=value`, words in one place. Whatever else there
is raises `NotPlain`, and argparse gets it: help, mistakes, verbs within verbs, `--` in front of anything but a command,
values that begin with a dash.
"""

from __future__ import annotations

from icf.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any, NoReturn, TypeAlias

    Parser: TypeAlias = "argparse.ArgumentParser | PlainParser"

REMAINDER = "..."  # as argparse has it: a command, which begins after `--`
HIDDEN = "(hidden)"  # as `help`: nobody needs to read of this option
_STORED = {"store_true": True, "store_false": False}


class NotPlain(Exception):
    """This is for argparse."""


class Arguments:
    """What a command line says, by the names of the options."""

    def __init__(self, values: dict[str, object]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


class _Option:
    """What to do with an option, or with words."""

    __slots__ = ("dest", "action", "count", "const", "convert", "choices", "required")

    def __init__(
        self,
        dest: str,
        action: str,
        count: str | None,
        const: object,
        convert: Callable[[str], object] | None,
        choices: Collection[object] | None,
        required: bool,
    ) -> None:
        self.dest, self.action, self.count, self.const = dest, action, count, const
        self.convert, self.choices, self.required = convert, choices, required

    @property
    def takes_value(self) -> bool:
        return self.action in ("store", "append")

    def value(self, text: str) -> object:
        """What a text means here."""
        try:
            value = text if self.convert is None else self.convert(text)
        except (TypeError, ValueError):
            raise NotPlain from None
        if self.choices is not None and value not in self.choices:
            raise NotPlain
        return value


class PlainParser:
    """Takes options as `argparse.ArgumentParser` does, and reads plain command lines."""

    def __init__(self) -> None:
        self.description: str | None = None
        self.epilog: str | None = None
        self._options: dict[str, _Option] = {}
        self._words: _Option | None = None
        self._defaults: dict[str, object] = {}
        self._exclusive: list[_ExclusiveGroup] = []

    def add_argument(
        self,
        *names: str,
        action: str = "store",
        nargs: str | None = None,
        const: object = None,
        type: Callable[[str], object] | None = None,
        choices: Collection[object] | None = None,
        required: bool = False,
        dest: str | None = None,
        **others: object,
    ) -> _Option:
        """Take an option or words; of the `others` only `default` matters, the rest is for people."""
        if dest is None:
            dest = next((name for name in names if name.startswith("--")), names[0]).lstrip("-").replace("-", "_")
        if action in _STORED:
            action, const = "store_const", _STORED[action]
            others.setdefault("default", not const)
        elif action not in ("store", "append", "store_const"):
            raise NotPlain
        option = _Option(dest, action, nargs, const, type, choices, required)
        self._defaults.setdefault(dest, others.get("default"))
        if not names[0].startswith("-"):
            if self._words is not None or nargs not in (None, "?", "*", "+", REMAINDER):
                raise NotPlain
            self._words = option
        elif nargs is not None:
            raise NotPlain
        else:
            self._options.update(dict.fromkeys(names, option))
        return option

    def add_argument_group(self, title: str) -> PlainParser:
        return self

    def add_mutually_exclusive_group(self, *, required: bool = False) -> _ExclusiveGroup:
        self._exclusive.append(_ExclusiveGroup(self, required))
        return self._exclusive[-1]

    def add_subparsers(self, **_: object) -> NoReturn:
        raise NotPlain

    def parse_args(self, args: Sequence[str]) -> Arguments:
        """The values of a plain command line; else `NotPlain`."""
        values = dict(self._defaults)
        given: set[_Option] = set()
        words: list[str] = []
        was_option = False
        rest = iter(args)
        for arg in rest:
            if self._words is not None and self._words.count == REMAINDER and (arg == "--" or arg[:1] != "-"):
                words = [arg, *rest]
                break
            if not arg.startswith("-"):
                if was_option and words:
                    raise NotPlain
                words.append(arg)
                was_option = False
                continue
            was_option = True
            for option, text in self._split(arg):
                given.add(option)
                if not option.takes_value:
                    values[option.dest] = option.const
                    continue
                text = next(rest, "") if text is None else text
                if not text or text.startswith("-"):
                    raise NotPlain
                value = option.value(text)
                if option.action == "append":
                    values[option.dest] = [*values[option.dest], value]  # type: ignore[misc]
                else:
                    values[option.dest] = value
        self._check(given)
        self._put_words(words, values)
        return Arguments(values)

    def _split(self, arg: str) -> Iterator[tuple[_Option, str | None]]:
        """The options in one word, and the value that the last of them has in it."""
        if arg in self._options:
            yield self._options[arg], None
        elif arg.startswith("--"):
            name, _, text = arg.partition("=")
            option = self._options.get(name)
            if option is None or not option.takes_value:
                raise NotPlain
            yield option, text
        elif len(arg) == 1 or "=" in arg or any(name.startswith(arg) for name in self._options):
            raise NotPlain
        else:
            for at in range(1, len(arg)):
                option = self._options.get("-" + arg[at])
                if option is None:
                    raise NotPlain
                if option.takes_value:
                    yield option, arg[at + 1 :] or None
                    return
                yield option, None

    def _check(self, given: set[_Option]) -> None:
        if any(option.required and option not in given for option in self._options.values()):
            raise NotPlain
        for group in self._exclusive:
            count = len(given.intersection(group.options))
            if count > 1 or (group.required and not count):
                raise NotPlain

    def _put_words(self, words: list[str], values: dict[str, object]) -> None:
        option = self._words
        if option is None:
            if words:
                raise NotPlain
            return
        found = [option.value(word) for word in words]
        if option.count in ("*", "+", REMAINDER):
            if not words and option.count == "+":
                raise NotPlain
            values[option.dest] = found
        elif len(words) > 1 or (not words and option.count is None):
            raise NotPlain
        elif words:
            values[option.dest] = found[0]


class _ExclusiveGroup:
    """Options of which a command line has one at most."""

    def __init__(self, parser: PlainParser, required: bool) -> None:
        self._parser, self.required = parser, required
        self.options: list[_Option] = []

    def add_argument(self, *names: str, **settings: Any) -> None:
        self.options.append(self._parser.add_argument(*names, **settings))
