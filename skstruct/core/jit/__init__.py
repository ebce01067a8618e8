"""Everything that knows numba: dispatch of the verbs, the cache on disk, compiler tricks."""
