"""Services: what their prompts share is what they are named for."""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from radixcheck.operations import Tokens
from radixcheck.workloads.shapes import (
    ASSISTANT,
    SHAPES,
    TOOL,
    USER,
    Author,
    Line,
    agents,
    chat,
    few_shot,
    shared_prompt,
    tree_of_thought,
)
from radixcheck.workloads.traffic import Batch, Begin, Terms, first

TERMS = Terms(4, 128)
LEAST_SHARED = {
    "shared-prompt": 0.5,
    "few-shot": 0.5,
    "chat": 0.5,
    "tree-of-thought": 0.7,
    "agents": 0.5,
}
"""The share of all tokens of prompts that an earlier prompt or answer of the same service began
with, at least."""


def author(seed: int, terms: Terms = TERMS) -> Author:
    return Author(Random(seed), terms)


def batches(line: Line, seeds: int = 30) -> list[list[Batch]]:
    """Return one line of each of so many services."""
    return [list(islice(line(author(seed)), 40)) for seed in range(seeds)]


def shared(prompt: Tokens, earlier: list[Tokens]) -> int:
    """Return how many tokens at the beginning of `prompt` some earlier key had too."""
    return max((len(os.path.commonprefix([prompt, key])) for key in earlier), default=0)


@pytest.mark.parametrize("name", SHAPES)
def test_prompts_of_a_service_share_their_beginnings(name: str) -> None:
    tokens = Counter[str]()
    for seed in range(10):
        earlier: list[Tokens] = []
        for event in first(SHAPES[name](Random(seed), TERMS, 0), 40):
            if isinstance(event, Begin):
                prompt, answer, _ = event.request
                tokens["all"] += len(prompt)
                tokens["shared"] += shared(prompt, earlier)
                earlier.append(prompt + answer)
    assert LEAST_SHARED[name] < tokens["shared"] / tokens["all"] < 0.98


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("terms", [Terms(1, 1), Terms(4, 4), Terms(1, 32), Terms(64, 2048)])
def test_a_service_goes_on_whatever_the_terms(name: str, terms: Terms) -> None:
    begun = [each for each in first(SHAPES[name](Random(1), terms, 0), 50) if len(each) == 2]
    assert 50 == len(begun)


@pytest.mark.parametrize("name", SHAPES)
def test_every_namespace_is_served(name: str) -> None:
    terms = TERMS._replace(namespaces=((), ("a",)))
    flows = [first(SHAPES[name](Random(seed), terms, 0), 20) for seed in range(10)]
    begun = [event for flow in flows for event in flow if isinstance(event, Begin)]
    used = {event.request.namespace for event in begun}
    assert {(), ("a",)} == used


def test_users_have_nothing_in_common_but_the_system_prompt() -> None:
    told = author(1)
    for _ in range(50):
        (batch,) = shared_prompt(told)
        assert all(
            any(each.prompt[: len(prompt)] == prompt for prompt in told.prompts) for each in batch
        )


def test_examples_come_in_several_numbers_and_orders() -> None:
    told = author(1)
    contexts = set()
    for _ in range(60):
        ((request, *_),) = few_shot(told)
        rest = request.prompt[len(told.prompts[-1]) :]
        order = []
        while (place := _example(told, rest)) is not None:
            order.append(place)
            rest = rest[len(told.examples[place]) :]
        contexts.add(tuple(order))
    assert {(0, 1), (0, 1, 2), (0, 1, 2, 3, 4, 5)} < contexts
    assert any(tuple(sorted(order)) != order for order in contexts)


def _example(told: Author, rest: Tokens) -> int | None:
    found = [place for place, each in enumerate(told.examples) if rest[: len(each)] == each]
    return max(found, key=lambda place: len(told.examples[place]), default=None)


def test_a_turn_repeats_all_that_was_said_or_is_edited() -> None:
    kinds = Counter[str]()
    for line in batches(chat):
        for before, after in pairwise(line):
            old, new = before[-1], after[0]
            grown = new.prompt[: len(old.prompt + old.answer)] == old.prompt + old.answer
            kinds["goes on" if grown else "edited"] += 1
            kinds["answered twice"] += len(before) == 2
    assert kinds["goes on"] > kinds["edited"] > 10
    assert kinds["answered twice"] > 10


def test_thoughts_are_marked_and_the_best_go_on() -> None:
    for thoughts, marks, deeper in (line[:3] for line in batches(tree_of_thought)):
        assert len({each.prompt for each in thoughts}) == 1
        reached = [each.prompt + each.answer for each in thoughts]
        assert reached == [
            each.prompt[: len(state)] for each, state in zip(marks, reached, strict=True)
        ]
        assert {each.prompt for each in deeper} <= set(reached)
        assert 6 == len(deeper)


def test_an_agent_reads_long_outputs_and_sums_its_history_up() -> None:
    kinds = Counter[str]()
    for line in batches(agents):
        for before, after in pairwise(line):
            said = before[-1].prompt + before[-1].answer
            output = after[0].prompt[len(said) :]
            if after[0].prompt[: len(said)] == said:
                assert TOOL == output[0]
                kinds["long output"] += len(output) > 2 * len(before[-1].answer)
            else:
                kinds["summed up"] += len(after[0].prompt) < len(said)
            kinds["several calls"] += len(before) == 3
    assert min(kinds[each] for each in ("long output", "summed up", "several calls")) > 3


def test_messages_begin_with_their_mark() -> None:
    told = author(1)
    assert (USER, ASSISTANT) == (told.asks((), ()).prompt[0], told.answer()[0])


def test_texts_end_at_page_boundaries_and_one_token_either_side() -> None:
    told = author(1)
    assert {0, 1, 3} == {len(told.text(2)) % 4 for _ in range(100)}
