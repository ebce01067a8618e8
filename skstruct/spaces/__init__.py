"""Spaces of labellings. One file per space, with the record and its kernels."""
