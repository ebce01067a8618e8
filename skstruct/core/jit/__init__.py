"""Everything that depends on numba: dispatch of the verbs, the cache on disk, compiler tricks."""
