"""What is done about each operation on requests. Every function takes the same steps:

before   may it be done at all? if not, it is skipped and counted
call     the cache does it; the recorder sees what happens to the slots meanwhile
check    the row that the cache tells now: whose slots, and what is in them
write    what an engine would compute goes into the slots that the request got for it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixcheck.checker.broken import counted, listed
from radixcheck.checker.calls import read_length
from radixcheck.operations import (
    Abort,
    Admit,
    Allocated,
    Arrive,
    Decode,
    Evict,
    Failure,
    Finish,
    Interrupt,
    MatchRequest,
    Operation,
    Outcome,
    Prefill,
    Queued,
    Refusal,
    Reset,
    Retract,
    Returned,
    Row,
    Schedule,
    Starve,
)
from radixcheck.reference import scheduler
from radixcheck.requests.recorder import INTERRUPTED
from radixcheck.requests.request import Request
from radixcheck.requests.trial import Trial

CACHE_AWARE = ("lpm", "weight")
"""Orders under which a request waits for another one that computes what it needs."""

LONGEST_ROW = 10_000
"""Requests with more tokens are not admitted: a trace is no benchmark."""

NO = (Refusal, Failure)
UNDONE = "with its lock the pool is too full"
NOT_RUNNING = "no such request is running"
NOT_WAITING = "no such request is waiting"

# ------------------------------------------------------------------------------- the queue


def arrive(trial: Trial, operation: Arrive) -> Outcome | None:
    """A request joins the queue, with a name that no other one ever had."""
    if operation.request in trial.gone or not operation.request:
        return trial.skip("a request of this name was there before")
    if not 0 < len(operation.tokens) <= LONGEST_ROW:
        return trial.skip("its prompt is empty, or too long")
    if operation.namespace and trial.capabilities.namespaces == "absent":
        return trial.skip("the cache has no namespaces")
    trial.gone.add(operation.request)
    trial.queue.append(Request(operation))
    return None


def schedule(trial: Trial, operation: Schedule) -> Outcome | None:
    """Match all who wait, put them in order, and see who had better wait a round more."""
    trial.order = getattr(trial.cache, "order", None) or operation.order
    for request in trial.queue:
        if isinstance(outcome := _match(trial, request), Failure):
            return outcome
    arranged = scheduler.arrange(
        [request.waiting for request in trial.queue], trial.order, operation.draw
    )
    known = {request.name: request for request in trial.queue}
    trial.queue = [known[waiting.request] for waiting in arranged]
    trial.deferred = _deferred(trial) if trial.order in CACHE_AWARE else set()
    names = tuple(trial.queue_names())
    if names != tuple(known):
        trial.saw("queue-reordered")
    return Queued(names)


def _deferred(trial: Trial) -> set[str]:
    computing = [each for each in trial.running.values() if each.computed < each.to_prefill]
    in_order = [request.waiting for request in (*computing, *trial.queue)]
    return scheduler.deferred(in_order, trial.page_size).intersection(trial.queue_names())


def match(trial: Trial, operation: MatchRequest) -> Outcome | None:
    """Look up what is stored for a request that waits."""
    request = trial.waiting(operation.request)
    if request is None:
        return trial.skip(NOT_WAITING)
    return _match(trial, request)


def _match(trial: Trial, request: Request) -> Outcome | None:
    if not trial.has["match"]:
        return None
    answer = trial.look_up(request, "match")
    if isinstance(answer, NO):
        return answer
    request.matched = read_length(answer, "match")
    _check_matched(trial, request, request.matched)
    return Row((), request.matched)


def _check_matched(trial: Trial, request: Request, matched: int) -> None:
    if matched % trial.page_size:
        expected = f"a multiple of {trial.page_size}"
        trial.breaks("unaligned-match", expected, str(matched))
    if not 0 <= matched < len(request.tokens):
        most = counted(len(request.tokens) - 1)
        trial.breaks("phantom-prefix", f"at most {most}", str(matched), "the last is computed")


# ---------------------------------------------------------------------------- admission


def admit(trial: Trial, operation: Admit) -> Outcome | None:
    """Let a request run if the pool has room for it: before its lock, and again with it."""
    request = trial.waiting(operation.request)
    if request is None:
        return trial.skip(NOT_WAITING)
    if request.name in trial.deferred:
        trial.saw("deferred")
        return trial.skip("another request is computing what this one needs")
    if not trial.fits(request):
        trial.saw("admission-refused")
        return trial.skip("the pool is too full")
    answer = trial.look_up(request, "begin", request.name)
    if isinstance(answer, NO):
        _check_nothing_kept(trial, request)
        return answer
    return _begun(trial, request, read_length(answer, "begin"))


def _begun(trial: Trial, request: Request, matched: int) -> Outcome | None:
    """A request was let in: see what it was lent, and whether there still is room."""
    _check_matched(trial, request, matched)
    row = trial.read_row(request, matched)
    if row is None or not trial.may_read(request, row):
        return None
    _witness_admission(trial, request, row)
    request.last_matched = request.matched = request.lent = matched
    request.row = row
    trial.queue.remove(request)
    trial.running[request.name] = request
    if trial.fits(request):
        return Row(tuple(row), matched) if trial.recording else None
    trial.saw("admission-undone")
    _released(trial, request, "abort", request.name)
    _check_left(trial, request, row)
    trial.queue.insert(0, request)
    return Refusal(UNDONE)


def _witness_admission(trial: Trial, request: Request, row: list[int]) -> None:
    matched = len(row)
    trial.saw("admitted-with-match" if matched else "admitted-without-match")
    if matched and matched + trial.page_size >= len(request.tokens):
        trial.saw("all-but-the-end-matched")
    if matched < request.matched:
        trial.saw("match-was-stale")
    if request.last_matched is not None:
        trial.saw("rematched-longer", when=matched > request.last_matched)
        trial.saw("rematched-shorter", when=matched < request.last_matched)
    if matched and any(other.row[:1] == row[:1] for other in trial.running.values()):
        trial.saw("prefix-shared-by-running")


# ------------------------------------------------------------------------------ computing


def prefill(trial: Trial, operation: Prefill) -> Outcome | None:
    """Compute the next chunk of a prompt, and let the cache store what is whole."""
    request = trial.running.get(operation.request)
    if request is None:
        return trial.skip(NOT_RUNNING)
    num_tokens = min(operation.num_tokens, request.to_prefill - request.computed)
    if num_tokens <= 0:
        return trial.skip("its prompt is computed")
    outcome = _compute(trial, request, num_tokens)
    if trial.broken or isinstance(outcome, Refusal):
        return outcome
    if request.computed < request.to_prefill:
        trial.saw("prompt-in-chunks")
        if request.computed % trial.page_size:
            trial.saw("chunk-ends-inside-page")
    return _publish(trial, request)


def decode(trial: Trial, operation: Decode) -> Outcome | None:
    """Give the last token its slot, read the whole row, and sample one more."""
    request = trial.running.get(operation.request)
    if request is None:
        return trial.skip(NOT_RUNNING)
    computed = len(request.row)
    if computed < request.to_prefill:
        return trial.skip("its prompt is not computed")
    if request.sampled >= request.max_new_tokens:
        return trial.skip("it has sampled all that it may")
    outcome: Outcome | None = None
    if computed < len(request.tokens):
        outcome = _compute(trial, request, 1)
        if trial.broken or isinstance(outcome, Refusal):
            return outcome
        inside = computed % trial.page_size
        trial.reached["decoded-into-page" if inside else "decoded-into-new-page"] += 1
    if trial.may_go_on(request, request.row):
        request.sample(operation.token)
    return outcome


def _compute(trial: Trial, request: Request, num_tokens: int) -> Outcome | None:
    """Let the cache take slots for `num_tokens`, and write into them."""
    recorder, start = trial.recorder, len(request.row)
    stop = start + num_tokens
    answer = trial.call(request, "append", request.name, request.tokens[:stop], num_tokens)
    if answer is not None and isinstance(answer, NO):
        return _not_computed(trial, request, answer)
    if recorder.freed:
        trial.saw("evicted-to-allocate")
        trial.check_surplus(recorder.taken - (recorder.before or 0))
    row = trial.read_row(request, stop)
    if row is None or not trial.may_keep(request, row[:start]):
        return None
    if not trial.may_write(request, new := row[start:]):
        return None
    request.row = row
    trial.content.write(new, request.tags[start:stop])
    request.starts += 1
    return Allocated(tuple(new)) if trial.recording else None


def _not_computed(trial: Trial, request: Request, answer: Refusal | Failure) -> Outcome:
    """The cache is short of slots, or was interrupted: the request must have what it had, and no
    more."""
    if answer != Refusal(INTERRUPTED):
        _witness_shortage(trial)
    _check_nothing_kept(trial, request)
    row = trial.read_row(request, request.computed)
    if row is not None and row != request.row:
        trial.breaks("refused-with-effect", listed(request.row), listed(row), "the row has changed")
    elif row is not None:
        trial.may_keep(request, row)
    return answer


def _witness_shortage(trial: Trial) -> None:
    trial.saw("out-of-memory")
    if trial.recorder.refused:
        trial.saw("starved")
    elif trial.size("evictable_size") == 0:
        trial.saw("out-of-memory-all-locked")


def _check_nothing_kept(trial: Trial, request: Request) -> None:
    if (kept := len(request.own) - trial.recorder.owned) > 0:
        told = f"{counted(kept, 'slot')} more than before"
        trial.breaks("refused-with-effect", f"{request.name} holds what it held", told)


def _publish(trial: Trial, request: Request) -> Outcome | None:
    """Let the cache store what is computed, and see that the row names what is stored."""
    old, aligned = request.row, trial.aligned(request.computed)
    answer = trial.call(request, "publish", request.name)
    if isinstance(answer, Failure):
        return answer
    row = trial.read_row(request, request.computed)
    if row is None:
        return None
    if row == old:
        good = trial.may_go_on(request, row)
    else:
        trial.saw("published-duplicates")
        good = trial.may_read(request, row)
    if not good:
        return None
    trial.adopt(request, aligned, row)
    request.row, request.lent = row, aligned
    return Row(tuple(row), aligned) if trial.recording else None


# -------------------------------------------------------------------------------- the end


def finish(trial: Trial, operation: Finish) -> Outcome | None:
    """A request is done: what it computed is the tree's, the rest is free."""
    request = trial.running.get(operation.request)
    if request is None:
        return trial.skip(NOT_RUNNING)
    if request.computed < request.to_prefill:
        return trial.skip("its prompt is not computed")
    row, aligned = request.row, trial.aligned(request.computed)
    own = request.own.intersection(row[:aligned])
    outcome = _released(trial, request, "end", request.name, request.tokens[:])
    trial.saw("finished-after-decode" if request.sampled else "finished-at-prefill")
    trial.saw("finished-with-tail", when=aligned < len(row))
    trial.saw("finished-with-duplicates", when=not own <= request.own)
    _check_left(trial, request, row)
    return outcome


