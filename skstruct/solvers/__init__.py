"""Training algorithms over the generic verbs; none of them names a structure."""
