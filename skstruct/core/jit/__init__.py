"""Everything that depends on numba: dispatch of operations, cache on disk, compiler options."""