def abort(trial: Trial, operation: Abort) -> Outcome | None:
    """A request goes away: all that is its own is free."""
    if (waits := trial.waiting(operation.request)) is not None and operation.request:
        trial.saw("aborted-while-waiting")
        trial.queue.remove(waits)
        return None
    request = trial.running.get(operation.request)
    if request is None:
        return trial.skip(NOT_RUNNING)
    trial.saw(_when(request))
    if request.lent and any(
        other.row[:1] == request.row[:1] for other in trial.running.values() if other is not request
    ):
        trial.saw("aborted-while-shared")
    row = request.row
    outcome = _released(trial, request, "abort", request.name)
    _check_left(trial, request, row)
    return outcome


def _when(request: Request) -> str:
    if not request.starts:
        return "aborted-after-lock"
    if request.computed < request.to_prefill:
        return "aborted-between-chunks"
    return "aborted-while-decoding" if request.sampled else "aborted-after-prefill"


def retract(trial: Trial, operation: Retract) -> Outcome | None:
    """A request gives all back and waits at the head of the queue, with what it has sampled."""
    request = trial.running.get(operation.request)
    if request is None:
        return trial.skip(NOT_RUNNING)
    trial.saw("retracted")
    method = "retract" if trial.has["retract"] else "abort"
    row = request.row
    outcome = _released(trial, request, method, request.name)
    _check_left(trial, request, row)
    trial.queue.insert(0, request)
    return outcome


