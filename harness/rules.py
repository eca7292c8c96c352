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
    Severity.FAILURE: "the cache does not answer",
}
"""One clause per severity, for people who read a finding."""


class Rule(Struct, frozen=True):
    """A named statement of the contract."""

    name: str
    severity: Severity
    statement: str
    source: str


_CORRUPTION, _LEAK, _ACCOUNTING, _PROTOCOL, _POLICY, _WASTE, _FAILURE = Severity

_TABLE = (
    (
        "foreign-slot",
        _CORRUPTION,
        "a matched slot is not a slot stored for exactly that prefix",
        "SGLang #7",
    ),
    (
        "phantom-prefix",
        _CORRUPTION,
        "a match is longer than any stored prefix",
        "SGLang #7, vLLM #4764",
    ),
    (
        "namespace-leak",
        _CORRUPTION,
        "a match answers what another namespace stores",
        "SGLang #24638, #10317",
    ),
    (
        "unaligned-match",
        _CORRUPTION,
        "a matched or existing length is no multiple of the page size",
        "SGLang #20070",
    ),
    (
        "length-mismatch",
        _CORRUPTION,
        "the number of slots differs from the matched length",
        "SGLang 2024-01 scheduler",
    ),
    (
        "evicted-locked",
        _CORRUPTION,
        "an evicted slot belongs to a locked prefix",
        "mini-sglang #46, #52",
    ),
    ("evicted-unknown", _CORRUPTION, "an evicted slot is not in the tree", "SGLang #28754"),
    (
        "changed-slot",
        _CORRUPTION,
        "an insert replaced slots that the tree already owned",
        "SGLang #35769",
    ),
    (
        "mutated-argument",
        _CORRUPTION,
        "the target changed the caller's buffers, or kept an alias",
        "mini-sglang 94fe255",
    ),
    (
        "handle-mismatch",
        _CORRUPTION,
        "locking a handle protects less than was matched",
        "mini-sglang #46",
    ),
    (
        "wrong-existing-length",
        _LEAK,
        "an insert's answer is not the longest prefix stored before it",
        "SGLang #1787",
    ),
    ("orphaned-suffix", _LEAK, "a suffix outlives the prefix it hangs on", "TensorRT-LLM #3735"),
    (
        "under-evicted",
        _LEAK,
        "an eviction freed less than was asked for and evictable",
        "bytedance-iaas/sglang #508",
    ),
    ("leaked-slot", _LEAK, "a slot left the tree and was not given back", "mini-sglang #80"),
    ("refused-with-effect", _LEAK, "a refused operation changed the state", "xLLM #639"),
    ("size-drift", _ACCOUNTING, "a reported size differs from what is stored", "mllm #656"),
    (
        "delta-mismatch",
        _ACCOUNTING,
        "a reported change of a size differs from the change",
        "mllm #656",
    ),
    (
        "lock-underflow",
        _PROTOCOL,
        "an unbalanced unlock is accepted, and the locks no longer count",
        "LMCache #5098",
    ),
    (
        "eviction-order",
        _POLICY,
        "the policy forbids this victim while that leaf survives",
        "SGLang #18843",
    ),
    (
        "over-evicted",
        _WASTE,
        "enough was free already without the last victim",
        "SGLang #5556, #4987",
    ),
    ("missed-prefix", _WASTE, "a match is shorter than the longest stored prefix", "libart #56"),
    ("lost-insert", _WASTE, "the audit no longer finds a stored key", "production-stack #572"),
    (
        "structure",
        _CORRUPTION,
        "the tree's own nodes contradict each other",
        "SGLang #36696, #35821",
    ),
    ("nondeterminism", _FAILURE, "the same trace gets another answer", "TokenSpeed #248"),
    (
        "unexpected-error",
        _FAILURE,
        "an operation raised an undeclared exception",
        "SGLang #10637, LightLLM #1348",
    ),
)

RULES: dict[str, Rule] = {row[0]: Rule(*row) for row in _TABLE}

PRECEDENCE: dict[str, int] = {name: place for place, name in enumerate(RULES)}

RESERVED_RULES = frozenset(
    """double-free double-owner use-after-free stale-content retained-storage device-leak
    hash-mismatch event-mismatch crash hang divergence not-linearizable""".split()
)
"""Rules of pools, requests, devices, processes and threads, judged by later parts of the
harness."""


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

    @property
    def signature(self) -> tuple[str, str]:
        """What shrinking must keep: the rule and the kind of the operation."""
        return self.rule, self.operation


def worst_first(violations: list[Violation]) -> Violation:
    """Fold the violations of one operation into the one that names the finding."""
    first, *rest = sorted(violations, key=lambda violation: PRECEDENCE[violation.rule])
    others = tuple(dict.fromkeys(other.rule for other in rest if other.rule != first.rule))
    return Violation(
        first.rule, first.operation, first.step, first.expected, first.actual, first.detail, others
    )
