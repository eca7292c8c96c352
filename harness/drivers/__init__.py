"""What proposes traces. Each driver imports its own library and no other driver."""
