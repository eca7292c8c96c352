"""Five kinds of services. They differ in what their prompts share::

    shared-prompt   SSSSSS q       few-shot   S e1 e2 e3 q     agents   TTTTTTTT q c ooooo c
                    SSSSSS qq                 S e1 e2 q                 TTTTTTTT q c oo c oooo
                    SSSs q                    S e1 e3 e2 q              TTTTTTTT q sum c

    chat            S q            tree-of-thought   S problem t1 t1.1
                    S q a q                                       t1.2
                    S q a q a q                                t2 t2.1
                    S q a q'                                   t3

Lengths are pages, so that a text ends at a page boundary or one token either side of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

from radixcheck.generate.keys import pick
from radixcheck.operations import Namespace, Tokens
from radixcheck.workloads.traffic import Batch, Flow, Request, Terms, Workload, interleaved

USER, ASSISTANT, TOOL = 1, 2, 3
"""With these tokens a chat template begins a message, so that all forks share one more token."""

WORDS = 4
"""The first token that is no such mark."""

VOCABULARIES = (2, 40, 30_000)
LINES = (1, 2, 3, 6)


class Author:
    """Writes the texts of one service.

    Args:
        rng: the only source of chance.
        terms: what the texts must fit.
    """

    def __init__(self, rng: Random, terms: Terms) -> None:
        self.rng = rng
        self.terms = terms
        self._vocabulary = pick(rng, VOCABULARIES)
        prompt = self.text(6)
        self.prompts = (prompt, prompt, prompt[: len(prompt) // 2] + self.text(3), self.text(2))
        """System prompts: one that most use, one that differs from it half-way, and a short one."""
        self.examples = [self.says(USER, 1) + self.says(ASSISTANT, 1) for _ in range(6)]
        self.tools = self.text(8)
        """What is said of the tools, to every agent."""

    def text(self, pages: int) -> Tokens:
        """Return about so many pages of words."""
        length = max(1, pages * self.terms.unit + pick(self.rng, (-1, 0, 0, 1)))
        return tuple([WORDS + int(self.rng.random() * self._vocabulary) for _ in range(length)])

    def says(self, who: int, pages: int) -> Tokens:
        """Return a message of about so many pages."""
        return (who, *self.text(pages))

    def asks(self, context: Tokens, namespace: Namespace) -> Request:
        """Return a request that asks something about `context`."""
        question = self.says(USER, pick(self.rng, (0, 1, 1, 2)))
        return Request(context + question, self.answer(), namespace)

    def answer(self) -> Tokens:
        """Return an answer, mostly a short one."""
        return self.says(ASSISTANT, pick(self.rng, (0, 1, 1, 3)))

    def namespace(self) -> Namespace:
        """Choose whose prompts these are; the same prompts are stored for everybody."""
        return pick(self.rng, self.terms.namespaces)

    def is_full(self, said: Tokens) -> bool:
        """Tell whether the context has no room for another turn."""
        return len(said) >= self.terms.longest


Line: TypeAlias = Callable[[Author], Iterator[Batch]]
"""Batches of requests, each of which needs the answers to the one before."""


def shared_prompt(author: Author) -> Iterator[Batch]:
    """Users who have nothing in common but the system prompt."""
    prompt, namespace = pick(author.rng, author.prompts), author.namespace()
    yield [author.asks(prompt, namespace) for _ in range(pick(author.rng, (1, 1, 2, 4)))]


def few_shot(author: Author) -> Iterator[Batch]:
    """Questions behind worked examples: the first few, now and then in another order."""
    shown = author.examples[: pick(author.rng, (2, 3, 6))]
    if author.rng.random() < 0.3:
        place = int(author.rng.random() * len(shown))
        shown = [*shown[:place], *reversed(shown[place:])]
    context, namespace = sum(shown, author.prompts[-1]), author.namespace()
    yield [author.asks(context, namespace) for _ in range(pick(author.rng, (1, 2, 4)))]


def chat(author: Author) -> Iterator[Batch]:
    """A conversation: every turn repeats all that was said. Some turns are answered twice, some are
    edited and asked again."""
    said, namespace = pick(author.rng, author.prompts), author.namespace()
    while True:
        turn = author.asks(said, namespace)
        again = turn._replace(answer=author.answer())
        batch = [turn, again] if author.rng.random() < 0.2 else [turn]
        yield batch
        if author.rng.random() < 0.8:
            said = turn.prompt + batch[-1].answer
        if author.is_full(said):
            return


def tree_of_thought(author: Author) -> Iterator[Batch]:
    """A search: three thoughts on each of the best states, a mark for each thought, and the best go
    on."""
    namespace = author.namespace()
    states = [author.prompts[-1] + author.says(USER, 2)]
    mark = author.says(USER, 0)
    while True:
        thoughts = [
            Request(state, author.says(ASSISTANT, 1), namespace)
            for state in states
            for _ in range(3)
        ]
        yield thoughts
        reached = [thought.prompt + thought.answer for thought in thoughts]
        yield [Request(state + mark, author.text(0), namespace) for state in reached]
        states = author.rng.sample(reached, 2)
        if author.is_full(states[0]):
            return


def agents(author: Author) -> Iterator[Batch]:
    """An agent with tools: short calls, long outputs, several calls at once, and a history that is
    summed up when it grows too long."""
    namespace = author.namespace()
    task = author.tools + author.says(USER, 1)
    said = task
    while True:
        calls = pick(author.rng, (1, 1, 1, 3))
        step = [Request(said, author.says(ASSISTANT, 0), namespace) for _ in range(calls)]
        yield step
        said = step[-1].prompt + step[-1].answer
        said += author.says(TOOL, pick(author.rng, (1, 4, 12)))
        if author.rng.random() < 0.15:
            said = task + author.says(USER, 1)
        if author.is_full(said):
            return


def _workload(line: Line) -> Workload:
    def workload(rng: Random, terms: Terms, earlier: int) -> Flow:
        author = Author(rng, terms)
        return interleaved(rng, lambda: line(author), pick(rng, LINES))

    return workload


SHAPES: dict[str, Workload] = {
    "shared-prompt": _workload(shared_prompt),
    "few-shot": _workload(few_shot),
    "chat": _workload(chat),
    "tree-of-thought": _workload(tree_of_thought),
    "agents": _workload(agents),
}
"""Services by name. Every trace is of a service of its own, whatever came earlier."""
