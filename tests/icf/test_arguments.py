"""Command lines read without argparse: as argparse reads them, or not at all."""

from __future__ import annotations

import random
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO

import pytest

from icf.arguments import HIDDEN, Arguments, NotPlain, PlainParser
from icf.cli import VERBS
from icf.fullparser import full_parser

COUNT = 1500
WORDS = ["shop", "0x1139", "12", "gnu", "json", "JSON", "text", "a b", "", "-", "-1", "-4x", "--", "none", "-e", "x=y"]


def plain(verb: str, args: list[str]) -> dict[str, object]:
    parser = PlainParser()
    import_module(VERBS[verb].module).add_arguments(parser)
    return vars(parser.parse_args(args))


def full(verb: str, args: list[str]) -> dict[str, object]:
    """What argparse makes of it; empty where it ends the process."""
    parser = full_parser("icf", "")
    import_module(VERBS[verb].module).add_arguments(parser)
    try:
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            return vars(parser.parse_args(args, Arguments({})))
    except SystemExit:
        return {}


def some_args(chance: random.Random, options: list[str]) -> list[str]:
    """Words and options, in all the ways in which options are written, some of them wrong."""
    letters = [option[1] for option in options if len(option) == 2]
    args = ["-e", "shop", "main"] if "-e" in options and chance.random() < 0.5 else []
    for _ in range(chance.randrange(7)):
        kind = chance.random()
        option, word = chance.choice(options), chance.choice(WORDS)
        if kind < 0.4:
            args.append(option)
        elif kind < 0.5:
            args.append(f"{option}={word}")
        elif kind < 0.6:
            args.append("-" + "".join(chance.choices(letters, k=3)) + chance.choice(["", word]))
        elif kind < 0.65:
            args.append(option[: chance.randrange(1, len(option) + 1)])
        else:
            args.append(word)
    return args


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_what_is_plain_is_read_as_argparse_reads_it(verb: str) -> None:
    parser = full_parser("icf", "")
    import_module(VERBS[verb].module).add_arguments(parser)
    options = [name for action in parser._actions for name in action.option_strings]
    chance = random.Random(verb)
    plain_count = 0
    for _ in range(COUNT):
        args = some_args(chance, options)
        try:
            read = plain(verb, args)
        except NotPlain:
            continue
        plain_count += 1
        assert read == full(verb, args), args
    # these have verbs, or lists within theirs
    assert (plain_count == 0) if verb in ("cache", "pass") else (plain_count > 10)


@pytest.mark.parametrize(
    "line",
    [
        "symbolize -e shop 0x1139",
        "symbolize --obj=shop 0x1139 0x1140",
        "symbolize -e shop -f -i -C -p -a 1139",
        "symbolize -fiCpe shop 1139",
        "symbolize -Cfpeshop 1139",
        "symbolize --style gnu --exe shop -s -f",
        "symbolize --output-style=JSON --functions=short --no-inlines --demangle",
        "symbolize --inlining=true --default-arch=x86_64 --adjust-vma=0x1000 --debug-root a --debug-root=b",
        "resolve -e shop",
        "resolve --pid 12 --out json stacks",
        "disasm -e shop main",
        "dump shop --json",
        "verify shop --json",
    ],
)
def test_what_people_write_is_plain(line: str) -> None:
    verb, *args = line.split()
    assert plain(verb, args) == full(verb, args) != {}


@pytest.mark.parametrize(
    "line",
    [
        *("--help", "-h", "-e", "-e --help", "-e -1", "--exe=", "-ex=y", "--style=pretty", "--styl gnu", "--lazy=yes"),
        *("-fz", "-e a --pid 12", "--pid twelve", "0x1 -f 0x2", "-e a -- 0x1", "-", "--unknown"),
    ],
)
def test_the_rest_is_left_to_argparse(line: str) -> None:
    with pytest.raises(NotPlain):
        plain("symbolize", line.split())


def test_options_that_must_be_there() -> None:
    parser = PlainParser()
    parser.add_argument("-o", required=True)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--one", action="store_true")
    group.add_argument("--other", action="store_true")
    parser.add_argument("words", nargs="+")
    assert vars(parser.parse_args(["-o", "x", "--one", "a", "b"])) == {
        "o": "x",
        "one": True,
        "other": False,
        "words": ["a", "b"],
    }
    for args in (["--one", "a"], ["-ox", "a"], ["-ox", "--one", "--other", "a"], ["-ox", "--one"]):
        with pytest.raises(NotPlain):
            parser.parse_args(args)


def test_what_a_plain_parser_does_not_know() -> None:
    for action, nargs in (("count", None), ("store", "?")):
        with pytest.raises(NotPlain):
            PlainParser().add_argument("-x", action=action, nargs=nargs)
    parser = PlainParser()
    parser.add_argument("first")
    with pytest.raises(NotPlain):
        parser.add_argument("second")


def test_help_leaves_out_what_is_hidden() -> None:
    parser = full_parser("prog", "does it")
    parser.add_argument("--shown", action="store_true", help="is here")
    parser.add_argument_group("others").add_argument("--buried", metavar="SPADE", help=HIDDEN)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--one")
    group.add_argument("--secret", help=HIDDEN)
    text = parser.format_help() + parser.format_usage()
    assert "--shown" in text and "is here" in text and "--one" in text
    assert all(word not in text for word in ("buried", "SPADE", "secret", HIDDEN))
