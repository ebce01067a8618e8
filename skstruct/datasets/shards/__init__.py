"""Shards: packed samples in files, which fit and predict read in place."""

from .packing import pack_shards
from .reading import Shard, Shards

__all__ = ["Shard", "Shards", "pack_shards"]
