"""radixcheck: a correctness and fuzzing harness for radix-tree prefix caches."""
