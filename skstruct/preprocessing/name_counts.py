"""What the parts of a corpus have of named features: counts that add up."""

from __future__ import annotations


class NameCounts:
    """In how many tokens each feature occurs."""

    def __init__(self, n_tokens: int, names: dict, vector_lengths: dict) -> None:
        self.n_tokens, self.names, self.vector_lengths = n_tokens, names, vector_lengths

    def add(self, other: NameCounts) -> None:
        """Add those of the next part."""
        for name, length in other.vector_lengths.items():
            before = self.vector_lengths.setdefault(name, length)
            if before != length:
                raise ValueError(
                    f"X: {name!r} is a list of {length} numbers, before it had {before}"
                )
        self.n_tokens += other.n_tokens
        for name, n in other.names.items():
            self.names[name] = self.names.get(name, 0) + n
