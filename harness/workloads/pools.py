"""Traffic as a pool sees it: slots for a prompt, more for its answer, and all of them back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from radixcheck.capabilities import PoolCapabilities
from radixcheck.operations import Alloc, AnyOperation, Free
from radixcheck.workloads.traffic import Begin, Flow, Terms


def play(
    rng: Random, flow: Flow, capabilities: PoolCapabilities, terms: Terms
) -> Iterator[AnyOperation]:
    """Yield the operations on a pool under this traffic. Nothing is cached here: every request
    needs slots for all of its tokens."""
    answers: dict[int, int] = {}
    for event in flow:
        prompt, answer = f"a{event.number}", f"b{event.number}"
        if isinstance(event, Begin):
            answers[event.number] = len(event.request.answer)
            yield Alloc(len(event.request.prompt), prompt)
        else:
            yield Alloc(answers.pop(event.number), answer)
            yield Free(answer)
            yield Free(prompt)
