"""Shards: packed samples in files, which fit and predict read in place."""