def _released(trial: Trial, request: Request, method: str, *arguments: Any) -> Outcome | None:
    """Call what ends a request's run. Its row is nobody's concern while the call goes on."""
    del trial.running[request.name]
    answer = trial.call(request, method, *arguments)
    return answer if isinstance(answer, Failure) else None


def _check_left(trial: Trial, request: Request, row: list[int]) -> None:
    """See that a request that is gone holds nothing. What is left of whole pages is the tree's: if
    not, that shows as soon as nothing runs."""
    trial.adopt(request, trial.aligned(len(row)), row)
    if request.own and not trial.broken:
        told = f"{listed(sorted(request.own))} of {request.name}"
        trial.breaks("leaked-slot", "no slot is left to a request that is gone", told)
    request.release()


# ------------------------------------------------------------------------------- the pool


def evict(trial: Trial, operation: Evict) -> Outcome | None:
    """Let the cache free what nobody uses, as another part of a server may ask it to."""
    if not trial.has["evict"]:
        return trial.skip("the cache has no evict")
    answer = trial.call(None, "evict", operation.num_tokens)
    if isinstance(answer, NO):
        return answer
    freed = tuple(trial.recorder.freed)
    trial.saw("evicted-under-running", when=bool(freed and trial.running))
    trial.check_surplus(operation.num_tokens)
    return Returned(freed)


