"""The reference: what a cache must store, too simple to be wrong, and which victims its policy
allows."""
