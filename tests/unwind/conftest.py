"""What a test here asks the resolver, the second resolver is asked, too: the two must agree on whole stacks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from tests.unwind.support import assert_same
from unwind.resolve.resolver import Answers, Resolver
from unwind.samples.recording import Losses
from unwind.second_reader.resolver import SecondResolver


@pytest.fixture(autouse=True)
def second_resolver_agrees(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the answers; a test with the mark `first_alone` leaves that out."""
    if request.node.get_closest_marker("first_alone"):
        return
    resolve = Resolver.resolve

    def resolve_twice(
        first: Resolver,
        addresses: Sequence[int | None],
        vptrs: tuple[tuple[int, int], ...] = (),
        exact: Collection[int] = (),
    ) -> Answers:
        answers = resolve(first, addresses, vptrs, exact)
        if first.losses is not Losses.NONE:
            return answers
        second = SecondResolver(first.process, use_vptrs=first.use_vptrs)
        assert_same(answers, second.resolve(addresses, vptrs, exact))
        return answers

    monkeypatch.setattr(Resolver, "resolve", resolve_twice)
