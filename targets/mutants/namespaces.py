"""Bugs of namespaces: two that should be apart share a tree."""

from __future__ import annotations

from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import Node, RadixPaged


@mutant("sglang-24638-joined-namespace", "SGLang #24638", "namespace-leak", "phantom-prefix")
class JoinsTheNamespace(RadixPaged):
    """Joins the parts of a namespace into one string."""

    def _root(self, namespace: tuple[str, ...]) -> Node:
        return super()._root(("".join(namespace),))


@mutant("sglang-10317-native-no-namespace", "SGLang #10317", "namespace-leak", "phantom-prefix")
class DropsTheNamespace(RadixPaged):
    """Keeps one tree for all namespaces."""

    def _root(self, namespace: tuple[str, ...]) -> Node:
        return super()._root(())


@mutant("vllm-44701-adapter-is-salt", "vLLM #44701", "namespace-leak", "hash-mismatch", page_size=4)
class ForgetsWhichPartIsEmpty(RadixPaged):
    """Takes an adapter without a salt for a salt of the same name without an adapter."""

    def _root(self, namespace: tuple[str, ...]) -> Node:
        return super()._root(tuple(part for part in namespace if part))
