"""Training on shards: rounds of solvers, checkpoints, and who computes: threads, or Dask."""
