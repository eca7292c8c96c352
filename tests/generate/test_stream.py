"""Generated traces: the same from the same seed, and reaching what they are for."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.generate import generate, mix
from radixcheck.generate.activities import STORIES, Caller
from radixcheck.generate.keys import RELATIONS, SHAPES, Keys
from radixcheck.generate.stairs import STEPS
from radixcheck.generate.stream import STAIRS_EVERY
from radixcheck.operations import Audit, DecRef, Evict, IncRef, Insert, MatchPrefix, Reset, Tick
from radixcheck.trace import Trace, dumps

EVERYTHING = Capabilities(
    page_size=4,
    namespaces="structured",
    priorities="present",
    clock="injected-steps",
    reset="present",
    misuse="raises",
)


def digest() -> str:
    traces = [Trace(generate(seed, EVERYTHING, 300, swarm=seed % 2 == 1)) for seed in range(6)]
    return hashlib.sha256(b"".join(map(dumps, traces))).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "1", "777"])
def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed(hash_seed: str) -> None:
    program = f"import runpy; print(runpy.run_path({__file__!r})['digest']())"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == digest()


def test_different_seeds_give_different_traces() -> None:
    traces = {generate(seed, EVERYTHING, 50) for seed in range(50)}
    assert len(traces) == 50


def test_every_trace_ends_with_an_audit() -> None:
    assert isinstance(generate(1, EVERYTHING, 10)[-1], Audit)


def test_the_plain_mix_does_everything() -> None:
    kinds = Counter(type(each) for seed in range(20) for each in generate(seed, EVERYTHING, 200))
    assert all(kinds[kind] > 10 for kind in (MatchPrefix, Insert, IncRef, DecRef, Reset, Tick))


DEEP = Capabilities(depth="any")


def test_a_target_that_bears_any_depth_gets_it_now_and_then() -> None:
    seeds = range(2 * STAIRS_EVERY)
    assert 2 == sum(len(generate(seed, DEEP, 1)) > STEPS for seed in seeds)


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_every_page_of_a_deep_key_becomes_an_edge(which: int, page_size: int) -> None:
    promised = Capabilities(depth="any", page_size=page_size)
    keys = [
        operation.tokens
        for operation in generate(which * STAIRS_EVERY - 1, promised, 1)
        if isinstance(operation, Insert | MatchPrefix)
    ]
    assert set(keys) == {max(keys)[: page_size * (end + 1)] for end in range(STEPS)}


@pytest.mark.parametrize("promised", [Capabilities(), Capabilities(depth="any", page_size=4)])
def test_nobody_else_gets_a_deep_path(promised: Capabilities) -> None:
    assert STEPS > len(generate(STAIRS_EVERY - 1, promised, 1))


def test_a_swarm_mix_leaves_much_out() -> None:
    mixes = [mix.swarm(Random(seed), mix.ACTIVITIES) for seed in range(200)]
    used = [len(set(each.activities)) for each in mixes]
    assert min(used) < len(mix.ACTIVITIES) / 2
    assert {name for each in mixes for name in each.activities} == set(mix.ACTIVITIES)


def test_every_name_in_a_mix_is_known() -> None:
    assert set(mix.ACTIVITIES) == set(STORIES)
    assert set(mix.SHAPE_WEIGHTS) == set(SHAPES)
    assert set(mix.RELATION_WEIGHTS) == set(RELATIONS)


def test_nothing_is_generated_that_a_target_cannot_do() -> None:
    plain = [each for seed in range(20) for each in generate(seed, Capabilities(), 200)]
    assert not [each for each in plain if isinstance(each, Reset | Tick)]
    assert not [each for each in plain if isinstance(each, MatchPrefix | Insert) and each.namespace]
    assert {each.priority for each in plain if isinstance(each, Insert)} == {0}


def test_locks_are_balanced_by_the_callers_own_books() -> None:
    plain = Capabilities()
    for seed in range(20):
        held = Counter[str]()
        for each in generate(seed, plain, 300):
            if isinstance(each, IncRef):
                held[each.handle] += 1
            elif isinstance(each, DecRef):
                held[each.handle] -= 1
            assert min(held.values(), default=0) >= 0


def test_a_key_is_outnumbered_by_one_that_is_only_inserted() -> None:
    keys = Keys(Random(1), 2, 0, ["noise"], ["exact"])
    caller = Caller(Random(1), keys, ranked=False, steps_back=False)
    ways = {tuple(map(type, caller.outnumber((1, 1), (2, 2), ()))) for _ in range(20)}
    asked = [Evict, Insert, *[MatchPrefix] * 3, *[Insert] * 6]
    stored = [Evict, *[Insert] * 10, Evict]
    assert ways == {tuple(asked), tuple(stored)}


def test_a_key_is_refreshed_outnumbered_or_worn() -> None:
    keys = Keys(Random(1), 1, 0, ["noise"], ["exact"])
    caller = Caller(Random(1), keys, ranked=False, steps_back=False)
    stories = [tuple(map(type, caller.refresh())) for _ in range(200)]
    worn = (*[Insert, Insert, Evict] * 24, Evict)
    assert {(Insert, Evict), (MatchPrefix, Evict), worn} <= set(stories)
    assert any(story[0] is Evict for story in stories)


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_keys_aim_at_page_boundaries_and_one_token_either_side(page_size: int) -> None:
    keys = Keys(Random(1), page_size, 0, list(SHAPES), list(RELATIONS))
    lengths = Counter(len(keys.new()) % page_size for _ in range(3000))
    assert set(lengths) >= {0, 1 % page_size, page_size - 1}


def test_most_keys_are_kin() -> None:
    keys = Keys(Random(1), 1, 0, ["noise"], list(RELATIONS))
    made = [keys.new() for _ in range(300)]
    kin = sum(any(key[:1] == other[:1] for other in made[:place]) for place, key in enumerate(made))
    assert kin > 200