def starve(trial: Trial, operation: Starve) -> Outcome | None:
    """Let the next allocs be refused."""
    trial.recorder.starving = operation.count
    return None


def interrupt(trial: Trial, operation: Interrupt) -> Outcome | None:
    """Let an eviction be interrupted, if the cache promises what is left then."""
    if trial.capabilities.interrupted_evict == "unspecified":
        return trial.skip("the cache promises nothing about an interrupted eviction")
    trial.recorder.interrupting = operation.after
    return None


def reset(trial: Trial, operation: Reset) -> Outcome | None:
    """Forget everything; whoever runs or waits is gone, and every slot is free."""
    if not trial.has["reset"]:
        return trial.skip("the cache has no reset")
    trial.saw("reset-in-flight", when=bool(trial.running))
    for request in trial.running.values():
        trial.recorder.adopt(request.own)
    trial.running.clear()
    trial.queue.clear()
    answer = trial.call(None, "reset")
    if isinstance(answer, Failure):
        return answer
    trial.check_all_free()
    return None


STEPS: dict[type[Operation], Callable[[Trial, Any], Outcome | None]] = {
    Arrive: arrive,
    Schedule: schedule,
    MatchRequest: match,
    Admit: admit,
    Prefill: prefill,
    Decode: decode,
    Finish: finish,
    Abort: abort,
    Retract: retract,
    Evict: evict,
    Starve: starve,
    Interrupt: interrupt,
    Reset: reset,
}
"""What is done about each kind of operation; idle and the audit are made of others."""
