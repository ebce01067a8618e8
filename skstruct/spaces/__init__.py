"""Spaces: which labellings exist. A file each, with the record and its kernels."""
