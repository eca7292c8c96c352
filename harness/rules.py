"""Every rule by name, in order of precedence: the first one broken at an operation names the
finding.

The statement and the severity of a rule live here and nowhere else; docs/contract.md explains them
with examples, and `radixcheck.checker` is where each is judged. ``source`` names the public bug or
paper that made the rule necessary.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """What a broken rule costs, worst first."""

    CORRUPTION = "corruption"
    LEAK = "leak"
    ACCOUNTING = "accounting"
    PROTOCOL = "protocol"
    POLICY = "policy"
    WASTE = "waste"
    FAILURE = "failure"


COST = {
    Severity.CORRUPTION: "another context's KV can be served",
    Severity.LEAK: "capacity is lost",
    Severity.ACCOUNTING: "a number lies",
    Severity.PROTOCOL: "an error is silent",
    Severity.POLICY: "the wrong entry is evicted",
    Severity.WASTE: "work is repeated",
    Severity.FAILURE: "no answer can be relied on",
}
"""One clause per severity, for people who read a finding."""


class Rule(Struct, frozen=True):
    """A named statement of the contract."""

    name: str
    severity: Severity
    statement: str
    source: str
    level: str = "tree"
    """The lowest level at which it is judged: ``tree``, ``pool`` or ``requests``; or ``memory``, if
    only of targets whose memory can be looked at; or ``process``, if only of targets that live in a
    process of their own."""


_CORRUPTION, _LEAK, _ACCOUNTING, _PROTOCOL, _POLICY, _WASTE, _FAILURE = Severity

_TABLE = (
    Rule(
        "foreign-slot",
        _CORRUPTION,
        "a matched slot is not a slot stored for exactly that prefix",
        "SGLang #7",
    ),
    Rule(
        "phantom-prefix",
        _CORRUPTION,
        "a match is longer than any stored prefix",
        "SGLang #7, vLLM #4764",
    ),
    Rule(
        "namespace-leak",
        _CORRUPTION,
        "a match answers what another namespace stores",
        "SGLang #24638, #10317",
    ),
    Rule(
        "unaligned-match",
        _CORRUPTION,
        "a matched or existing length is no multiple of the page size",
        "SGLang #20070",
    ),
    Rule(
        "length-mismatch",
        _CORRUPTION,
        "the number of slots is not the length that was matched or asked for",
        "SGLang 2024-01 scheduler",
    ),
    Rule(
        "evicted-locked",
        _CORRUPTION,
        "an evicted slot belongs to a locked prefix",
        "mini-sglang #46, #52",
    ),
    Rule("evicted-unknown", _CORRUPTION, "an evicted slot is not in the tree", "SGLang #28754"),
    Rule(
        "changed-slot",
        _CORRUPTION,
        "an insert replaced slots that the tree already owned",
        "SGLang #35769",
    ),
    Rule(
        "mutated-argument",
        _CORRUPTION,
        "the target changed the caller's buffers, or kept an alias",
        "mini-sglang 94fe255",
    ),
    Rule(
        "handle-mismatch",
        _CORRUPTION,
        "locking a handle protects less than was matched",
        "mini-sglang #46",
    ),
    Rule(
        "double-free",
        _CORRUPTION,
        "a slot that nobody holds is freed, or one that is held becomes free",
        "SGLang #38941, mllm #688",
        "pool",
    ),
    Rule(
        "double-owner",
        _CORRUPTION,
        "a slot that is held is handed out again",
        "vLLM #42571, SGLang #28754",
        "pool",
    ),
    Rule(
        "outside-pool",
        _CORRUPTION,
        "a slot is handed out that is reserved, or beyond the pool",
        "mllm #688, vLLM #42571",
        "pool",
    ),
    Rule(
        "partial-page",
        _CORRUPTION,
        "an alloc answered a page that is not whole, or not aligned",
        "mini-sglang #80",
        "pool",
    ),
    Rule(
        "use-after-free",
        _CORRUPTION,
        "the tree or a running request names a slot that is free",
        "SGLang 0.5.5, Avarok atlas #158",
        "requests",
    ),
    Rule(
        "stale-content",
        _CORRUPTION,
        "a slot holds something else than its prefix wrote",
        "SGLang #24175, nano-vllm f64d821",
        "requests",
    ),
    Rule(
        "wrong-existing-length",
        _LEAK,
        "an insert's answer is not the longest prefix stored before it",
        "SGLang #1787",
    ),
    Rule(
        "orphaned-suffix", _LEAK, "a suffix outlives the prefix it hangs on", "TensorRT-LLM #3735"
    ),
    Rule(
        "under-evicted",
        _LEAK,
        "an eviction freed less than was asked for and evictable",
        "bytedance-iaas/sglang #508",
    ),
    Rule("leaked-slot", _LEAK, "a slot that nobody holds is not free again", "mini-sglang #80"),
    Rule(
        "retained-storage",
        _LEAK,
        "memory grows from round to round by more than what is stored needs",
        "SGLang #17191, #19332",
        "memory",
    ),
    Rule(
        "device-leak",
        _LEAK,
        "the device's allocator does not come back to where it was",
        "SGLang #17191",
        "memory",
    ),
    Rule("refused-with-effect", _LEAK, "a refused operation changed the state", "xLLM #639"),
    Rule("size-drift", _ACCOUNTING, "a reported size differs from what is stored", "mllm #656"),
    Rule(
        "delta-mismatch",
        _ACCOUNTING,
        "a reported change of a size differs from the change",
        "mllm #656",
    ),
    Rule(
        "lock-underflow",
        _PROTOCOL,
        "an unbalanced unlock is accepted, and the locks no longer count",
        "LMCache #5098",
    ),
    Rule(
        "eviction-order",
        _POLICY,
        "the policy forbids this victim while that leaf survives",
        "SGLang #18843",
    ),
    Rule(
        "alloc-order",
        _POLICY,
        "an alloc's slots do not ascend, although the pool promises it",
        "SGLang need_sort",
        "pool",
    ),
    Rule(
        "over-evicted",
        _WASTE,
        "enough was free already without the last victim",
        "SGLang #5556, #4987",
    ),
    Rule(
        "missed-prefix", _WASTE, "a match is shorter than the longest stored prefix", "libart #56"
    ),
    Rule("lost-insert", _WASTE, "the audit no longer finds a stored key", "production-stack #572"),
    Rule(
        "structure",
        _CORRUPTION,
        "the tree's own nodes contradict each other, or what is stored",
        "SGLang #36696, #35821",
    ),
    Rule("nondeterminism", _FAILURE, "the same trace gets another answer", "TokenSpeed #248"),
    Rule(
        "unexpected-error",
        _FAILURE,
        "an operation raised an undeclared exception",
        "SGLang #10637, LightLLM #1348",
    ),
    Rule("crash", _FAILURE, "a call ends the process that makes it", "AIBrix #2052", "process"),
    Rule("hang", _FAILURE, "a call does not come back in time", "SGLang #36855", "process"),
    Rule(
        "divergence",
        _FAILURE,
        "targets part where they should agree",
        "SGLang #33442",
        "process",
    ),
)

RULES: dict[str, Rule] = {rule.name: rule for rule in _TABLE}

PRECEDENCE: dict[str, int] = {name: place for place, name in enumerate(RULES)}

RESERVED_RULES = frozenset("hash-mismatch event-mismatch not-linearizable".split())
"""Rules of hashes and threads, judged by later parts of the harness."""


class Violation(Struct, frozen=True):
    """One rule broken at one operation."""

    rule: str
    operation: str
    """The kind of the operation, such as ``match_prefix``."""
    step: int
    """Index of the operation in its trace."""
    expected: str
    actual: str
    detail: str = ""
    """One more sentence: which slot, which leaf, whose prefix."""
    also: tuple[str, ...] = ()
    """Further rules that the same operation broke."""
    cause: str = ""
    """What a crash died of, in one word. What a bug in memory strikes down is a matter of luck, so
    this and not the operation tells two crashes apart."""

    @property
    def signature(self) -> tuple[str, str]:
        """What shrinking must keep: the rule, and the cause or else the kind of the operation."""
        return self.rule, self.cause or self.operation


FATAL = ("crash", "hang")
"""Rules that only a target in a process of its own can break: each look at one costs a process."""


def worst_first(violations: list[Violation]) -> Violation:
    """Fold the violations of one operation into the one that names the finding."""
    first, *rest = sorted(violations, key=lambda violation: PRECEDENCE[violation.rule])
    others = tuple(dict.fromkeys(other.rule for other in rest if other.rule != first.rule))
    return Violation(
        first.rule, first.operation, first.step, first.expected, first.actual, first.detail, others
    )
