"""Training algorithms over generic operations; none of them names a structure."""
